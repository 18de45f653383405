package curfewpgx_test

import (
	"context"
	"net"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	curfewpgx "github.com/curfew-go/curfew/adapters/pgx"
	"github.com/curfew-go/curfew/budget/wire"
	"github.com/curfew-go/curfew/internal/servers"
)

// modes are pgx's ways to run a query. They differ in what they write.
var modes = []pgx.QueryExecMode{
	pgx.QueryExecModeCacheStatement,
	pgx.QueryExecModeCacheDescribe,
	pgx.QueryExecModeDescribeExec,
	pgx.QueryExecModeExec,
	pgx.QueryExecModeSimpleProtocol,
}

func eachMode(t *testing.T, f func(t *testing.T, mode pgx.QueryExecMode)) {
	for _, mode := range modes {
		t.Run(mode.String(), func(t *testing.T) { f(t, mode) })
	}
}

// stress multiplies rounds.
func stress(rounds int) int {
	if n, err := strconv.Atoi(os.Getenv("CURFEW_STRESS")); err == nil && n > 1 {
		return rounds * n
	}
	return rounds
}

// config is how to reach server through addr, which may be a proxy's.
func config(tb testing.TB, server *servers.Server, addr string, mode pgx.QueryExecMode) *pgx.ConnConfig {
	tb.Helper()
	cfg, err := pgx.ParseConfig(server.DSN())
	require.NoError(tb, err)
	host, port, err := net.SplitHostPort(addr)
	require.NoError(tb, err)
	n, err := strconv.Atoi(port)
	require.NoError(tb, err)
	cfg.Host, cfg.Port = host, uint16(n)
	cfg.DefaultQueryExecMode = mode
	return cfg
}

// connect opens a connection with deadlines in the server.
func connect(tb testing.TB, cfg *pgx.ConnConfig, opts ...curfewpgx.Option) *pgx.Conn {
	tb.Helper()
	curfewpgx.Configure(cfg, opts...)
	return bare(tb, cfg)
}

// bare opens a connection as pgx has it.
func bare(tb testing.TB, cfg *pgx.ConnConfig) *pgx.Conn {
	tb.Helper()
	conn, err := pgx.ConnectConfig(context.Background(), cfg)
	require.NoError(tb, err)
	tb.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

// newPool opens a pool with deadlines in the server, at most size connections.
func newPool(tb testing.TB, cfg *pgx.ConnConfig, size int32, opts ...curfewpgx.Option) *pgxpool.Pool {
	tb.Helper()
	pc, err := pgxpool.ParseConfig("")
	require.NoError(tb, err)
	curfewpgx.Configure(cfg, opts...)
	pc.ConnConfig, pc.MaxConns = cfg, size
	pool, err := pgxpool.NewWithConfig(context.Background(), pc)
	require.NoError(tb, err)
	tb.Cleanup(pool.Close)
	return pool
}

// within is a ctx that ends after d and with the test.
func within(tb testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	tb.Cleanup(cancel)
	return ctx
}

// roomy is a slush with time for a cancel on a busy machine.
var roomy = wire.Slush{Share: 0.5, Cap: time.Second}
