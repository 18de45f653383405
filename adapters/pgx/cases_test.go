package curfewpgx_test

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewpgx "github.com/curfew-go/curfew/adapters/pgx"
	"github.com/curfew-go/curfew/adapters/pgx/internal/pgtest"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/servers"
)

func TestCase44_AQueryUnderADeadlineEndsWithCancelsBlocked(t *testing.T) {
	server := servers.Start(t, servers.PostgreSQL)
	watcher := bare(t, config(t, server, server.Addr(), pgx.QueryExecModeExec))
	proxy := pgtest.NewProxy(t, server.Addr())
	conn := connect(t, config(t, server, proxy.Addr(), pgx.QueryExecModeCacheStatement))
	ctx := within(t, 300*time.Millisecond)
	tx, err := conn.Begin(ctx)
	require.NoError(t, err)
	proxy.Deafen()
	began := time.Now()
	assert.ErrorIs(t, run(ctx, tx, runaways["sleep"]), context.DeadlineExceeded)
	assert.Less(t, time.Since(began), 350*time.Millisecond)
	_ = tx.Rollback(t.Context()) // fails if the connection had to be given up
	assert.Zero(t, running(t, watcher), "working, or idle in a transaction")
}

func TestCase45_AHundredDeadlinesAtOnceMakeNoStormOfConnections(t *testing.T) {
	server := servers.Start(t, servers.PostgreSQL, "max_connections=150")
	proxy := pgtest.NewProxy(t, server.Addr())
	pool := newPool(t, config(t, server, proxy.Addr(), pgx.QueryExecModeExec), 100, curfewpgx.Slush(roomy))
	const many = 100
	all := func(f func(*pgx.Conn)) {
		var wait, got sync.WaitGroup
		got.Add(many)
		for range many {
			wait.Go(func() {
				conn, err := pool.Acquire(context.Background())
				got.Done()
				if !assert.NoError(t, err) {
					return
				}
				defer conn.Release()
				got.Wait() // all at once
				f(conn.Conn())
			})
		}
		wait.Wait()
	}
	all(func(*pgx.Conn) {})
	before := proxy.Conns()
	all(func(conn *pgx.Conn) {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		err := run(ctx, conn, runaways["sleep"])
		assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err), "%v", err)
	})
	t.Logf("%d deadlines, %d new connections", many, proxy.Conns()-before)
	assert.LessOrEqual(t, proxy.Conns()-before, int64(10))
}

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
	assert.InDelta(t, 300, took.Milliseconds(), 60)
}

func TestCase54_TheLimitIsSeenByTheServerThroughAPooler(t *testing.T) {
	server := servers.Start(t, servers.PostgreSQL)
	bouncer := servers.StartPgBouncer(t, server)
	conn := connect(t, config(t, bouncer, bouncer.Addr(), pgx.QueryExecModeExec), curfewpgx.BehindPooler())
	var v string
	require.NoError(t, conn.QueryRow(within(t, 30*time.Second), "select current_setting('statement_timeout')").Scan(&v))
	assert.Regexp(t, `^29[0-9]{3}ms$`, v)
}

func TestCase55_NothingOfTheLimitIsLeftForTheNextClientOfAPooler(t *testing.T) {
	server := servers.Start(t, servers.PostgreSQL)
	bouncer := servers.StartPgBouncer(t, server, "default_pool_size=1")
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec} {
		t.Run(mode.String(), func(t *testing.T) {
			ours := connect(t, config(t, bouncer, bouncer.Addr(), mode), curfewpgx.BehindPooler())
			other := bare(t, config(t, bouncer, bouncer.Addr(), pgx.QueryExecModeSimpleProtocol))
			for range 50 {
				ctx := within(t, 30*time.Second)
				var mine, theirs string
				require.NoError(t, ours.QueryRow(ctx, "select current_setting('statement_timeout')").Scan(&mine))
				require.NoError(t, other.QueryRow(ctx, "select current_setting('statement_timeout')").Scan(&theirs))
				require.Regexp(t, `^29[0-9]{3}ms$`, mine)
				require.Equal(t, "0", theirs)
			}
			err := run(within(t, 150*time.Millisecond), ours, runaways["sleep"])
			assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err), "%v", err)
		})
	}
}

func TestCase57_NoNoticePerStatement(t *testing.T) {
	server := servers.Start(t, servers.PostgreSQL)
	eachMode(t, func(t *testing.T, mode pgx.QueryExecMode) {
		cfg := config(t, server, server.Addr(), mode)
		cfg.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { t.Errorf("notice: %s", n.Message) }
		conn := connect(t, cfg)
		for _, w := range walks[4:7] { // transactions
			require.NoError(t, w.walk(within(t, time.Minute), conn))
		}
		for range 3 {
			require.NoError(t, ask(within(t, time.Minute), conn, "select $1::int"))
		}
	})
}

func TestCase58_VacuumAndConcurrentIndexesRun(t *testing.T) {
	server := servers.Start(t, servers.PostgreSQL)
	conn := connect(t, config(t, server, server.Addr(), pgx.QueryExecModeCacheStatement))
	for _, sql := range []string{"create table c58 (n int)", "vacuum c58", "create index concurrently on c58 (n)"} {
		_, err := conn.Exec(within(t, time.Minute), sql)
		assert.NoError(t, err, sql)
	}
}

