package curfewpgx_test

import (
	"bytes"
	"context"
	"database/sql"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewpgx "github.com/curfew-go/curfew/adapters/pgx"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/netproxy"
	"github.com/curfew-go/curfew/internal/servers"
)

// A backend that hangs while its server is well must not keep a place from the pool.
func TestALoginTakesThePlaceOfASessionThatHangs(t *testing.T) {
	server := start(t)
	proxy := netproxy.New(t, server.Addr())
	cfg := config(t, server, proxy.Addr(), pgx.QueryExecModeCacheStatement)
	cfg.RuntimeParams["application_name"] = t.Name()[:40]
	watcher := bare(t, config(t, server, server.Addr(), pgx.QueryExecModeExec))
	pool := newPool(t, cfg, 1)
	before := pidOf(t, pool)
	proxy.OnSend(func(b []byte) netproxy.Fate {
		if bytes.Contains(b, []byte("hang")) {
			return netproxy.Silenced
		}
		return netproxy.Pass
	})
	assert.Error(t, run(within(t, shortly), pool, "select 'hang', $1::int"))
	began := time.Now()
	assert.NotEqual(t, before, pidOf(t, pool))
	assertTook(t, time.Since(began), 0, 250*time.Millisecond, "until there was another connection")
	require.Eventually(t, func() bool {
		var n int
		require.NoError(t, watcher.QueryRow(t.Context(), "select count(*) from pg_stat_activity where application_name = $1", t.Name()[:40]).Scan(&n))
		return n == 1
	}, late, time.Millisecond, "the session is closed")
}

func TestOverTLSASessionComesBackAndItsCancelsAreEncrypted(t *testing.T) {
	server := servers.Start(t, servers.PostgreSQL)
	secure := encrypt(t, server)
	proxy := netproxy.New(t, server.Addr())
	var plain atomic.Int64 // cancel requests that anybody could read
	proxy.OnSend(func(b []byte) netproxy.Fate {
		if bytes.HasPrefix(b, []byte{0, 0, 0, 16, 0x04, 0xd2, 0x16, 0x2e}) {
			plain.Add(1)
		}
		return netproxy.Pass
	})
	cfg := config(t, server, proxy.Addr(), pgx.QueryExecModeCacheStatement)
	cfg.TLSConfig = secure
	pool := newPool(t, cfg, 1, curfewpgx.Slush(roomy), curfewpgx.Patience(late))
	before := pidOf(t, pool)
	for range 2 { // the second session is one that was kept before
		whileFrozen(server, func() { assert.Error(t, run(within(t, shortly), pool, "select 1, $1::int")) })
		assert.Equal(t, before, pidOf(t, pool))
		var encrypted bool
		require.NoError(t, pool.QueryRow(t.Context(), "select ssl from pg_stat_ssl where pid = $1", before).Scan(&encrypted))
		assert.True(t, encrypted)
		conns := proxy.Conns()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(20*time.Millisecond, cancel)
		err := run(ctx, pool, runaways["sleep"])
		assert.Equal(t, budget.Cancelled, budget.KindOf(err), "%v", err)
		assert.Equal(t, before, pidOf(t, pool), "the cancel was heard, and its end seen")
		assert.Equal(t, conns+1, proxy.Conns())
	}
	assert.Zero(t, plain.Load())
	require.NoError(t, pool.AcquireFunc(t.Context(), func(conn *pgxpool.Conn) error { // who takes the configuration meets the server as ever
		return bare(t, conn.Conn().Config()).Ping(t.Context())
	}))
}

func TestUnderDatabaseSQLASessionComesBackToo(t *testing.T) {
	server := servers.Start(t, servers.PostgreSQL)
	cfg := config(t, server, server.Addr(), pgx.QueryExecModeCacheStatement)
	curfewpgx.Configure(cfg, curfewpgx.Patience(late))
	db := sql.OpenDB(stdlib.GetConnector(*cfg))
	defer db.Close()
	db.SetMaxOpenConns(1)
	pid := func() (pid int) {
		require.NoError(t, db.QueryRowContext(within(t, late), "select pg_backend_pid()").Scan(&pid))
		return pid
	}
	before := pid()
	whileFrozen(server, func() {
		_, err := db.ExecContext(within(t, shortly), "select 1")
		assert.Error(t, err)
		_, err = db.ExecContext(within(t, 2*shortly), "select 1")
		assert.Error(t, err, "a login in the freeze")
	})
	assert.Equal(t, before, pid())
}

func TestFreshSessionsLogIn(t *testing.T) {
	server := servers.Start(t, servers.PostgreSQL)
	pool := newPool(t, config(t, server, server.Addr(), pgx.QueryExecModeCacheStatement), 1, curfewpgx.FreshSessions())
	before := pidOf(t, pool)
	whileFrozen(server, func() { assert.Error(t, run(within(t, shortly), pool, "select 1, $1::int")) })
	assert.NotEqual(t, before, pidOf(t, pool))
}
