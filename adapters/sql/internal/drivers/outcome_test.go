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
	"github.com/curfew-go/curfew/internal/servers"
)

// An engine is a database of the test's own.
type engine struct {
	connector driver.Connector
	arg       string // how an argument is written
	keeps     bool   // a cancel leaves the connection
}

// eachEngine runs f once for each driver.
func eachEngine(t *testing.T, f func(t *testing.T, e engine)) {
	t.Run("PostgreSQL", func(t *testing.T) {
		f(t, engine{pgxConnector(t, servers.Start(t, servers.PostgreSQL)), "$1", false})
	})
	t.Run("MariaDB", func(t *testing.T) {
		s := servers.Start(t, servers.MariaDB)
		f(t, engine{mysqlConnector(t, s.Addr(), s), "?", true})
	})
	eachSQLite(t, func(t *testing.T, d driver.Driver) {
		f(t, engine{sqliteConnector(t, d, tempFile(t)), "?", true})
	})
}

// rounds is how often an engine repeats what may cost a connection.
func (e engine) rounds(n int) int {
	if !e.keeps {
		n /= 4
	}
	return stress(n)
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
		for i := range e.rounds(200) {
			began := time.Now()
			ctx, cancel := context.WithCancel(t.Context())
			limit := budget.Within(time.Minute)
			if i%3 == 0 {
				limit = budget.Within(time.Millisecond + rand.N(2*typical))
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

// Case 63: connections and transactions that leak where a ctx ends.
func TestCase63_NothingIsLeftInUseWhereverACtxEnds(t *testing.T) {
	eachEngine(t, func(t *testing.T, e engine) {
		db := wrap(t, e.connector)
		db.SetMaxOpenConns(4)
		must(t, db, "create table u (n int)", "insert into u values (1), (2), (3)")
		for i := range e.rounds(200) {
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