func TestCase60_ADeferredTriggerIsCutBeforeTheCommit(t *testing.T) {
	server := servers.Start(t, servers.PostgreSQL)
	eachMode(t, func(t *testing.T, mode pgx.QueryExecMode) {
		setup := bare(t, config(t, server, server.Addr(), mode))
		_, err := setup.Exec(t.Context(), `drop table if exists c60; create table c60 (n int);
			create or replace function slow60() returns trigger language plpgsql as
			$$ begin perform pg_sleep(0.5); return null; end $$;
			create constraint trigger s after insert on c60 deferrable initially deferred
			for each row execute function slow60()`)
		require.NoError(t, err)
		conn := connect(t, config(t, server, server.Addr(), mode), curfewpgx.Slush(roomy))
		insert := func(d time.Duration) (took time.Duration, err error) {
			ctx := within(t, d)
			tx, err := conn.Begin(ctx)
			require.NoError(t, err)
			_, err = tx.Exec(ctx, "insert into c60 values (1)")
			require.NoError(t, err)
			began := time.Now()
			err = curfewpgx.Error(ctx, tx.Commit(ctx))
			return time.Since(began), err
		}
		_, err = insert(10 * time.Second)
		require.NoError(t, err)
		took, err := insert(200 * time.Millisecond)
		assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err), "%v", err)
		assert.Less(t, took, 300*time.Millisecond)
		var rows int
		require.NoError(t, setup.QueryRow(t.Context(), "select count(*) from c60").Scan(&rows))
		assert.Equal(t, 1, rows)
	})
}

func TestAFrozenServerCostsNoMoreThanTheDeadlineAndThePoolComesBack(t *testing.T) {
	server := servers.Start(t, servers.PostgreSQL)
	plain := config(t, server, server.Addr(), pgx.QueryExecModeCacheStatement)
	pool := newPool(t, config(t, server, server.Addr(), pgx.QueryExecModeCacheStatement), 2)
	best, took := time.Hour, time.Hour
	for range stress(4) {
		began := time.Now()
		bare(t, plain)
		connects := time.Since(began) // on this machine, with its load
		require.NoError(t, run(t.Context(), pool, "select 1, $1::int"))
		server.Freeze()
		for range 2 { // on the connection there was, and on a new one
			began := time.Now()
			ctx := within(t, 300*time.Millisecond)
			err := run(ctx, pool, "select 1, $1::int")
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			assert.NotContains(t, err.Error(), "curfew database", "the address")
			took = min(took, time.Since(began))
		}
		server.Thaw()
		began = time.Now()
		require.NoError(t, run(within(t, 5*time.Second), pool, "select 1, $1::int"))
		back := time.Since(began)
		t.Logf("back %v after the thaw; a plain connect takes %v", back, connects)
		best = min(best, back-connects)
	}
	assert.InDelta(t, 300, took.Milliseconds(), 60)
	assert.Less(t, best, 50*time.Millisecond, "the pool waits for one new connection and nothing else")
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
	for range stress(10) {
		require.NoError(t, run(t.Context(), pool, "select 1, $1::int"))
		server.Freeze()
		began := time.Now()
		assert.Error(t, run(within(t, 50*time.Millisecond), pool, "select 1, $1::int"), "in the ping")
		assert.Less(t, time.Since(began), 250*time.Millisecond)
		server.Thaw()
	}
}

func TestDatabaseSQLCarriesTheDeadlineToo(t *testing.T) {
	server := servers.Start(t, servers.PostgreSQL)
	cfg := config(t, server, server.Addr(), pgx.QueryExecModeCacheStatement)
	theirs := &noted{}
	cfg.Tracer = theirs
	curfewpgx.Configure(cfg)
	db := sql.OpenDB(stdlib.GetConnector(*cfg))
	defer db.Close()
	for range 3 {
		var v string
		require.NoError(t, db.QueryRowContext(within(t, 30*time.Second), "show statement_timeout").Scan(&v))
		assert.Equal(t, "0", v, "show has none of its own")
		require.NoError(t, db.QueryRowContext(within(t, 30*time.Second), "select current_setting('statement_timeout')").Scan(&v))
		assert.Regexp(t, `^29[0-9]{3}ms$`, v)
	}
	assert.NotZero(t, theirs.started, "the user's tracer goes on")
	assert.Equal(t, theirs.started, theirs.ended)
	ctx := within(t, 200*time.Millisecond)
	_, err := db.ExecContext(ctx, "select pg_sleep($1)", 60)
	err = curfewpgx.Error(ctx, err)
	assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err), "%v", err)
}

func TestALockTimeoutNamesItsPhase(t *testing.T) {
	server := servers.Start(t, servers.PostgreSQL)
	holder := bare(t, config(t, server, server.Addr(), pgx.QueryExecModeExec))
	conn := connect(t, config(t, server, server.Addr(), pgx.QueryExecModeExec))
	_, err := holder.Exec(t.Context(), "create table held (n int)")
	require.NoError(t, err)
	_, err = holder.Exec(t.Context(), "begin; lock table held")
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), "set lock_timeout to 50")
	require.NoError(t, err)
	ctx := within(t, time.Minute)
	_, err = conn.Exec(ctx, "insert into held values (1)")
	err = curfewpgx.Error(ctx, err)
	var cause *budget.Cause
	require.True(t, errors.As(err, &cause))
	assert.Equal(t, budget.DependencyTimeout, cause.Kind)
	assert.Equal(t, "lock_wait", cause.Phase)
	assert.Equal(t, "55P03", stateOf(err))
}
