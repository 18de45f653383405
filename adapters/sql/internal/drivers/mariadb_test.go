package drivers

import (
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewsql "github.com/curfew-go/curfew/adapters/sql"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/budget/wire"
	"github.com/curfew-go/curfew/internal/netproxy"
	"github.com/curfew-go/curfew/internal/servers"
	"github.com/curfew-go/curfew/internal/stress"
)

// runningInMariaDB counts the statements that the server works on, but for the question.
func runningInMariaDB(tb testing.TB, watcher *sql.DB) int {
	return number(tb, watcher, "select count(*) from information_schema.processlist where db = database() and command in ('Query', 'Execute') and id <> connection_id()")
}

// openInMariaDB counts the open transactions of the database.
func openInMariaDB(tb testing.TB, watcher *sql.DB) int {
	return number(tb, watcher, "select count(*) from information_schema.innodb_trx t join information_schema.processlist p on p.id = t.trx_mysql_thread_id where p.db = database()")
}

func mysqlNumber(err error) int {
	if e := (*mysql.MySQLError)(nil); errors.As(err, &e) {
		return int(e.Number)
	}
	return 0
}

func TestCase39_AProcedureThatIsCutDoesNotGoOn(t *testing.T) {
	s := shared(t, servers.MariaDB)
	watcher := bare(t, mysqlConnector(t, s))
	must(t, watcher, "create table c39 (n int)",
		"create procedure p39() begin declare x int; select count(*) into x from seq_1_to_100000 a, seq_1_to_100000 b where a.seq * b.seq % 7 = 3; insert into c39 values (1); end",
		"create procedure swallows() begin do sleep(30); insert into c39 values (2); end")
	db := wrap(t, mysqlConnector(t, s), curfewsql.Slush(roomy))
	_, err := db.ExecContext(within(t, 300*time.Millisecond), "call p39()")
	assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err), "%v", err)
	assert.Contains(t, []int{1969, 1317}, mysqlNumber(err), "by the limit, or on a busy machine by a kill")
	assert.Zero(t, number(t, watcher, "select count(*) from c39"))

	// What nobody can do about: SLEEP takes the kill for itself and returns, without
	// an error. The statement behind it runs, as the documentation of the package says.
	began := time.Now()
	_, _ = db.ExecContext(within(t, 300*time.Millisecond), "call swallows()")
	back(t, began, 350*time.Millisecond) // SLEEP itself was cut
	assert.Equal(t, 1, number(t, watcher, "select count(*) from c39"))
}

func TestCase40_AKillThatHangsDoesNotKeepTheCaller(t *testing.T) {
	s := shared(t, servers.MariaDB)
	p := netproxy.New(t, s.Addr())
	db := wrap(t, mysqlThrough(t, p.Addr(), s))
	require.NoError(t, db.PingContext(t.Context()))
	p.Lose(true)
	for _, call := range []func(context.Context) error{
		func(ctx context.Context) error { _, err := db.ExecContext(ctx, "do 1"); return err },
		db.PingContext,
		func(ctx context.Context) error { _, err := db.PrepareContext(ctx, "select 1"); return err },
	} {
		began := time.Now()
		ctx := within(t, 300*time.Millisecond)
		err := curfewsql.Error(ctx, call(ctx))
		assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err), "%v", err)
		back(t, began, 360*time.Millisecond)
		assert.NotContains(t, err.Error(), s.Addr())
		assert.NotContains(t, err.Error(), p.Addr())
	}
}

// relabeled is a connector through a proxy that answers connection_id() itself.
type relabeled struct{ driver.Connector }

func (r relabeled) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := r.Connector.Connect(ctx)
	return relabeledConn{c}, err
}

type relabeledConn struct{ driver.Conn }

func (c relabeledConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	query = string(bytes.ReplaceAll([]byte(query), []byte("connection_id()"), []byte("1")))
	return c.Conn.(driver.QueryerContext).QueryContext(ctx, query, args)
}

func (c relabeledConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	return c.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
}

