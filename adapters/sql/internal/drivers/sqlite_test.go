package drivers

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewsql "github.com/curfew-go/curfew/adapters/sql"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/stress"
)

func TestCase67_NothingCommitsBehindAnInterruptedTransaction(t *testing.T) {
	eachSQLite(t, func(t *testing.T, d driver.Driver) {
		db := wrap(t, sqliteConnector(t, d, tempFile(t)))
		must(t, db, "create table c67 (n int)")
		tx, err := db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		_, err = tx.Exec("insert into c67 values (1)")
		require.NoError(t, err)
		_, err = tx.ExecContext(within(t, 100*time.Millisecond), "insert into c67 select 2 from ("+longCTE+")")
		assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err), "%v", err)
		for range 2 {
			_, err = tx.Exec("insert into c67 values (3)")
			var over *curfewsql.TxError
			require.True(t, errors.As(err, &over), "%v", err)
			assert.ErrorIs(t, err, sql.ErrTxDone)
			assert.ErrorIs(t, err, context.DeadlineExceeded)
		}
		require.NoError(t, tx.Rollback())
		assert.Zero(t, number(t, db, "select count(*) from c67"))
	})
}

// The driver of ncruces polls. That of modernc.org interrupts all that runs on the connection:
// a neighbour then ends with an error, and is never cut short without one.
func TestCase68_AnInterruptHitsNeitherNeighboursNorTheNextQuery(t *testing.T) {
	eachSQLite(t, func(t *testing.T, d driver.Driver) {
		db := wrap(t, sqliteConnector(t, d, tempFile(t)))
		lateInterrupts(t, db, d == sqlites["modernc"])
	})
}

// lateInterrupts ends queries around their own end, next to one that goes on.
func lateInterrupts(t *testing.T, db *sql.DB, neighbours bool) {
	work := "with recursive c(n) as (select 1 union all select n+1 from c where n < 500) select count(*) from c"
	conn, err := db.Conn(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	began := time.Now()
	require.NoError(t, conn.QueryRowContext(t.Context(), work).Scan(new(int)))
	typical := min(max(time.Since(began), 50*time.Microsecond), 200*time.Millisecond)
	enough := time.Now().Add(time.Duration(stress.Rounds(2)) * time.Second) // on a busy machine
	cut, done, hit := 0, 0, 0
	for i := range stress.Rounds(100) {
		if time.Now().After(enough) {
			break
		}
		neighbour, err := conn.QueryContext(t.Context(), "values (1), (2), (3)")
		if errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) { // the driver has given it up
			conn.Close()
			conn, err = db.Conn(t.Context())
			require.NoError(t, err)
			neighbour, err = conn.QueryContext(t.Context(), "values (1), (2), (3)")
		}
		require.NoError(t, err)
		require.True(t, neighbour.Next())
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Millisecond+3*typical)
		switch i {
		case 0: // one that nobody ends
			ctx = t.Context()
		case 1: // and one that ends for sure
			cancel()
		default:
			time.AfterFunc(rand.N(2*typical), cancel)
		}
		var n int
		switch err := curfewsql.Error(ctx, conn.QueryRowContext(ctx, work).Scan(&n)); budget.KindOf(err) {
		case budget.None:
			done++
		case budget.DeadlineExceeded, budget.LocalBudgetRejected, budget.Cancelled:
			cut++
		default:
			assert.NoError(t, err)
		}
		cancel()
		rows := 1
		for neighbour.Next() {
			rows++
		}
		if neighbour.Err() == nil {
			require.Equal(t, 3, rows)
		} else {
			require.True(t, neighbours, "%v", neighbour.Err())
			hit++
		}
		neighbour.Close()
		var next int
		err = conn.QueryRowContext(t.Context(), "select 1").Scan(&next)
		if !neighbours || !errors.Is(err, driver.ErrBadConn) && !errors.Is(err, sql.ErrConnDone) {
			require.NoError(t, err)
		}
	}
	t.Logf("%d cut, %d done, %d neighbours hit", cut, done, hit)
	assert.NotZero(t, cut)
	assert.NotZero(t, done)
}

func TestCase70_AnInterruptedConnectionComesBackUsableOrNotAtAll(t *testing.T) {
	eachSQLite(t, func(t *testing.T, d driver.Driver) {
		db := wrap(t, sqliteConnector(t, d, tempFile(t)))
		db.SetMaxOpenConns(1)
		must(t, db, "create table c70 (n int)")
		for range 20 {
			_, err := db.ExecContext(within(t, 20*time.Millisecond), longCTE)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			must(t, db, "insert into c70 values (1)")
		}
		assert.Equal(t, 20, number(t, db, "select count(*) from c70"))
	})
}

func TestTheBusyWaitEndsWithTheDeadline(t *testing.T) {
	eachSQLite(t, func(t *testing.T, d driver.Driver) {
		file := tempFile(t)
		db := wrap(t, sqliteConnector(t, d, file))
		must(t, db, "create table b (n int)")
		holder := bare(t, sqliteConnector(t, d, file))
		holder.SetMaxOpenConns(1)
		must(t, holder, "begin immediate", "insert into b values (1)")
		began := time.Now()
		_, err := db.ExecContext(within(t, 200*time.Millisecond), "insert into b values (2)")
		back(t, began, 250*time.Millisecond) // the busy timeout is a minute
		assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err), "%v", err)
		must(t, holder, "rollback")
		assert.Zero(t, number(t, db, "select count(*) from b"))
	})
}

func TestACommitThatWaitsForAReaderEndsWithTheDeadline(t *testing.T) {
	eachSQLite(t, func(t *testing.T, d driver.Driver) {
		file := tempFile(t)
		db := wrap(t, sqliteConnector(t, d, file))
		must(t, db, "create table w (n int)", "insert into w values (1), (2)")
		reader := bare(t, sqliteConnector(t, d, file))
		rows, err := reader.QueryContext(t.Context(), "select n from w")
		require.NoError(t, err)
		defer rows.Close()
		require.True(t, rows.Next())
		began := time.Now()
		err = curfewsql.WithTx(t.Context(), db, budget.Within(200*time.Millisecond), func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "insert into w values (3)")
			return err
		})
		back(t, began, 250*time.Millisecond) // the busy timeout is a minute
		var commit *curfewsql.CommitError
		require.True(t, errors.As(err, &commit), "%v", err)
		assert.Equal(t, curfewsql.NotCommitted, commit.Outcome)
		assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err), "%v", err)
		require.NoError(t, rows.Close())
		assert.Equal(t, 2, number(t, db, "select count(*) from w"))
		must(t, db, "insert into w values (4)")
	})
}

// What nobody can do about: one opcode of SQLite is not interrupted, and the driver of
// modernc.org watches the context until the first row alone. See the package's documentation.
func TestWhatSQLiteCannotBeInterruptedInRunsOn(t *testing.T) {
	eachSQLite(t, func(t *testing.T, d driver.Driver) {
		db := wrap(t, sqliteConnector(t, d, tempFile(t)))
		began := time.Now()
		var n int
		err := db.QueryRowContext(within(t, 20*time.Millisecond), "select length(hex(zeroblob(8000000)))").Scan(&n)
		t.Logf("back after %v: %v", time.Since(began), err)
		assert.Greater(t, time.Since(began), 20*time.Millisecond)
		must(t, db, "select 1")
	})
}
