package curfewpgx_test

import (
	"bytes"
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewpgx "github.com/curfew-go/curfew/adapters/pgx"
	"github.com/curfew-go/curfew/internal/servers"
)

// A firstWrite counts the connections that begin with a startup message in the clear.
type firstWrite struct {
	net.Conn
	plain *atomic.Int64
	once  sync.Once
}

func (f *firstWrite) Write(p []byte) (int, error) {
	f.once.Do(func() {
		if len(p) > 8 && bytes.Equal(p[4:8], []byte{0, 3, 0, 0}) {
			f.plain.Add(1)
		}
	})
	return f.Conn.Write(p)
}

func TestADialFuncThatReplacesOursIsNotAskedForASessionThatIsKept(t *testing.T) {
	server := servers.Start(t, servers.PostgreSQL)
	cfg := config(t, server, server.Addr(), pgx.QueryExecModeCacheStatement)
	cfg.TLSConfig = encrypt(t, server)
	curfewpgx.Configure(cfg)
	pc, err := pgxpool.ParseConfig("")
	require.NoError(t, err)
	var dials, plain atomic.Int64
	pc.ConnConfig, pc.MaxConns = cfg, 1
	pc.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
		c.DialFunc = func(ctx context.Context, _, _ string) (net.Conn, error) { // as the connectors of clouds do
			dials.Add(1)
			conn, err := new(net.Dialer).DialContext(ctx, "tcp", server.Addr())
			return &firstWrite{Conn: conn, plain: &plain}, err
		}
		return nil
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), pc)
	require.NoError(t, err)
	defer pool.Close()
	before := pidOf(t, pool)
	whileFrozen(server, func() { assert.Error(t, run(within(t, shortly), pool, "select 1, $1::int")) })
	assert.NotEqual(t, before, pidOf(t, pool))
	assert.GreaterOrEqual(t, dials.Load(), int64(2))
	assert.Zero(t, plain.Load(), "user and database went over the network in the clear")
}

func TestAReplicationConnectionSpeaksItsOwnLanguage(t *testing.T) {
	server := servers.Start(t, servers.PostgreSQL, "wal_level=logical")
	cfg := config(t, server, server.Addr(), pgx.QueryExecModeSimpleProtocol)
	cfg.RuntimeParams["replication"] = "database"
	conn := connect(t, cfg)
	ctx := within(t, late)
	for _, command := range []string{"IDENTIFY_SYSTEM", "CREATE_REPLICATION_SLOT ours TEMPORARY LOGICAL test_decoding", "select 1", "DROP_REPLICATION_SLOT ours"} {
		_, err := conn.Exec(ctx, command)
		assert.NoError(t, err, command)
	}
}