func TestCase42_AnIDThatTheServerDoesNotConfirmIsNeverKilled(t *testing.T) {
	s := shared(t, servers.MariaDB)
	watcher := bare(t, mysqlConnector(t, s))
	var log bytes.Buffer
	db := wrap(t, relabeled{mysqlConnector(t, s)}, curfewsql.Log(slog.New(slog.NewTextHandler(&log, nil))), curfewsql.Slush(roomyAt(400*time.Millisecond)))
	must(t, db, "do 1")
	assert.Contains(t, log.String(), "cannot be killed")
	kills := "select variable_value from information_schema.global_status where variable_name = 'com_kill'"
	before := number(t, watcher, kills)
	_, err := db.ExecContext(within(t, 600*time.Millisecond), crossJoin) // the server's limit needs no id
	assert.Equal(t, 1969, mysqlNumber(err), "%v", err)
	began := time.Now()
	_, err = db.ExecContext(curfewsql.Without(within(t, 200*time.Millisecond)), crossJoin)
	assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err), "%v", err)
	back(t, began, 700*time.Millisecond) // the socket was ended
	assert.Equal(t, before, number(t, watcher, kills))
}

func TestCase43_ABorrowerGetsAConnectionThatIsIdle(t *testing.T) {
	s := shared(t, servers.MariaDB)
	db := wrap(t, mysqlConnector(t, s))
	db.SetMaxOpenConns(1)
	for _, ctx := range []context.Context{within(t, 200*time.Millisecond), curfewsql.Without(within(t, 400*time.Millisecond))} {
		_, err := db.ExecContext(ctx, crossJoin)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		began := time.Now()
		// On a machine that is busy the connection is a new one, and the kill comes behind the call.
		assert.Eventually(t, func() bool { return runningInMariaDB(t, db) == 0 }, patience, time.Millisecond)
		back(t, began, 200*time.Millisecond)
	}
}

// MariaDB does not notice the end of a socket while it computes.
func TestAStatementWhoseCallHadNoTimeForAKillEndsAllTheSame(t *testing.T) {
	s := shared(t, servers.MariaDB)
	db := wrap(t, mysqlConnector(t, s), curfewsql.Slush(wire.Slush{Share: 0.01, Cap: time.Millisecond}))
	watcher := wrap(t, mysqlConnector(t, s))
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(20*time.Millisecond, cancel)
		_, err := db.ExecContext(ctx, crossJoin)
		require.ErrorIs(t, err, context.Canceled)
		require.Eventually(t, func() bool { return runningInMariaDB(t, watcher) == 0 }, patience, time.Millisecond)
		cancel()
	}
}

func TestCase55_NothingOfTheLimitIsLeftInTheSession(t *testing.T) {
	s := shared(t, servers.MariaDB)
	db := wrap(t, mysqlConnector(t, s))
	db.SetMaxOpenConns(1)
	var mine, session float64
	require.NoError(t, db.QueryRowContext(within(t, time.Minute), "select @@max_statement_time").Scan(&mine))
	assert.InDelta(t, 60, mine, 20)
	require.NoError(t, db.QueryRowContext(t.Context(), "select @@max_statement_time").Scan(&session))
	assert.Zero(t, session)
	_, err := db.ExecContext(within(t, time.Minute), "set max_statement_time = 77") // the user's own, where there is none of ours
	require.NoError(t, err)
	stmt, err := db.PrepareContext(t.Context(), "select @@max_statement_time")
	require.NoError(t, err)
	defer stmt.Close()
	require.NoError(t, stmt.QueryRowContext(t.Context()).Scan(&session))
	assert.InDelta(t, 77, session, 0.1)
	require.NoError(t, stmt.QueryRowContext(within(t, time.Minute)).Scan(&mine))
	assert.InDelta(t, 60, mine, 20)
}

