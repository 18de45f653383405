package drivers

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewsql "github.com/curfew-go/curfew/adapters/sql"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/budget/wire"
	"github.com/curfew-go/curfew/internal/stress"
)

// roomyAt is a slush of d for a call without deadline: a fifth of it is the grace.
func roomyAt(d time.Duration) wire.Slush { return wire.Slush{Share: 0.5, Cap: d} }

// The slush is so short that kills come around the end of the work.
func TestCase53_ACancelNeverEndsTheNextStatementAndLeavesNothingOpen(t *testing.T) {
	eachEngine(t, func(t *testing.T, e engine) {
		db := wrap(t, e.connector, curfewsql.Slush(roomyAt(20*time.Millisecond)))
		must(t, db, "create table c53 (n int)")
		reuse(t, e, db)
		require.Eventually(t, func() bool { return db.Stats().InUse == 0 }, patience, time.Millisecond)
		watcher := bare(t, e.connector)
		require.Eventually(t, func() bool { return e.open(t, watcher) == 0 }, patience, 150*time.Millisecond, "open transactions")
		assert.Zero(t, number(t, watcher, "select count(*) from c53"))
		assert.LessOrEqual(t, db.Stats().OpenConnections, workers)
	})
}

const workers = 4

// reuse ends e.work by cancel and by deadline at instants around its own end, alone and in
// transactions that are rolled back, and uses the connection again at once.
func reuse(t *testing.T, e engine, db *sql.DB) {
	db.SetMaxOpenConns(workers)
	db.SetMaxIdleConns(workers)
	began := time.Now()
	number(t, db, e.work)
	typical := min(max(time.Since(began), 100*time.Microsecond), 200*time.Millisecond)
	enough := time.Now().Add(3 * time.Second / 2) // on a busy machine
	if stress.Level() > 0 {
		enough = enough.Add(10 * time.Minute)
	}
	var cut, done, lost, rounds atomic.Int64
	var wait sync.WaitGroup
	for range workers {
		wait.Go(func() {
			for i := range stress.Rounds(1000) / workers {
				if time.Now().After(enough) {
					return
				}
				rounds.Add(1)
				gone, err := e.reuse(t, db, i, typical)
				switch budget.KindOf(err) {
				case budget.None:
					done.Add(1)
				case budget.Cancelled, budget.DeadlineExceeded, budget.LocalBudgetRejected:
					cut.Add(1)
				default:
					assert.True(t, gaveUp(err), "%v", err)
				}
				if gone {
					lost.Add(1)
				}
			}
		})
	}
	wait.Wait()
	t.Logf("%d rounds: work of %v: %d cut, %d done, %d connections given up", rounds.Load(), typical, cut.Load(), done.Load(), lost.Load())
	assert.NotZero(t, cut.Load())
	assert.NotZero(t, done.Load())
}

// reuse is one round. It returns how the work ended, and whether that cost the connection.
func (e engine) reuse(t *testing.T, db *sql.DB, i int, typical time.Duration) (lost bool, err error) {
	conn, err := db.Conn(context.Background())
	if err != nil {
		return false, err
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(context.Background())
	if i%2 == 0 {
		cancel()
		ctx, cancel = context.WithTimeout(context.Background(), 2*time.Millisecond+rand.N(4*typical))
	}
	defer cancel()
	switch i {
	case 0: // one that nobody ends
		ctx = context.Background()
	case 1: // and one that ends for sure
		cancel()
	default:
		defer time.AfterFunc(rand.N(2*typical), cancel).Stop()
	}
	work := func() (err error) {
		if i%4 < 2 {
			return conn.QueryRowContext(ctx, e.work).Scan(new(any))
		}
		tx, err := conn.BeginTx(context.Background(), nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if _, err := tx.Exec("insert into c53 values (1)"); err != nil {
			return err
		}
		return tx.QueryRowContext(ctx, e.work).Scan(new(any))
	}
	err = curfewsql.Error(ctx, work())
	next := conn.QueryRowContext(context.Background(), "select 1").Scan(new(any))
	if gaveUp(next) {
		return true, err
	}
	assert.NoError(t, next, "the next statement")
	return false, err
}

// gaveUp reports whether err says no more than that the connection was given up.
func gaveUp(err error) bool {
	return errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone)
}
