package curfewpgx_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewpgx "github.com/curfew-go/curfew/adapters/pgx"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/budget/wire"
	"github.com/curfew-go/curfew/internal/servers"
	"github.com/curfew-go/curfew/internal/stress"
)

// Case 53: a cancel that comes late kills the next query.
func TestCase53_ACancelNeverReachesTheNextStatement(t *testing.T) {
	server := start(t)
	cancelAndReuse(t, server, newPool(t, config(t, server, server.Addr(), pgx.QueryExecModeCacheStatement), 8, curfewpgx.Slush(tight)))
}

func TestCase53_ACancelNeverReachesTheNextStatementThroughPgBouncer(t *testing.T) {
	server := start(t)
	bouncer := servers.StartPgBouncer(t, server, "default_pool_size=12", "min_pool_size=12") // cancels need some
	cfg := config(t, bouncer, bouncer.Addr(), pgx.QueryExecModeExec)
	cancelAndReuse(t, server, newPool(t, cfg, 4, curfewpgx.BehindPooler(), curfewpgx.Slush(tight)))
}

// tight has the cancel request of a call without deadline sent 40 ms after its cancel,
// and half of a deadline's time is the server's limit.
var tight = wire.Slush{Share: 0.5, Cap: 200 * time.Millisecond}

// cancelAndReuse ends statements at instants around their own end, by cancel requests and
// by limits, and uses the connection again at once. Other workers keep the server busy.
// A machine so busy that requests do not come back in time costs connections, and the
// time to make new ones, but no wrong answer. Where every request comes after the end,
// one round in eight sleeps so long that it is the request, or the limit, that ends it, and
// one in sixteen is left alone.
func cancelAndReuse(t *testing.T, server *servers.Server, pool *pgxpool.Pool) {
	const statement, endless = "select pg_sleep(0.043), $1::int", "select pg_sleep(600), $1::int"
	require.NoError(t, run(t.Context(), pool, "select 1, $1::int")) // a pooler has met its server
	workers := int(pool.Config().MaxConns)
	var limited, cancelled, done, spurious, fresh atomic.Int64
	var wait sync.WaitGroup
	backends := sync.Map{}
	round := func(w, i int) {
		conn, err := pool.Acquire(context.Background())
		if !assert.NoError(t, err) {
			return
		}
		defer conn.Release()
		if _, known := backends.LoadOrStore(conn.Conn().PgConn().PID(), true); !known {
			fresh.Add(1)
		}
		var ctx context.Context
		var cancel context.CancelFunc
		switch {
		case i%16 == 2: // sure to come to its end
			ctx, cancel = context.WithCancel(context.Background())
		case i%2 == 0:
			ctx, cancel = context.WithTimeout(context.Background(), 82*time.Millisecond+rand.N(8*time.Millisecond))
		default:
			ctx, cancel = context.WithCancel(context.Background())
			time.AfterFunc(time.Millisecond+rand.N(4*time.Millisecond), cancel)
		}
		defer cancel()
		if i%16 < 2 {
			err = run(ctx, conn, endless)
			assert.Error(t, err)
		} else {
			err = run(ctx, conn, statement)
		}
		switch kind := budget.KindOf(err); kind {
		case budget.None:
			done.Add(1)
		case budget.DeadlineExceeded, budget.LocalBudgetRejected: // the last on a machine that was busy for all of it
			limited.Add(1)
		case budget.Cancelled:
			cancelled.Add(1)
		default:
			assert.NoError(t, err, "worker %d round %d: %v", w, i, kind)
		}
		if conn.Conn().IsClosed() {
			return
		}
		if err := run(context.Background(), conn, "select 1, $1::int"); err != nil {
			spurious.Add(1)
			assert.NoError(t, err)
		}
		assert.Equal(t, byte('I'), conn.Conn().PgConn().TxStatus())
	}
	for w := range workers {
		wait.Go(func() {
			for i := range stress.Shown(240, 10_000) / workers {
				round(w, i)
			}
		})
	}
	wait.Wait()
	t.Logf("%d ended by themselves, %d by the limit, %d by a cancel, %d spurious, %d connections",
		done.Load(), limited.Load(), cancelled.Load(), spurious.Load(), fresh.Load())
	assert.Zero(t, spurious.Load())
	assert.NotZero(t, limited.Load())
	assert.NotZero(t, cancelled.Load())
	assert.NotZero(t, done.Load())
	pool.Close() // waits for connections that were given up
	assert.Zero(t, pool.Stat().TotalConns(), "leaked")

	watcher := bare(t, config(t, server, server.Addr(), pgx.QueryExecModeExec))
	var open int
	require.NoError(t, watcher.QueryRow(t.Context(), "select count(*) from pg_stat_activity where state like 'idle in%' and datname = current_database()").Scan(&open))
	assert.Zero(t, open, "open transactions")
}

func TestAUserCancelKeepsTheBackend(t *testing.T) {
	server := start(t)
	eachModeAtOnce(t, func(t *testing.T, mode pgx.QueryExecMode) {
		cfg := config(t, server, server.Addr(), mode)
		conn := connect(t, cfg, curfewpgx.Slush(roomy))
		require.NoError(t, conn.Ping(t.Context()))
		pid := conn.PgConn().PID()
		for _, bounded := range []bool{false, true} {
			ctx, cancel := context.WithCancel(t.Context())
			if bounded {
				ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
			}
			time.AfterFunc(50*time.Millisecond, cancel)
			began := time.Now()
			err := run(ctx, conn, runaways["sleep"])
			t.Logf("back after %v: %v", time.Since(began), err)
			assert.Equal(t, budget.Cancelled, budget.KindOf(err), "%v", err)
			assert.Less(t, time.Since(began), late)
			require.NoError(t, run(t.Context(), conn, "select 1, $1::int"))
			assert.Equal(t, pid, conn.PgConn().PID())
		}
		stats := curfewpgx.StatsOf(cfg)
		assert.EqualValues(t, 2, stats.CancelRequests)
		assert.Zero(t, stats.CancelsUnheard)
	})
}