func TestCase61_TheCauseComesBeforeErrTxDone(t *testing.T) {
	s := shared(t, servers.MariaDB)
	db := wrap(t, mysqlConnector(t, s))
	ctx, cancel, err := budget.Enter(t.Context(), budget.Within(100*time.Millisecond).Named("order"))
	require.NoError(t, err)
	defer cancel()
	tx, err := db.BeginTx(ctx, nil)
	require.NoError(t, err)
	<-ctx.Done()
	require.Eventually(t, func() bool { return db.Stats().InUse == 0 }, patience, time.Millisecond)
	// Outside of WithTx database/sql does not ask the driver, so Error has to.
	err = tx.Commit()
	require.ErrorIs(t, err, sql.ErrTxDone)
	err = curfewsql.Error(ctx, err)
	assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err))
	assert.ErrorIs(t, err, sql.ErrTxDone)
	assert.Contains(t, err.Error(), "order")

	err = curfewsql.WithTx(t.Context(), db, budget.Within(100*time.Millisecond).Named("order"), func(ctx context.Context, tx *sql.Tx) error {
		<-ctx.Done()
		return nil
	})
	var commit *curfewsql.CommitError
	require.True(t, errors.As(err, &commit), "%v", err)
	assert.Equal(t, curfewsql.NotCommitted, commit.Outcome)
	assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err))
}

func TestCase64_BytesOfARowStayWhatTheyAreWhenItsCtxEnds(t *testing.T) {
	s := shared(t, servers.MariaDB)
	db := wrap(t, mysqlConnector(t, s))
	for range stress.Rounds(10) {
		ctx, cancel := context.WithCancel(t.Context())
		rows, err := db.QueryContext(ctx, "select repeat('a', 1000) from seq_1_to_2000 union all select repeat('b', 1000) from seq_1_to_2000")
		require.NoError(t, err)
		require.True(t, rows.Next())
		var raw sql.RawBytes
		require.NoError(t, rows.Scan(&raw))
		cancel()
		for range 3 { // whoever reads on for the end of the ctx has time to
			assert.Equal(t, 1, number(t, db, "select 1"))
		}
		assert.Equal(t, bytes.Repeat([]byte("a"), 1000), []byte(raw))
		rows.Close()
	}
	assert.Zero(t, db.Stats().InUse)
}

func TestADeadlockEndsTheTransactionAndNothingBehindItCommits(t *testing.T) {
	s := shared(t, servers.MariaDB)
	db := wrap(t, mysqlConnector(t, s))
	must(t, db, "create table d (n int primary key, v int)", "insert into d values (1, 0), (2, 0)")
	for range stress.Shown(5, 500) {
		victim, other := deadlock(t, db)
		_, err := victim.Exec("insert into d values (3, 3)")
		var over *curfewsql.TxError
		require.True(t, errors.As(err, &over), "%v", err)
		assert.Equal(t, 1213, mysqlNumber(err))
		err = victim.Commit()
		var commit *curfewsql.CommitError
		require.True(t, errors.As(err, &commit), "%v", err)
		assert.Equal(t, curfewsql.NotCommitted, commit.Outcome)
		require.NoError(t, other.Commit())
		require.Zero(t, number(t, db, "select count(*) from d where n = 3"))
	}
}

// deadlock returns the transaction that MariaDB has ended for the other one.
func deadlock(t *testing.T, db *sql.DB) (victim, other *sql.Tx) {
	t.Helper()
	first, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	second, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = first.Exec("update d set v = 1 where n = 1")
	require.NoError(t, err)
	_, err = second.Exec("update d set v = 2 where n = 2")
	require.NoError(t, err)
	results := make(chan error, 1)
	go func() { _, err := first.Exec("update d set v = 1 where n = 2"); results <- err }()
	_, err = second.Exec("update d set v = 2 where n = 1")
	victim, other = second, first
	if firstErr := <-results; firstErr != nil {
		require.NoError(t, err)
		err, victim, other = firstErr, first, second
	}
	require.Equal(t, 1213, mysqlNumber(err), "%v", err)
	return victim, other
}

