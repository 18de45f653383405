package drivers

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/budget/wire"
)

// stress multiplies rounds by CURFEW_STRESS.
func stress(rounds int) int {
	if n, err := strconv.Atoi(os.Getenv("CURFEW_STRESS")); err == nil && n > 1 {
		return rounds * n
	}
	return rounds
}

// roomyAt is a slush of d for a call without deadline: a fifth of it is the grace.
func roomyAt(d time.Duration) wire.Slush { return wire.Slush{Share: 0.5, Cap: d} }

// lateKills cancels work so that kills come around its end, and uses the connection again at
// once. Soaks multiply its rounds with CURFEW_STRESS.
func lateKills(t *testing.T, db *sql.DB, work string) {
	const workers = 4
	db.SetMaxOpenConns(workers)
	db.SetMaxIdleConns(workers)
	began := time.Now()
	number(t, db, work)
	typical := min(max(time.Since(began), time.Millisecond), 200*time.Millisecond)
	enough := time.Now().Add(time.Duration(stress(5)) * time.Second) // on a busy machine
	var cut, done, spurious, lost atomic.Int64
	var wait sync.WaitGroup
	for range workers {
		wait.Go(func() {
			for range stress(400) / workers {
				if time.Now().After(enough) {
					return
				}
				func() {
					conn, err := db.Conn(context.Background())
					if !assert.NoError(t, err) {
						return
					}
					defer conn.Close()
					ctx, cancel := context.WithCancel(context.Background())
					defer cancel()
					timer := time.AfterFunc(rand.N(2*typical), cancel)
					defer timer.Stop()
					var n int
					err = conn.QueryRowContext(ctx, work).Scan(&n)
					switch kind := budget.KindOf(err); kind {
					case budget.None:
						done.Add(1)
					case budget.Cancelled:
						cut.Add(1)
					default:
						assert.NoError(t, err, "%v", kind)
					}
					err = conn.QueryRowContext(context.Background(), "select 1").Scan(&n)
					switch {
					case err == nil:
					case budget.KindOf(err) == budget.Failed && mysqlNumber(err) == 0:
						lost.Add(1) // given up: the kill's end was not seen in time
					default:
						spurious.Add(1)
						assert.NoError(t, err)
					}
				}()
			}
		})
	}
	wait.Wait()
	t.Logf("%d cut, %d done, %d next statements hit, %d connections given up", cut.Load(), done.Load(), spurious.Load(), lost.Load())
	assert.Zero(t, spurious.Load())
	assert.NotZero(t, cut.Load())
	assert.NotZero(t, done.Load())
	assert.Zero(t, db.Stats().InUse)
}
