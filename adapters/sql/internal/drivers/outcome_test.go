package drivers

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewsql "github.com/curfew-go/curfew/adapters/sql"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/servers"
	"github.com/curfew-go/curfew/internal/stress"
)

// An engine is a database of the test's own.
type engine struct {
	connector driver.Connector
	arg       string                        // how an argument is written
	work      string                        // computes for some milliseconds
	open      func(testing.TB, *sql.DB) int // counts open transactions that have written
}

// eachEngine runs f once for each driver.
func eachEngine(t *testing.T, f func(t *testing.T, e engine)) {
	t.Run("PostgreSQL", func(t *testing.T) {
		f(t, engine{pgxConnector(t, shared(t, servers.PostgreSQL)), "$1", "select count(*) from generate_series(1, 20000) n where n % 7 = 3", openInPostgres})
	})
	t.Run("MariaDB", func(t *testing.T) {
		f(t, engine{mysqlConnector(t, shared(t, servers.MariaDB)), "?", "select count(*) from seq_1_to_40000 where seq % 7 = 3", openInMariaDB})
	})
	eachSQLite(t, func(t *testing.T, d driver.Driver) {
		f(t, engine{sqliteConnector(t, d, tempFile(t)), "?", strings.Replace(longCTE, "1000000000", "2000", 1), openInSQLite})
	})
}

// openInSQLite is 1 when some transaction holds the lock to write.
func openInSQLite(tb testing.TB, watcher *sql.DB) int {
	conn, err := watcher.Conn(tb.Context())
	require.NoError(tb, err)
	defer conn.Close()
	_, err = conn.ExecContext(tb.Context(), "pragma busy_timeout = 0")
	require.NoError(tb, err)
	if _, err = conn.ExecContext(tb.Context(), "begin immediate"); err != nil {
		return 1
	}
	_, err = conn.ExecContext(tb.Context(), "rollback")
	require.NoError(tb, err)
	return 0
}

// The slush is so short that kills come in the middle of commits.
func TestWhatIsSaidOfACommitWhoseCtxEndsIsTrue(t *testing.T) {
	eachEngine(t, func(t *testing.T, e engine) {
		db := wrap(t, e.connector, curfewsql.Slush(roomyAt(time.Millisecond)))
		watcher := bare(t, e.connector)
		must(t, db, "create table o (id int primary key)")
		insert := "insert into o values (" + e.arg + ")"
		typical := time.Millisecond
		said := map[string]int{}
		for i := range stress.Shown(60, 2000) {
			began := time.Now()
			ctx, cancel := context.WithCancel(t.Context())
			limit := budget.Within(time.Minute)
			if i%3 == 0 {
				limit = budget.Within(time.Millisecond + rand.N(2*typical))
			} else if i == 2 { // one ends for sure
				cancel()
			} else if i%10 != 1 { // some are left alone, to know how long they take
				time.AfterFunc(rand.N(2*typical), cancel)
			}
			err := curfewsql.WithTx(ctx, db, limit, func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, insert, i)
				return err
			})
			cancel()
			if err == nil {
				typical = min(time.Since(began), 20*time.Millisecond)
			}
			var n int
			require.NoError(t, watcher.QueryRowContext(t.Context(), "select count(*) from o where id = "+e.arg, i).Scan(&n))
			var commit *curfewsql.CommitError
			switch there := n > 0; {
			case err == nil:
				said["committed"]++
				require.True(t, there)
			case !errors.As(err, &commit):
				said["not begun to commit"]++
				require.False(t, there, "%v", err)
			default:
				said[commit.Outcome.String()]++
				switch commit.Outcome {
				case curfewsql.NotCommitted:
					require.False(t, there, "%v", err)
				case curfewsql.CommittedLate:
					require.True(t, there, "%v", err)
				}
			}
		}
		t.Log(said)
		assert.NotZero(t, said["committed"])
		assert.Greater(t, len(said), 1)
	})
}

// Neither a statement that was under way when the ctx ended, nor one that came behind it, is
// there afterwards.
func TestACtxThatEndsWhileExecRunsLeavesNoRow(t *testing.T) {
	eachEngine(t, func(t *testing.T, e engine) {
		db := wrap(t, e.connector)
		must(t, db, "create table x (n int)")
		before := 0
		for i := range stress.Shown(100, 10_000) {
			ctx, cancel := context.WithCancel(context.Background())
			tx, err := db.BeginTx(ctx, nil)
			require.NoError(t, err)
			insert := func(ctx context.Context) error {
				_, err := tx.ExecContext(ctx, "insert into x values ("+e.arg+")", i)
				return err
			}
			require.NoError(t, insert(ctx))
			if i > 0 { // the first ends for sure behind a statement
				time.AfterFunc(rand.N(200*time.Microsecond), cancel)
			}
			for err == nil {
				if err = insert(ctx); err == nil {
					before++
				}
				if i == 0 {
					cancel()
				}
			}
			require.Error(t, insert(context.Background()))
			_ = tx.Rollback()
			cancel()
		}
		require.Eventually(t, func() bool { return db.Stats().InUse == 0 }, patience, time.Millisecond)
		t.Logf("%d statements before the end", before)
		assert.NotZero(t, before)
		watcher := bare(t, e.connector)
		assert.Zero(t, number(t, watcher, "select count(*) from x"))
		require.Eventually(t, func() bool { return e.open(t, watcher) == 0 }, patience, 150*time.Millisecond, "open transactions")
	})
}

// Case 63: connections and transactions that leak where a ctx ends.
func TestCase63_NothingIsLeftInUseWhereverACtxEnds(t *testing.T) {
	eachEngine(t, func(t *testing.T, e engine) {
		db := wrap(t, e.connector)
		db.SetMaxOpenConns(4)
		must(t, db, "create table u (n int)", "insert into u values (1), (2), (3)")
		for i := range stress.Rounds(80) {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(rand.N(time.Millisecond), cancel)
			switch i % 4 {
			case 0: // a transaction that nobody ends
				if tx, err := db.BeginTx(ctx, nil); err == nil {
					_, _ = tx.ExecContext(ctx, "insert into u values (4)")
				}
			case 1: // rows that nobody closes
				if rows, err := db.QueryContext(ctx, "select n from u"); err == nil {
					rows.Next()
				}
			case 2: // both
				if tx, err := db.BeginTx(ctx, nil); err == nil {
					if rows, err := tx.QueryContext(ctx, "select n from u"); err == nil {
						rows.Next()
					}
				}
			case 3:
				if conn, err := db.Conn(ctx); err == nil {
					_ = conn.PingContext(ctx)
					_ = conn.Close()
				}
			}
		}
		require.Eventually(t, func() bool { return db.Stats().InUse == 0 }, patience, time.Millisecond)
		assert.Equal(t, 3, number(t, db, "select count(*) from u"))
		must(t, db, "drop table u") // which an open transaction would keep
	})
}
