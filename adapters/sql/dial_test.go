package curfewsql_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewsql "github.com/curfew-go/curfew/adapters/sql"
	"github.com/curfew-go/curfew/budget"
)

// A door is where logins wait, in a bubble.
type door struct {
	takes func(n int) time.Duration // how long login n takes, from 1; negative: as long as its ctx lets it
	began time.Time

	mu     sync.Mutex
	logins int             // guarded by mu
	ended  []time.Duration // guarded by mu: when a login that hung was given up
	closed []time.Duration // guarded by mu: when a connection was closed
}

func (d *door) Driver() driver.Driver { return nil }
func (d *door) Connect(ctx context.Context) (driver.Conn, error) {
	d.mu.Lock()
	d.logins++
	takes := d.takes(d.logins)
	d.mu.Unlock()
	var there <-chan time.Time
	if takes >= 0 {
		there = time.After(takes)
	}
	select {
	case <-there:
		return &doorConn{door: d}, nil
	case <-ctx.Done():
		d.mu.Lock()
		defer d.mu.Unlock()
		d.ended = append(d.ended, time.Since(d.began))
		return nil, ctx.Err()
	}
}

type doorConn struct {
	fullConn
	door *door
}

func (c *doorConn) Ping(context.Context) error         { return nil }
func (c *doorConn) ResetSession(context.Context) error { return nil }
func (c *doorConn) IsValid() bool                      { return true }
func (c *doorConn) Close() error {
	c.door.mu.Lock()
	defer c.door.mu.Unlock()
	c.door.closed = append(c.door.closed, time.Since(c.door.began))
	return nil
}

// was returns a copy of one of d's fields.
func (d *door) was(field *[]time.Duration) []time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(*field)
}

func (d *door) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.logins
}

// atTheDoor runs f in a bubble with a function that pings under a limit.
func atTheDoor(t *testing.T, takes func(n int) time.Duration, f func(t *testing.T, d *door, ping func(time.Duration) error)) {
	synctest.Test(t, func(t *testing.T) {
		d := &door{takes: takes, began: time.Now()}
		db := curfewsql.Wrap(d, curfewsql.WithDialect(plain{}))
		defer db.Close()
		f(t, d, func(limit time.Duration) error {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			return curfewsql.Error(ctx, db.PingContext(ctx))
		})
	})
}

func each(d time.Duration) func(int) time.Duration { return func(int) time.Duration { return d } }

func TestALoginThatTakesLongerThanLimitsIsThereForOneOfThem(t *testing.T) {
	atTheDoor(t, each(250*time.Millisecond), func(t *testing.T, d *door, ping func(time.Duration) error) {
		for range 2 {
			err := ping(100 * time.Millisecond)
			assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err), "%v", err)
			assert.Contains(t, err.Error(), "connect")
		}
		require.NoError(t, ping(100*time.Millisecond))
		assert.Equal(t, 250*time.Millisecond, time.Since(d.began))
		assert.Equal(t, 1, d.count())
	})
}

func TestALoginThatHangsKeepsNobodyFromAnotherForMoreThanASecond(t *testing.T) {
	hangs := func(n int) time.Duration {
		if n == 1 {
			return -1
		}
		return 10 * time.Millisecond
	}
	atTheDoor(t, hangs, func(t *testing.T, d *door, ping func(time.Duration) error) {
		for ping(100*time.Millisecond) != nil {
			require.Less(t, time.Since(d.began), 2*time.Second)
		}
		assert.Equal(t, 1010*time.Millisecond, time.Since(d.began))
		assert.Equal(t, 2, d.count())
		time.Sleep(5 * time.Second)
		assert.Equal(t, []time.Duration{3100 * time.Millisecond}, d.was(&d.ended), "3 s behind who left it first")
	})
}

func TestAConnectionThatNobodyWantsAnyMoreIsClosed(t *testing.T) {
	atTheDoor(t, each(time.Second), func(t *testing.T, d *door, ping func(time.Duration) error) {
		require.Error(t, ping(100*time.Millisecond))
		time.Sleep(10 * time.Second)
		assert.Equal(t, []time.Duration{3 * time.Second}, d.was(&d.closed), "2 s behind its login")
	})
	var d *door
	atTheDoor(t, each(time.Second), func(t *testing.T, its *door, ping func(time.Duration) error) {
		d = its
		require.Error(t, ping(100*time.Millisecond))
		time.Sleep(2 * time.Second)
		assert.Empty(t, d.was(&d.closed))
	})
	assert.Equal(t, []time.Duration{2100 * time.Millisecond}, d.was(&d.closed), "with the database")
}

func TestLoginsThatNobodyWaitsForAreBounded(t *testing.T) {
	atTheDoor(t, each(time.Minute), func(t *testing.T, d *door, ping func(time.Duration) error) {
		var wait sync.WaitGroup
		for range 20 {
			wait.Go(func() { assert.Error(t, ping(100*time.Millisecond)) })
		}
		wait.Wait()
		synctest.Wait()
		assert.Equal(t, 20, d.count())
		assert.Len(t, d.was(&d.ended), 12)
	})
}

func TestAnErrorOfALoginThatWasLeftIsNotTheNextCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logins atomic.Int64
		db := curfewsql.Wrap(connects(func(context.Context) (driver.Conn, error) {
			if logins.Add(1) == 1 {
				time.Sleep(150 * time.Millisecond)
				return nil, errors.New("starting up")
			}
			return fullConn{leastConn{&journal{}}}, nil
		}), curfewsql.WithDialect(plain{}))
		defer db.Close()
		for _, want := range []bool{false, true} {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			assert.Equal(t, want, db.PingContext(ctx) == nil)
			cancel()
		}
		assert.Equal(t, int64(2), logins.Load())
	})
}

func TestAPanicOfADriverIsTheCallers(t *testing.T) {
	db := curfewsql.Wrap(connects(func(context.Context) (driver.Conn, error) { panic("of the driver") }), curfewsql.WithDialect(plain{}))
	defer db.Close()
	assert.PanicsWithValue(t, "of the driver", func() { _ = db.PingContext(t.Context()) })
}
