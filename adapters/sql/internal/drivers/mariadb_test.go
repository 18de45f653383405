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
	"github.com/curfew-go/curfew/internal/servers"
)

// runningInMariaDB counts the statements that the server works on, but for the question.
func runningInMariaDB(tb testing.TB, watcher *sql.DB) int {
	return number(tb, watcher, "select count(*) from information_schema.processlist where command in ('Query', 'Execute') and id <> connection_id()")
}

func mysqlNumber(err error) int {
	if e := (*mysql.MySQLError)(nil); errors.As(err, &e) {
		return int(e.Number)
	}
	return 0
}

func TestCase38_ASlowWriteIsOverInTheServerAndItsRowAbsent(t *testing.T) {
	s := servers.Start(t, servers.MariaDB)
	watcher := bare(t, mysqlConnector(t, s.Addr(), s))
	must(t, watcher, "create table c38 (n int)")
	db := wrap(t, mysqlConnector(t, s.Addr(), s))
	for name, ctx := range map[string]func(context.Context) context.Context{
		"by the server's limit": func(ctx context.Context) context.Context { return ctx },
		"by a kill":             curfewsql.Without,
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, db.PingContext(t.Context()))
			began := time.Now()
			_, err := db.ExecContext(ctx(within(t, 200*time.Millisecond)), "insert into c38 "+crossJoin)
			t.Logf("back after %v: %v", time.Since(began), err)
			assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err), "%v", err)
			assert.Less(t, time.Since(began), 300*time.Millisecond)
			for runningInMariaDB(t, watcher) > 0 && time.Since(began) < 2*time.Second {
			}
			assert.Less(t, time.Since(began), 500*time.Millisecond, "gone from the process list")
			assert.Zero(t, number(t, watcher, "select count(*) from c38"))
		})
	}
}

func TestCase39_AProcedureThatIsCutDoesNotGoOn(t *testing.T) {
	s := servers.Start(t, servers.MariaDB)
	watcher := bare(t, mysqlConnector(t, s.Addr(), s))
	must(t, watcher, "create table c39 (n int)",
		"create procedure p39() begin declare x int; select count(*) into x from seq_1_to_100000 a, seq_1_to_100000 b where a.seq * b.seq % 7 = 3; insert into c39 values (1); end",
		"create procedure swallows() begin do sleep(30); insert into c39 values (2); end")
	db := wrap(t, mysqlConnector(t, s.Addr(), s), curfewsql.Slush(roomy))
	_, err := db.ExecContext(within(t, 300*time.Millisecond), "call p39()")
	assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err), "%v", err)
	assert.Equal(t, 1969, mysqlNumber(err))
	assert.Zero(t, number(t, watcher, "select count(*) from c39"))

	// What nobody can do about: SLEEP takes the kill for itself and returns, without
	// an error. The statement behind it runs, as the documentation of the package says.
	began := time.Now()
	_, err = db.ExecContext(within(t, 300*time.Millisecond), "call swallows()")
	t.Logf("back after %v: %v", time.Since(began), err)
	assert.Less(t, time.Since(began), 20*time.Second, "SLEEP itself was cut")
	assert.Equal(t, 1, number(t, watcher, "select count(*) from c39"))
}

