package drivers

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewsql "github.com/curfew-go/curfew/adapters/sql"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/netproxy"
	"github.com/curfew-go/curfew/internal/servers"
)

// pgConfig is how to reach s through addr, which may be a proxy's.
func pgConfig(tb testing.TB, s *servers.Server, addr string) *pgx.ConnConfig {
	tb.Helper()
	cfg, err := pgx.ParseConfig("postgres://" + s.User + ":" + s.Password + "@" + addr + "/" + s.Database + "?sslmode=disable")
	require.NoError(tb, err)
	return cfg
}

func pgState(err error) string {
	if e := (*pgconn.PgError)(nil); errors.As(err, &e) {
		return e.Code
	}
	return ""
}

func runningInPostgres(tb testing.TB, watcher *sql.DB) int {
	return number(tb, watcher, "select count(*) from pg_stat_activity where datname = current_database() and state <> 'idle' and backend_type = 'client backend' and pid <> pg_backend_pid()")
}

func openInPostgres(tb testing.TB, watcher *sql.DB) int {
	return number(tb, watcher, "select count(*) from pg_stat_activity where datname = current_database() and xact_start is not null and pid <> pg_backend_pid()")
}

func TestCase44_AStatementOfATransactionEndsInTheServerWithCancelsBlocked(t *testing.T) {
	s := shared(t, servers.PostgreSQL)
	watcher := bare(t, pgxConnector(t, s))
	p := netproxy.New(t, s.Addr())
	db := wrap(t, stdlib.GetConnector(*pgConfig(t, s, p.Addr())), curfewsql.Slush(roomyAt(400*time.Millisecond)))
	for _, args := range [][]any{nil, {60}} {
		query := "select pg_sleep(60)"
		if args != nil {
			query = "select pg_sleep($1)"
		}
		p.Deafen(false)
		require.NoError(t, db.PingContext(t.Context()))
		ctx := within(t, time.Second)
		tx, err := db.BeginTx(ctx, nil)
		require.NoError(t, err)
		p.Deafen(true) // no cancel request gets through
		began := time.Now()
		_, err = tx.ExecContext(ctx, query, args...)
		assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err), "%v", err)
		assert.Equal(t, "57014", pgState(err))
		back(t, began, time.Second)
		require.NoError(t, tx.Rollback())
		assert.Zero(t, runningInPostgres(t, watcher), "working, or idle in a transaction")
	}
}

func TestCase45_ManyDeadlinesOfTransactionsMakeNoStormOfConnections(t *testing.T) {
	atOnce(t)
	s := shared(t, servers.PostgreSQL)
	p := netproxy.New(t, s.Addr())
	db := wrap(t, stdlib.GetConnector(*pgConfig(t, s, p.Addr())), curfewsql.Slush(roomy))
	const many = 30
	db.SetMaxOpenConns(many)
	db.SetMaxIdleConns(many)
	all := func(d time.Duration, f func(*sql.Tx)) {
		var wait, got sync.WaitGroup
		got.Add(many)
		for range many {
			wait.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), d)
				defer cancel()
				tx, err := db.BeginTx(ctx, nil)
				got.Done()
				if !assert.NoError(t, err) {
					return
				}
				defer tx.Rollback()
				got.Wait() // all at once
				f(tx)
			})
		}
		wait.Wait()
	}
	all(time.Minute, func(*sql.Tx) {}) // thirty connections, which takes a busy machine a while
	before := p.Conns()
	all(4*time.Second, func(tx *sql.Tx) {
		_, err := tx.Exec("select pg_sleep(60)")
		assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err), "%v", err)
	})
	t.Logf("%d deadlines, %d new connections", many, p.Conns()-before)
	assert.LessOrEqual(t, p.Conns()-before, int64(5))
}

func TestCase46_TheAutomaticRollbackIsSentAndTheBackendKept(t *testing.T) {
	s := shared(t, servers.PostgreSQL)
	watcher := bare(t, pgxConnector(t, s))
	db := wrap(t, pgxConnector(t, s))
	db.SetMaxOpenConns(1)
	pid := number(t, db, "select pg_backend_pid()")
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		tx, err := db.BeginTx(ctx, nil)
		require.NoError(t, err)
		_, err = tx.ExecContext(ctx, "select 1")
		require.NoError(t, err)
		cancel()
		require.Eventually(t, func() bool { return db.Stats().InUse == 0 }, patience, time.Millisecond)
		assert.Zero(t, runningInPostgres(t, watcher), "idle in a transaction")
		assert.Equal(t, pid, number(t, db, "select pg_backend_pid()"))
	}
}

