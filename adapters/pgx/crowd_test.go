package curfewpgx_test

import (
	"bytes"
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewpgx "github.com/curfew-go/curfew/adapters/pgx"
	"github.com/curfew-go/curfew/budget/wire"
	"github.com/curfew-go/curfew/internal/netproxy"
)

// leave has many connections of one configuration wait in the server, and cancels all of
// these calls at once. It returns the connections and how many were made for the cancels,
// each of which goes through wrap, if that is not nil.
func leave(t *testing.T, addr string, many int, wrap func(net.Conn) net.Conn) (conns []*pgx.Conn, dialled int64) {
	server := start(t)
	if addr == "" {
		addr = server.Addr()
	}
	cfg := config(t, server, addr, pgx.QueryExecModeExec)
	var dials atomic.Int64
	dial := cfg.DialFunc
	cfg.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if dials.Add(1) > int64(many) && wrap != nil && err == nil {
			conn = wrap(conn)
		}
		return conn, err
	}
	curfewpgx.Configure(cfg, curfewpgx.Slush(wire.Slush{Share: 0.5, Cap: 30 * time.Second}))
	pids := make([]int32, many)
	for i := range pids {
		conn, err := pgx.ConnectConfig(t.Context(), cfg)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close(context.Background()) })
		conns, pids[i] = append(conns, conn), int32(conn.PgConn().PID())
	}
	watcher := bare(t, config(t, server, server.Addr(), pgx.QueryExecModeExec))
	active := func() (n int) {
		require.NoError(t, watcher.QueryRow(t.Context(),
			"select count(*) from pg_stat_activity where state = 'active' and query like '%pg_sleep(60)%' and pid <> pg_backend_pid()").Scan(&n))
		return n
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	for _, conn := range conns {
		wait.Go(func() { assert.ErrorIs(t, run(ctx, conn, runaways["sleep"]), context.Canceled) })
	}
	require.Eventually(t, func() bool { return active() == many }, 30*time.Second, 5*time.Millisecond)
	before := dials.Load()
	cancel()
	wait.Wait()
	if wrap != nil {
		return conns, dials.Load() - before
	}
	assert.Zero(t, active())
	for i, conn := range conns {
		require.NoError(t, run(t.Context(), conn, "select 1, $1::int"), "used again at once")
		assert.EqualValues(t, pids[i], conn.PgConn().PID())
	}
	return conns, dials.Load() - before
}

// A cancel request is a connection and a process of the server, and many at once are too
// many for it.
func TestManyCallsThatAreCancelledAtOnceShareAConnectionForThat(t *testing.T) {
	const many = 40
	_, dialled := leave(t, "", many, nil)
	t.Logf("%d connections for %d cancels", dialled, many)
	assert.Less(t, dialled, int64(many/2))
}

// Between us and the server stands something that has connections of its own. No process
// is proven to be ours by its id alone then, and each call sends its request.
func TestManyCallsAreCancelledThroughAProxyToo(t *testing.T) {
	const many = 10
	proxy := netproxy.New(t, start(t).Addr())
	_, dialled := leave(t, proxy.Addr(), many, nil)
	t.Logf("%d connections for %d cancels", dialled, many)
	assert.GreaterOrEqual(t, dialled, int64(many), "of which one found nobody")
}

// The connection that many share is lost in the instant in which it was told whom to
// signal. Nobody knows whether the server hears of it yet, so none of these may be used again,
// not even by one that would get a request of its own through.
func TestWhoMayStillBeSignalledIsNotUsedAgain(t *testing.T) {
	const many = 40
	conns, _ := leave(t, "", many, func(c net.Conn) net.Conn { return &losing{Conn: c} })
	closed := 0
	for _, conn := range conns {
		if conn.IsClosed() {
			closed++
		}
	}
	t.Logf("%d of %d are given up", closed, many)
	assert.Greater(t, closed, many/2)
}

// losing is lost when a signal is sent over it.
type losing struct{ net.Conn }

func (c *losing) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("pg_cancel_backend")) {
		_ = c.Close()
		return len(p), nil
	}
	return c.Conn.Write(p)
}