func TestCase40_AKillThatHangsDoesNotKeepTheCaller(t *testing.T) {
	s := servers.Start(t, servers.MariaDB)
	p := newProxy(t, s.Addr())
	db := wrap(t, mysqlConnector(t, p.addr(), s))
	require.NoError(t, db.PingContext(t.Context()))
	p.lossy.Store(true)
	for _, call := range []func(context.Context) error{
		func(ctx context.Context) error { _, err := db.ExecContext(ctx, "do 1"); return err },
		db.PingContext,
		func(ctx context.Context) error { _, err := db.PrepareContext(ctx, "select 1"); return err },
	} {
		began := time.Now()
		ctx := within(t, 300*time.Millisecond)
		err := curfewsql.Error(ctx, call(ctx))
		assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err), "%v", err)
		assert.InDelta(t, 300, time.Since(began).Milliseconds(), 60)
		assert.NotContains(t, err.Error(), s.Addr())
		assert.NotContains(t, err.Error(), p.addr())
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
	s := servers.Start(t, servers.MariaDB)
	watcher := bare(t, mysqlConnector(t, s.Addr(), s))
	var log bytes.Buffer
	db := wrap(t, relabeled{mysqlConnector(t, s.Addr(), s)}, curfewsql.Log(slog.New(slog.NewTextHandler(&log, nil))), curfewsql.Slush(roomyAt(100*time.Millisecond)))
	must(t, db, "do 1")
	assert.Contains(t, log.String(), "cannot be killed")
	kills := "select variable_value from information_schema.global_status where variable_name = 'com_kill'"
	before := number(t, watcher, kills)
	_, err := db.ExecContext(within(t, 200*time.Millisecond), crossJoin) // the server's limit needs no id
	assert.Equal(t, 1969, mysqlNumber(err), "%v", err)
	began := time.Now()
	_, err = db.ExecContext(curfewsql.Without(within(t, 200*time.Millisecond)), crossJoin)
	assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err), "%v", err)
	assert.Less(t, time.Since(began), 5*time.Second, "the socket was ended")
	assert.Equal(t, before, number(t, watcher, kills))
}

func TestCase43_ABorrowerGetsAConnectionThatIsIdle(t *testing.T) {
	s := servers.Start(t, servers.MariaDB)
	db := wrap(t, mysqlConnector(t, s.Addr(), s))
	db.SetMaxOpenConns(1)
	for _, ctx := range []context.Context{within(t, 200*time.Millisecond), curfewsql.Without(within(t, 400*time.Millisecond))} {
		_, err := db.ExecContext(ctx, crossJoin)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		began := time.Now()
		assert.Equal(t, 0, runningInMariaDB(t, db))
		assert.Less(t, time.Since(began), 200*time.Millisecond)
	}
}

func TestCase53_AKillThatComesLateSparesTheNextStatementOfMariaDB(t *testing.T) {
	s := servers.Start(t, servers.MariaDB)
	db := wrap(t, mysqlConnector(t, s.Addr(), s), curfewsql.Slush(roomyAt(20*time.Millisecond)))
	lateKills(t, db, "select count(*) from seq_1_to_60000 where seq % 7 = 3")
	assert.Zero(t, number(t, db, "select count(*) from information_schema.innodb_trx"))
}

func TestCase55_NothingOfTheLimitIsLeftInTheSession(t *testing.T) {
	s := servers.Start(t, servers.MariaDB)
	db := wrap(t, mysqlConnector(t, s.Addr(), s))
	db.SetMaxOpenConns(1)
	var mine, session float64
	require.NoError(t, db.QueryRowContext(within(t, time.Minute), "select @@max_statement_time").Scan(&mine))
	assert.InDelta(t, 60, mine, 1)
	require.NoError(t, db.QueryRowContext(t.Context(), "select @@max_statement_time").Scan(&session))
	assert.Zero(t, session)
	must(t, db, "set max_statement_time = 77") // the user's own, where there is none of ours
	stmt, err := db.PrepareContext(t.Context(), "select @@max_statement_time")
	require.NoError(t, err)
	defer stmt.Close()
	require.NoError(t, stmt.QueryRowContext(t.Context()).Scan(&session))
	assert.InDelta(t, 77, session, 0.1)
	require.NoError(t, stmt.QueryRowContext(within(t, time.Minute)).Scan(&mine))
	assert.InDelta(t, 60, mine, 1)
}