func TestCase49_ARollbackOnAConnectionThatTheServerEndedIsAnErrorAndLeaksNothing(t *testing.T) {
	s := shared(t, servers.PostgreSQL)
	db := wrap(t, pgxConnector(t, s))
	tx, err := db.BeginTx(within(t, time.Minute), nil)
	require.NoError(t, err)
	var pid int
	require.NoError(t, tx.QueryRow("select pg_backend_pid()").Scan(&pid))
	_, err = db.ExecContext(t.Context(), "select pg_terminate_backend($1)", pid)
	require.NoError(t, err)
	assert.Error(t, tx.Rollback())
	assert.Zero(t, db.Stats().InUse)
	require.NoError(t, db.PingContext(t.Context()))
}

func TestATransactionWhoseConnectionBrokeBeforeItsCommitIsNotCommitted(t *testing.T) {
	s := shared(t, servers.PostgreSQL)
	db := wrap(t, pgxConnector(t, s))
	tx, err := db.BeginTx(within(t, time.Minute), nil)
	require.NoError(t, err)
	var pid int
	require.NoError(t, tx.QueryRow("select pg_backend_pid()").Scan(&pid))
	_, err = db.ExecContext(t.Context(), "select pg_terminate_backend($1)", pid)
	require.NoError(t, err)
	for range 3 {
		_, err = tx.Exec("select 1")
		require.Error(t, err)
	}
	err = tx.Commit()
	var commit *curfewsql.CommitError
	require.True(t, errors.As(err, &commit), "%v", err)
	assert.Equal(t, curfewsql.NotCommitted, commit.Outcome, "%v", err)
	assert.Zero(t, db.Stats().InUse)
}

func TestCase50_ACommitWithoutAnswerIsUnknownAndResolveSaysWhatItIs(t *testing.T) {
	s := servers.Start(t, servers.PostgreSQL)
	db := wrap(t, pgxConnector(t, s), curfewsql.TrackTx())
	must(t, db, "create table c50 (n int)")
	began := time.Now()
	froze := make(chan func(), 1)
	err := curfewsql.WithTx(t.Context(), db, budget.Within(400*time.Millisecond), func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "insert into c50 values (1)")
		require.NoError(t, err)
		_, err = tx.ExecContext(ctx, "create function pg_temp.slow() returns trigger language plpgsql as 'begin perform pg_sleep(0.1); return null; end'")
		require.NoError(t, err)
		_, err = tx.ExecContext(ctx, "create constraint trigger s after insert on c50 deferrable initially deferred for each row execute function pg_temp.slow()")
		require.NoError(t, err)
		_, err = tx.ExecContext(ctx, "insert into c50 values (2)")
		require.NoError(t, err)
		time.AfterFunc(30*time.Millisecond, func() { froze <- freeze(t, s) }) // in the middle of the COMMIT
		return nil
	})
	back(t, began, 460*time.Millisecond)
	(<-froze)()
	var commit *curfewsql.CommitError
	require.True(t, errors.As(err, &commit), "%v", err)
	assert.Equal(t, curfewsql.Unknown, commit.Outcome, "%v", err)
	assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err), "%v", err)
	outcome, err := curfewsql.Resolve(within(t, patience), db, err, nil)
	require.NoError(t, err)
	want := curfewsql.NotCommitted
	if number(t, db, "select count(*) from c50") > 0 {
		want = curfewsql.Committed
	}
	assert.Equal(t, want, outcome)
	t.Logf("it was %v", outcome)
}

func TestCase52_TheRollbackHasABoundOfItsOwn(t *testing.T) {
	atOnce(t)
	s := servers.Start(t, servers.PostgreSQL)
	db := wrap(t, pgxConnector(t, s))
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	thaw := freeze(t, s)
	began := time.Now()
	err = tx.Rollback()
	assert.Equal(t, budget.DependencyTimeout, budget.KindOf(err), "%v", err)
	assert.GreaterOrEqual(t, time.Since(began), time.Second)
	back(t, began, 1200*time.Millisecond)
	assert.Zero(t, db.Stats().InUse)
	thaw()
	require.NoError(t, db.PingContext(within(t, patience)))
}