// InnoDB rolls the whole transaction back, and what comes next would be committed by itself.
func TestARowThatChangedBehindTheSnapshotEndsTheTransactionAndNothingBehindItCommits(t *testing.T) {
	db := wrap(t, mysqlConnector(t, shared(t, servers.MariaDB)))
	must(t, db, "create table snap (id int primary key, v int)", "insert into snap values (1, 1)")
	conn, err := db.Conn(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	if _, err := conn.ExecContext(t.Context(), "set session innodb_snapshot_isolation = on"); err != nil {
		t.Skip("this MariaDB is older than the variable")
	}
	tx, err := conn.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	require.NoError(t, err)
	var v int
	require.NoError(t, tx.QueryRow("select v from snap where id = 1").Scan(&v))
	must(t, db, "update snap set v = 2 where id = 1")
	_, err = tx.Exec("update snap set v = 3 where id = 1")
	assert.Equal(t, 1020, mysqlNumber(err), "%v", err)
	_, err = tx.Exec("insert into snap values (2, 2)")
	over := (*curfewsql.TxError)(nil)
	assert.ErrorAs(t, err, &over)
	assert.NoError(t, tx.Rollback())
	assert.Equal(t, 1, number(t, db, "select count(*) from snap"))
}

func TestALockWaitNamesItsPhase(t *testing.T) {
	atOnce(t)
	s := shared(t, servers.MariaDB)
	db := wrap(t, mysqlWith(t, s, func(cfg *mysql.Config) { cfg.Params = map[string]string{"innodb_lock_wait_timeout": "1"} }))
	must(t, db, "create table l (n int primary key)", "insert into l values (1)")
	holder, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer holder.Rollback()
	_, err = holder.Exec("update l set n = 2")
	require.NoError(t, err)
	_, err = db.ExecContext(within(t, time.Minute), "update l set n = 3")
	var cause *budget.Cause
	require.True(t, errors.As(err, &cause), "%v", err)
	assert.Equal(t, budget.DependencyTimeout, cause.Kind)
	assert.Equal(t, "lock_wait", cause.Phase)
	assert.Equal(t, 1205, mysqlNumber(err))
}

func TestALockWaitThatOurLimitEndsIsTheDeadlineInThatPhase(t *testing.T) {
	atOnce(t)
	s := shared(t, servers.MariaDB)
	holder := bare(t, mysqlConnector(t, s))
	must(t, holder, "create table l (n int primary key)", "insert into l values (1)")
	held, err := holder.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer held.Rollback()
	_, err = held.Exec("update l set n = 2")
	require.NoError(t, err)
	for _, interpolate := range []bool{true, false} {
		c := mysqlWith(t, s, func(cfg *mysql.Config) { cfg.InterpolateParams = interpolate })
		db := wrap(t, c, curfewsql.LimitLockWaits())
		for name, wait := range map[string]func(context.Context, *sql.DB) error{"a row": exec("update l set n = ?", 3), "the table": exec("truncate l")} {
			began := time.Now()
			err := wait(within(t, 2400*time.Millisecond), db) // 1 s in the server
			back(t, began, 1200*time.Millisecond)
			var cause *budget.Cause
			require.True(t, errors.As(err, &cause), "%v", err)
			assert.Equal(t, budget.DeadlineExceeded, cause.Kind, name)
			assert.Equal(t, "lock_wait", cause.Phase, name)
			assert.Equal(t, 1205, mysqlNumber(err), name)
		}
		_, err = db.ExecContext(within(t, 500*time.Millisecond), "update l set n = ?", 3) // too short for whole seconds
		var cause *budget.Cause
		require.True(t, errors.As(err, &cause), "%v", err)
		assert.Equal(t, "statement", cause.Phase)
		assert.Equal(t, budget.DeadlineExceeded, cause.Kind)
	}
}

func TestACommitThatWaitsForALockIsCutAndRolledBack(t *testing.T) {
	s := shared(t, servers.MariaDB)
	db := wrap(t, mysqlConnector(t, s), curfewsql.Slush(roomyAt(500*time.Millisecond)))
	must(t, db, "create table c (n int)")
	holder := bare(t, mysqlConnector(t, s))
	lock, err := holder.Conn(t.Context())
	require.NoError(t, err)
	defer lock.Close()
	began := time.Now()
	err = curfewsql.WithTx(t.Context(), db, budget.Within(time.Second), func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "insert into c values (1)")
		require.NoError(t, err)
		_, err = lock.ExecContext(t.Context(), "flush tables with read lock")
		return err
	})
	back(t, began, time.Second)
	var commit *curfewsql.CommitError
	require.True(t, errors.As(err, &commit), "%v", err)
	assert.Equal(t, curfewsql.NotCommitted, commit.Outcome)
	assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err))
	_, err = lock.ExecContext(t.Context(), "unlock tables")
	require.NoError(t, err)
	assert.Zero(t, number(t, db, "select count(*) from c"))
}
