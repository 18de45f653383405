package curfewpgx_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewpgx "github.com/curfew-go/curfew/adapters/pgx"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/netproxy"
	"github.com/curfew-go/curfew/internal/servers"
	"github.com/curfew-go/curfew/internal/stress"
)

// Case 50: a COMMIT whose answer is lost must not read as a failure to commit.
func TestCase50_ACommitWithoutAnswerIsTheDeadlineAndNotAnAnswer(t *testing.T) {
	server := servers.Start(t, servers.PostgreSQL)
	conn := connect(t, config(t, server, server.Addr(), pgx.QueryExecModeExec))
	tx, err := conn.Begin(within(t, time.Minute))
	require.NoError(t, err)
	server.Freeze()
	ctx := within(t, 300*time.Millisecond)
	began := time.Now()
	err = curfewpgx.Error(ctx, tx.Commit(ctx))
	took := time.Since(began)
	server.Thaw()
	assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err), "%v", err)
	assert.Empty(t, stateOf(err))
	assert.False(t, pgconn.SafeToRetry(err))
	assertTook(t, took, limit-60*time.Millisecond, limit+60*time.Millisecond, "until the deadline")
}

// The row is there, and who tries again without asking meets it.
func TestCase50_ACommitWithoutAnswerIsUnknownWithItsIDAndResolveSaysCommitted(t *testing.T) {
	server := start(t)
	watcher := bare(t, config(t, server, server.Addr(), pgx.QueryExecModeExec))
	_, err := watcher.Exec(t.Context(), "create table orders (key text primary key)")
	require.NoError(t, err)
	eachModeAtOnce(t, func(t *testing.T, mode pgx.QueryExecMode) {
		proxy := netproxy.New(t, server.Addr())
		pool := newPool(t, config(t, server, proxy.Addr(), mode), 1)
		for name, commit := range map[string]func(ctx context.Context, f func(ctx context.Context, tx pgx.Tx) error) error{
			"WithTx": func(ctx context.Context, f func(ctx context.Context, tx pgx.Tx) error) error {
				return curfewpgx.WithTx(ctx, pool, budget.Inherited(), f)
			},
			"Commit": func(ctx context.Context, f func(ctx context.Context, tx pgx.Tx) error) error {
				tx, err := pool.Begin(ctx)
				if err != nil {
					return curfewpgx.Error(ctx, err)
				}
				defer tx.Rollback(context.Background())
				if err := f(ctx, tx); err != nil {
					return curfewpgx.Error(ctx, err)
				}
				return curfewpgx.Error(ctx, tx.Commit(ctx))
			},
		} {
			key := mode.String() + " " + name
			var id string
			hit := new(atomic.Bool)
			insert := func(ctx context.Context, tx pgx.Tx) error {
				if _, err := tx.Exec(ctx, "insert into orders values ($1)", key); err != nil {
					return err
				}
				if err := tx.QueryRow(ctx, "select pg_current_xact_id()::text").Scan(&id); err != nil {
					return err
				}
				hit = cutAtCommit(proxy, stalled)
				return nil
			}
			var err error
			for d := 250 * time.Millisecond; !hit.Load(); d *= 2 { // until that is time enough for COMMIT
				require.Less(t, d, 2*late)
				err = commit(within(t, d), insert)
			}
			cutAtCommit(proxy, uncut)
			var e *curfewpgx.CommitError
			require.True(t, errors.As(err, &e), "%s: %v", key, err)
			assert.Equal(t, curfewpgx.Unknown, e.Outcome, key)
			assert.Equal(t, id, fmt.Sprint(e.XID), key)
			assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err), key)
			was, err := curfewpgx.Resolve(within(t, late), pool, err)
			require.NoError(t, err)
			assert.Equal(t, curfewpgx.CommittedLate, was, key)
			err = commit(within(t, late), insert)
			assert.Equal(t, "23505", stateOf(err), "%v", err)
		}
	})
}

// limit is the deadline of who meets a frozen server.
const limit = 300 * time.Millisecond