func TestCase54_TheServerSeesTheLimitOfATransactionThroughAPooler(t *testing.T) {
	s := shared(t, servers.PostgreSQL)
	bouncer := servers.StartPgBouncer(t, s)
	cfg := pgConfig(t, s, bouncer.Addr())
	cfg.DefaultQueryExecMode = pgx.QueryExecModeExec
	db := wrap(t, stdlib.GetConnector(*cfg), curfewsql.BehindPooler())
	tx, err := db.BeginTx(within(t, 30*time.Second), &sql.TxOptions{Isolation: sql.LevelSerializable, ReadOnly: true})
	require.NoError(t, err)
	defer tx.Rollback()
	for setting, want := range map[string]string{
		"statement_timeout": `^2[0-9]{4}ms$`, "transaction_isolation": "^serializable$", "transaction_read_only": "^on$",
	} {
		var v string
		require.NoError(t, tx.QueryRow("show "+setting).Scan(&v))
		assert.Regexp(t, want, v)
	}
}

func TestCase55_NothingOfTheLimitIsLeftForTheNextClientOfAPooler(t *testing.T) {
	s := shared(t, servers.PostgreSQL)
	bouncer := servers.StartPgBouncer(t, s, "default_pool_size=1")
	cfg := pgConfig(t, s, bouncer.Addr())
	cfg.DefaultQueryExecMode = pgx.QueryExecModeExec
	ours := wrap(t, stdlib.GetConnector(*cfg), curfewsql.BehindPooler())
	other := bare(t, stdlib.GetConnector(*cfg))
	for range 50 {
		ctx := within(t, 30*time.Second)
		tx, err := ours.BeginTx(ctx, nil)
		require.NoError(t, err)
		_, err = tx.ExecContext(ctx, "select 1")
		require.NoError(t, err)
		require.NoError(t, tx.Commit())
		_, err = ours.ExecContext(ctx, "select 1")
		require.NoError(t, err)
		var theirs string
		require.NoError(t, other.QueryRowContext(ctx, "show statement_timeout").Scan(&theirs))
		require.Equal(t, "0", theirs)
	}
}

func TestALimitThatTheUserSetsInATransactionIsNotTakenForOurs(t *testing.T) {
	s := shared(t, servers.PostgreSQL)
	p := netproxy.New(t, s.Addr())
	db := wrap(t, stdlib.GetConnector(*pgConfig(t, s, p.Addr())))
	limit := func(ctx context.Context, tx *sql.Tx) (v string) {
		require.NoError(t, tx.QueryRowContext(ctx, "select current_setting($1)", "statement_timeout").Scan(&v))
		return v
	}
	ctx := within(t, time.Minute)
	for _, set := range []string{"set statement_timeout = 0", "set local statement_timeout = 7654", "select set_config('statement_timeout', '7654', true)", "reset all"} {
		tx, err := db.BeginTx(ctx, nil)
		require.NoError(t, err)
		_, err = tx.ExecContext(ctx, set)
		require.NoError(t, err)
		assert.Regexp(t, `^[345][0-9]{4}ms$`, limit(ctx, tx), set)
		require.NoError(t, tx.Rollback())
	}

	// Where no limit of ours has been, the user's stays, at no turn.
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer tx.Rollback()
	for _, query := range []string{"set local statement_timeout = 7654", "savepoint s", "rollback to s"} {
		_, err = tx.ExecContext(t.Context(), query)
		require.NoError(t, err)
	}
	assert.Equal(t, "7654ms", limit(t.Context(), tx))
	before := p.Turns()
	assert.Equal(t, "7654ms", limit(t.Context(), tx))
	assert.Equal(t, int64(1), p.Turns()-before)
	assert.Regexp(t, `^[345][0-9]{4}ms$`, limit(ctx, tx))
	assert.Equal(t, "0", limit(t.Context(), tx), "what was ours is lifted")
}

func TestCase57_NoNoticePerStatement(t *testing.T) {
	s := shared(t, servers.PostgreSQL)
	cfg := pgConfig(t, s, s.Addr())
	cfg.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { t.Errorf("notice: %s", n.Message) }
	db := wrap(t, stdlib.GetConnector(*cfg))
	ctx := within(t, time.Minute)
	for range 3 {
		_, err := db.ExecContext(ctx, "select 1")
		require.NoError(t, err)
		tx, err := db.BeginTx(ctx, nil)
		require.NoError(t, err)
		_, err = tx.ExecContext(ctx, "select $1::int", 1)
		require.NoError(t, err)
		require.NoError(t, tx.Commit())
	}
}