func TestCase61_TheCauseComesBeforeErrTxDone(t *testing.T) {
	s := servers.Start(t, servers.MariaDB)
	db := wrap(t, mysqlConnector(t, s.Addr(), s))
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
	s := servers.Start(t, servers.MariaDB)
	db := wrap(t, mysqlConnector(t, s.Addr(), s))
	for range 50 {
		ctx, cancel := context.WithCancel(t.Context())
		rows, err := db.QueryContext(ctx, "select repeat('a', 1000) from seq_1_to_2000 union all select repeat('b', 1000) from seq_1_to_2000")
		require.NoError(t, err)
		require.True(t, rows.Next())
		var raw sql.RawBytes
		require.NoError(t, rows.Scan(&raw))
		cancel()
		assert.Equal(t, bytes.Repeat([]byte("a"), 1000), []byte(raw))
		rows.Close()
	}
	assert.Zero(t, db.Stats().InUse)
}

func TestADeadlockEndsTheTransactionAndNothingBehindItCommits(t *testing.T) {
	s := servers.Start(t, servers.MariaDB)
	db := wrap(t, mysqlConnector(t, s.Addr(), s))
	must(t, db, "create table d (n int primary key, v int)", "insert into d values (1, 0), (2, 0)")
	first, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	second, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = first.Exec("update d set v = 1 where n = 1")
	require.NoError(t, err)
	_, err = second.Exec("update d set v = 2 where n = 2")
	require.NoError(t, err)
	results := make(chan error)
	go func() { _, err := first.Exec("update d set v = 1 where n = 2"); results <- err }()
	for number(t, db, "select count(*) from information_schema.innodb_trx where trx_state = 'LOCK WAIT'") == 0 {
	}
	_, err = second.Exec("update d set v = 2 where n = 1")
	victim, other := second, first
	if err == nil {
		err, victim, other = <-results, first, second
	} else {
		require.NoError(t, <-results)
	}
	require.Equal(t, 1213, mysqlNumber(err), "%v", err)
	_, err = victim.Exec("insert into d values (3, 3)")
	var over *curfewsql.TxError
	require.True(t, errors.As(err, &over), "%v", err)
	assert.Equal(t, 1213, mysqlNumber(err))
	err = victim.Commit()
	var commit *curfewsql.CommitError
	require.True(t, errors.As(err, &commit), "%v", err)
	assert.Equal(t, curfewsql.NotCommitted, commit.Outcome)
	require.NoError(t, other.Commit())
	assert.Zero(t, number(t, db, "select count(*) from d where n = 3"))
}

func TestALockWaitNamesItsPhase(t *testing.T) {
	s := servers.Start(t, servers.MariaDB, "innodb-lock-wait-timeout=1")
	db := wrap(t, mysqlConnector(t, s.Addr(), s))
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

func TestACommitThatWaitsForALockIsCutAndRolledBack(t *testing.T) {
	s := servers.Start(t, servers.MariaDB)
	db := wrap(t, mysqlConnector(t, s.Addr(), s), curfewsql.Slush(roomyAt(100*time.Millisecond)))
	must(t, db, "create table c (n int)")
	holder := bare(t, mysqlConnector(t, s.Addr(), s))
	lock, err := holder.Conn(t.Context())
	require.NoError(t, err)
	defer lock.Close()
	began := time.Now()
	err = curfewsql.WithTx(t.Context(), db, budget.Within(200*time.Millisecond), func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "insert into c values (1)")
		require.NoError(t, err)
		_, err = lock.ExecContext(t.Context(), "flush tables with read lock")
		return err
	})
	assert.Less(t, time.Since(began), 300*time.Millisecond)
	var commit *curfewsql.CommitError
	require.True(t, errors.As(err, &commit), "%v", err)
	assert.Equal(t, curfewsql.NotCommitted, commit.Outcome)
	assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err))
	_, err = lock.ExecContext(t.Context(), "unlock tables")
	require.NoError(t, err)
	assert.Zero(t, number(t, db, "select count(*) from c"))
}
