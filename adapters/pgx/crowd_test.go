package curfewpgx_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"regexp"
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
	for began := time.Now(); active() < many; <-time.After(5 * time.Millisecond) {
		require.Less(t, time.Since(began), 30*time.Second)
	}
	before := dials.Load()
	cancel()
	wait.Wait()
	if wrap != nil {
		for began := time.Now(); active() > 0; <-time.After(5 * time.Millisecond) {
			require.Less(t, time.Since(began), late, "statements run on")
		}
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
	conns, dialled := leave(t, "", many, nil)
	t.Logf("%d connections for %d cancels", dialled, many)
	assert.Less(t, dialled, int64(many/2))
	stats := curfewpgx.StatsOf(conns[0].Config())
	assert.EqualValues(t, many, stats.CancelSignals+stats.CancelRequests, "%+v", stats)
	assert.Less(t, stats.CancelRequests, dialled, "one is for the signals")
	assert.Zero(t, stats.CancelsUnheard)
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
// not even by one that is signalled over another connection or by a request of its own. That one
// comes all the same, or their statements would run to the server's limit.
func TestWhoMayStillBeSignalledIsNotUsedAgain(t *testing.T) {
	for name, lost := range map[string]*losses{
		"once":      {left: 1},
		"each time": {left: 1 << 30},
		"each time, and their first requests are late": {left: 1 << 30, late: map[uint32]bool{}},
	} {
		t.Run(name, func(t *testing.T) {
			lost.pids = map[string]bool{}
			conns, _ := leave(t, "", 40, func(c net.Conn) net.Conn { return &losing{c, lost} })
			for _, conn := range conns {
				if lost.pids[fmt.Sprint(conn.PgConn().PID())] {
					assert.True(t, conn.IsClosed())
				}
			}
			t.Logf("%d of %d are given up", len(lost.pids), len(conns))
			assert.NotEmpty(t, lost.pids)
		})
	}
}

type losses struct {
	mu   sync.Mutex
	left int64           // guarded by mu
	pids map[string]bool // guarded by mu: whom the server was told to signal, and may not have heard of
	late map[uint32]bool // guarded by mu: whose first request was too late to be sent; nil: nobody's is
}

// losing is lost when a signal is sent over it. A request may be too late instead.
type losing struct {
	net.Conn
	losses *losses
}

const cancelRequest = 80877102 // its code

var whom = regexp.MustCompile(`\((\d+),\d+\)`)

func (c *losing) Write(p []byte) (int, error) {
	c.losses.mu.Lock()
	defer c.losses.mu.Unlock()
	if c.losses.late != nil && len(p) >= 12 && binary.BigEndian.Uint32(p[4:]) == cancelRequest {
		if pid := binary.BigEndian.Uint32(p[8:]); !c.losses.late[pid] {
			c.losses.late[pid] = true
			return 0, os.ErrDeadlineExceeded
		}
	}
	if c.losses.left == 0 || !bytes.Contains(p, []byte("pg_cancel_backend")) {
		return c.Conn.Write(p)
	}
	c.losses.left--
	for _, found := range whom.FindAllSubmatch(p, -1) {
		c.losses.pids[string(found[1])] = true
	}
	_ = c.Close()
	return len(p), nil
}