func TestCase58_VacuumAndConcurrentIndexesRun(t *testing.T) {
	s := shared(t, servers.PostgreSQL)
	db := wrap(t, pgxConnector(t, s))
	for _, query := range []string{
		"create table c58 (n int)", "vacuum c58", "/* why */ VACUUM (analyze) c58", "create index concurrently i58 on c58 (n)", "drop index concurrently i58",
		"create procedure p58() language plpgsql as 'begin commit; end'", "call p58()", "do 'begin commit; end'", "create database d58", "drop database d58",
		"alter system set work_mem = '5MB'", "reindex table c58", "savepoint",
	} {
		_, err := db.ExecContext(within(t, time.Minute), query)
		if query == "savepoint" {
			assert.Equal(t, "42601", pgState(err), "%v", err)
			continue
		}
		assert.NoError(t, err, query)
	}
}

func TestCase60_ACommitWithASlowDeferredTriggerIsEndedBeforeIt(t *testing.T) {
	atOnce(t)
	s := shared(t, servers.PostgreSQL)
	db := wrap(t, pgxConnector(t, s), curfewsql.Slush(roomyAt(300*time.Millisecond)))
	must(t, db, "create table c60 (n int)",
		"create function slow60() returns trigger language plpgsql as 'begin perform pg_sleep(1.5); return null; end'",
		"create constraint trigger s after insert on c60 deferrable initially deferred for each row execute function slow60()")
	insert := func(d time.Duration) error {
		return curfewsql.WithTx(t.Context(), db, budget.Within(d), func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "insert into c60 values ($1)", 1)
			return err
		})
	}
	require.NoError(t, insert(10*time.Second))
	began := time.Now()
	err := insert(600 * time.Millisecond)
	back(t, began, 600*time.Millisecond)
	var commit *curfewsql.CommitError
	require.True(t, errors.As(err, &commit), "%v", err)
	assert.Equal(t, curfewsql.NotCommitted, commit.Outcome)
	assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err), "%v", err)
	assert.Equal(t, 1, number(t, db, "select count(*) from c60"))
	assert.Equal(t, "57014", pgState(err))
}

func TestACommitOfAFailedTransactionIsNoSuccess(t *testing.T) {
	s := shared(t, servers.PostgreSQL)
	db := wrap(t, pgxConnector(t, s))
	for name, fail := range map[string]func(context.Context, *sql.Tx) error{
		"a statement": func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "select 1/0")
			return err
		},
		"one that was only prepared": func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.PrepareContext(ctx, "selec 1")
			return err
		},
	} {
		for _, ctx := range []context.Context{t.Context(), within(t, time.Minute)} {
			tx, err := db.BeginTx(ctx, nil)
			require.NoError(t, err)
			require.Error(t, fail(ctx, tx), name)
			err = tx.Commit()
			var commit *curfewsql.CommitError
			require.True(t, errors.As(err, &commit), "%s: %v", name, err)
			assert.Equal(t, curfewsql.NotCommitted, commit.Outcome, "%s: %v", name, err)
			assert.Zero(t, db.Stats().InUse)
		}
	}
}

func TestACancelBySomebodyElseIsNotTheDeadline(t *testing.T) {
	s := shared(t, servers.PostgreSQL)
	db := wrap(t, pgxConnector(t, s))
	tx, err := db.BeginTx(within(t, time.Minute), nil)
	require.NoError(t, err)
	defer tx.Rollback()
	var wait sync.WaitGroup
	defer wait.Wait()
	wait.Go(func() {
		for number(t, db, "select count(*) from pg_stat_activity where query like '%pg_sleep(61)%' and pid <> pg_backend_pid() and state = 'active'") == 0 {
		}
		number(t, db, "select count(pg_cancel_backend(pid)) from pg_stat_activity where query like '%pg_sleep(61)%' and pid <> pg_backend_pid()")
	})
	_, err = tx.Exec("select pg_sleep(61)")
	assert.Equal(t, "57014", pgState(err))
	assert.NotErrorIs(t, err, context.DeadlineExceeded)
	assert.Equal(t, budget.Failed, budget.KindOf(err), "%v", err)
}
