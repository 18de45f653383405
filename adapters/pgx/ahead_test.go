package curfewpgx_test

import (
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
)

// An aheadConn notes what becomes of the connection of a cancel request.
type aheadConn struct {
	net.Conn
	wrote, closed atomic.Bool
}

func (c *aheadConn) Write(p []byte) (int, error) {
	c.wrote.Store(true)
	return c.Conn.Write(p)
}

func (c *aheadConn) Close() error {
	c.closed.Store(true)
	return c.Conn.Close()
}

// The connection of a cancel request is begun before the request is due. When the call has its answer by then,
// nothing is written there, and the call's own connection goes on.
func TestTheConnectionOfACancelIsBegunAheadAndClosedUnusedWhenTheAnswerComesFirst(t *testing.T) {
	server := start(t)
	holder := bare(t, config(t, server, server.Addr(), pgx.QueryExecModeExec))
	exec := func(ctx context.Context, conn *pgx.Conn, sql string) {
		_, err := conn.Exec(ctx, sql)
		require.NoError(t, err)
	}
	// A busy machine may let the lock go too late, and then the request is sent: the next round is another try.
	for range 50 {
		cfg := config(t, server, server.Addr(), pgx.QueryExecModeExec)
		dial, ahead := cfg.DialFunc, make(chan *aheadConn, 1)
		var first sync.Once
		cfg.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dial(ctx, network, addr)
			own := false
			first.Do(func() { own = true })
			if own || err != nil {
				return conn, err
			}
			a := &aheadConn{Conn: conn}
			ahead <- a
			return a, nil
		}
		conn := connect(t, cfg, curfewpgx.Slush(wire.Slush{Share: 0.5, Cap: 30 * time.Second})) // steps of a second
		exec(t.Context(), holder, "select pg_advisory_lock(7)")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := conn.Exec(ctx, "select pg_advisory_lock(7)")
			ended <- err
		}()
		require.Eventually(t, func() bool {
			var waits bool
			require.NoError(t, holder.QueryRow(t.Context(), "select exists (select from pg_locks where locktype = 'advisory' and not granted)").Scan(&waits))
			return waits
		}, 10*time.Second, time.Millisecond)
		cancel()
		var a *aheadConn
		select {
		case a = <-ahead:
		case <-time.After(10 * time.Second):
			t.Fatal("nothing was dialled")
		}
		exec(t.Context(), holder, "select pg_advisory_unlock(7)")
		err := <-ended
		if a.wrote.Load() {
			continue
		}
		assert.NoError(t, err, "the answer came")
		assert.True(t, a.closed.Load())
		assert.Zero(t, curfewpgx.StatsOf(conn.Config()).CancelRequests)
		exec(t.Context(), conn, "select pg_advisory_unlock(7)")
		return
	}
	t.Fatal("no answer came before the request was due")
}