func TestAFrozenServerCostsNoMoreThanTheDeadlineAndThePoolComesBack(t *testing.T) {
	server := servers.Start(t, servers.PostgreSQL)
	admin := bare(t, config(t, server, server.Addr(), pgx.QueryExecModeExec))
	_, err := admin.Exec(t.Context(), "create table frozen (n int)")
	require.NoError(t, err)
	for name, size := range map[string]int32{"one connection": 1, "four connections": 4} {
		t.Run(name, func(t *testing.T) {
			pool := newPool(t, config(t, server, server.Addr(), pgx.QueryExecModeCacheStatement), size)
			backs := map[string][]time.Duration{}
			thaws := func(what string, pool *pgxpool.Pool) {
				began := time.Now()
				server.Thaw()
				require.NoError(t, run(within(t, time.Minute), pool, "select 1, $1::int"))
				backs[what] = append(backs[what], time.Since(began))
			}
			for n := range stress.Shown(2, 20) {
				fill(t, pool, int(size))
				if n%2 == 0 {
					frozenInQueries(t, server, admin, pool, int(size))
					thaws(inQueries, pool)
				} else {
					frozenInACommit(t, server, pool, 100*int(size)+n)
					thaws(inCommit, pool)
				}
			}
			for what, all := range backs {
				slices.Sort(all)
				t.Logf("%s: median %v, most %v", what, all[len(all)/2], all[len(all)-1])
			}
			// It is the median that holds: the longest is the machine's, and is logged.
			for what, all := range backs {
				if stress.Level() > 0 {
					assert.Less(t, all[len(all)/2], 50*time.Millisecond, what)
				}
			}
		})
	}
}

// When the server froze.
const (
	inQueries = "in queries"
	inCommit  = "in a commit"
)

// fill has the pool open size connections.
func fill(t *testing.T, pool *pgxpool.Pool, size int) {
	var all []*pgxpool.Conn
	for range size {
		conn, err := pool.Acquire(t.Context())
		require.NoError(t, err)
		all = append(all, conn)
	}
	for _, conn := range all {
		require.NoError(t, run(t.Context(), conn, "select 1, $1::int"))
		conn.Release()
	}
}

// frozenInQueries leaves server frozen, after size callers and two more came back at their deadlines.
func frozenInQueries(t *testing.T, server *servers.Server, watcher *pgx.Conn, pool *pgxpool.Pool, size int) {
	ask := func(took chan<- time.Duration) {
		began := time.Now()
		ctx := within(t, limit)
		err := run(ctx, pool, "select pg_sleep(60), $1::int")
		assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err), "%v", err)
		assert.NotContains(t, err.Error(), "curfew database", "the address")
		took <- time.Since(began)
	}
	took := make(chan time.Duration)
	for range size {
		go ask(took)
	}
	require.Eventually(t, func() bool { return running(t, watcher) == size }, late, time.Millisecond)
	server.Freeze()
	for range size {
		assertTook(t, <-took, limit-60*time.Millisecond, limit+60*time.Millisecond, "until the deadline")
	}
	for range 2 { // who has to wait for a new connection
		go ask(took)
		assertTook(t, <-took, limit-60*time.Millisecond, limit+60*time.Millisecond, "until the deadline without a connection")
	}
}

// frozenInACommit leaves server frozen. The thaw decides what became of row n.
func frozenInACommit(t *testing.T, server *servers.Server, pool *pgxpool.Pool, n int) {
	began := time.Now()
	err := curfewpgx.WithTx(t.Context(), pool, budget.Within(limit), func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "insert into frozen values ($1)", n)
		server.Freeze()
		return err
	})
	assertTook(t, time.Since(began), limit-60*time.Millisecond, limit+60*time.Millisecond, "until the deadline of a commit")
	var e *curfewpgx.CommitError
	require.True(t, errors.As(err, &e), "%v", err)
	assert.Equal(t, curfewpgx.Unknown, e.Outcome, "%v", err)
	assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err))
	t.Cleanup(func() {
		was, err := curfewpgx.Resolve(within(t, late), pool, err)
		require.NoError(t, err)
		var rows int
		require.NoError(t, pool.QueryRow(context.Background(), "select count(*) from frozen where n = $1", n).Scan(&rows))
		assert.Equal(t, was == curfewpgx.CommittedLate, rows == 1)
	})
}

func TestAPoolNeverHandsOutAConnectionThatWasGivenUp(t *testing.T) {
	server := servers.Start(t, servers.PostgreSQL)
	pc, err := pgxpool.ParseConfig("")
	require.NoError(t, err)
	pc.ConnConfig = config(t, server, server.Addr(), pgx.QueryExecModeCacheStatement)
	curfewpgx.Configure(pc.ConnConfig)
	pc.MaxConns, pc.ShouldPing = 2, func(context.Context, pgxpool.ShouldPingParams) bool { return true }
	pool, err := pgxpool.NewWithConfig(t.Context(), pc)
	require.NoError(t, err)
	defer pool.Close()
	for range stress.Rounds(4) {
		require.NoError(t, run(t.Context(), pool, "select 1, $1::int"))
		server.Freeze()
		began := time.Now()
		assert.Error(t, run(within(t, 50*time.Millisecond), pool, "select 1, $1::int"), "in the ping")
		assertTook(t, time.Since(began), 0, 250*time.Millisecond, "in the ping")
		server.Thaw()
	}
}
