package curfewpgx_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewpgx "github.com/curfew-go/curfew/adapters/pgx"
	"github.com/curfew-go/curfew/budget/wire"
	"github.com/curfew-go/curfew/internal/netproxy"
	"github.com/curfew-go/curfew/internal/servers"
	"github.com/curfew-go/curfew/internal/stress"
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

func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }

var databases atomic.Int64

// start returns the server that the tests share, with an empty database of the test's own.
// LLVM, which looks at no limit while it compiles, is off.
func start(tb testing.TB) *servers.Server {
	tb.Helper()
	s := servers.Shared(tb, servers.PostgreSQL, "jit=off", "max_connections=200")
	name := fmt.Sprintf("test%d", databases.Add(1))
	conn, err := pgx.Connect(context.Background(), s.DSN())
	require.NoError(tb, err)
	defer conn.Close(context.Background())
	_, err = conn.Exec(context.Background(), "create database "+name)
	require.NoError(tb, err)
	return s.InDatabase(name)
}

// eachModeAtOnce is eachMode for what waits more than it works.
func eachModeAtOnce(t *testing.T, f func(t *testing.T, mode pgx.QueryExecMode)) {
	eachMode(t, func(t *testing.T, mode pgx.QueryExecMode) {
		t.Parallel()
		f(t, mode)
	})
}

// late is when what takes a minute must have ended, on a machine however busy.
const late = 15 * time.Second

// assertTook says that something took between least and most, which holds on a machine
// that does nothing else and is only asked for under CURFEW_STRESS.
func assertTook(tb testing.TB, took, least, most time.Duration, what string) {
	tb.Helper()
	tb.Logf("%s: %v", what, took)
	if stress.Level() > 0 {
		assert.GreaterOrEqual(tb, took, least, what)
		assert.LessOrEqual(tb, took, most, what)
	}
	assert.Less(tb, took, late, what)
}

// assertLimit says that a statement_timeout as the server shows it was set from a deadline of d
// a moment ago.
func assertLimit(tb testing.TB, d time.Duration, shown string) {
	tb.Helper()
	limit, err := time.ParseDuration(shown)
	require.NoError(tb, err, shown)
	assert.Less(tb, limit, d)
	assert.Greater(tb, limit, d/3)
}

// A cut is how a proxy ends the connection of a client that commits.
type cut int

const (
	uncut   cut = iota
	before      // COMMIT does not reach the server
	half        // a part of it does
	during      // it does, and both ends are closed at once
	after       // its answer is lost
	stalled     // its answer is held back, and the connection stays
	held        // COMMIT is held back, and the connection stays
)

// cutAtCommit has the connection that sends the next COMMIT through p ended so. It returns what is set
// when that happened.
func cutAtCommit(p *netproxy.Proxy, how cut) (hit *atomic.Bool) {
	hit = new(atomic.Bool)
	fate := map[cut]netproxy.Fate{before: netproxy.Drop, half: netproxy.Half, during: netproxy.Last, stalled: netproxy.Silenced, held: netproxy.Lost}[how]
	var sent atomic.Bool
	p.OnSend(func(b []byte) netproxy.Fate {
		if how == uncut || !bytes.Contains(b, []byte("commit\x00")) || sent.Swap(true) {
			return netproxy.Pass
		}
		hit.Store(how != after)
		return fate
	})
	p.OnAnswer(func(b []byte) netproxy.Fate {
		if how == after && sent.Load() && bytes.Contains(b, []byte("COMMIT\x00")) {
			hit.Store(true)
			return netproxy.Drop
		}
		return netproxy.Pass
	})
	return hit
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
	curfewpgx.Configure(cfg, opts...)
	return barePool(tb, cfg, size)
}

// barePool opens a pool as pgx has it.
func barePool(tb testing.TB, cfg *pgx.ConnConfig, size int32) *pgxpool.Pool {
	tb.Helper()
	pc, err := pgxpool.ParseConfig("")
	require.NoError(tb, err)
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
var roomy = wire.Slush{Share: 0.5, Cap: 3 * time.Second}
