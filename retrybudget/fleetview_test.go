package retrybudget_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/curfew-go/curfew/retrybudget"
	"github.com/curfew-go/curfew/retrybudget/pooltest"
)

func TestAHedgeLeavesALeaseToRetriesAndAsksForNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := &link{Pool: &pooltest.Memory{}, rtt: 10 * time.Millisecond}
		fill(t, pool.Pool, 5)
		b := retrybudget.New("target", retrybudget.Config{Pool: pool, Burst: 5, PerSecond: -1})
		h := b.Hedges()
		for range 10 {
			assert.False(t, h.TryTake())
		}
		time.Sleep(time.Second)
		assert.Zero(t, pool.calls.Load())
		for range 3 {
			b.TryTake() // are denied, and make the member ask for as much
		}
		time.Sleep(350 * time.Millisecond)
		lent := b.Stats().Floor
		assert.Equal(t, 3, lent)
		assert.Equal(t, lent-1, h.Stats().Floor)
		assert.Equal(t, lent-1, drain(h))
		assert.Equal(t, 1, drain(b))
		time.Sleep(5 * time.Second)
	})
}

func TestAFanOutOfAFleetIsBoundedAndDoesNotAskForMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := &link{Pool: &pooltest.Memory{}, rtt: time.Millisecond}
		fill(t, pool.Pool, 50)
		b := retrybudget.New("target", retrybudget.Config{Pool: pool, Burst: 50})
		fan := b.AtMost(2)
		retries := 0
		for range 10 {
			calls := 0
			_ = retrybudget.Do(t.Context(), fan, idempotent(5*time.Millisecond), failing(&calls, errDown))
			retries += calls - 1
			time.Sleep(300 * time.Millisecond)
		}
		assert.Equal(t, 2, retries)
		assert.EqualValues(t, 2, b.Stats().Fleet.Leased)
	})
}

func TestObservingAFleetDeniesNothingAndWaitsForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := &link{Pool: &pooltest.Memory{}, rtt: 15 * time.Millisecond}
		b := retrybudget.New("target", retrybudget.Config{Pool: pool, Burst: -1, PerSecond: -1, Observe: true})
		b.Hold(time.Millisecond)
		for range 5 {
			calls, began := 0, time.Now()
			_ = retrybudget.Do(t.Context(), b, idempotent(2*time.Millisecond), failing(&calls, errDown))
			assert.Equal(t, 2, calls)
			assert.Equal(t, 2*time.Millisecond, time.Since(began))
		}
		s := b.Stats()
		assert.EqualValues(t, 5, s.Retries)
		assert.EqualValues(t, 5, s.DeniedRetries)
		assert.EqualValues(t, 1, s.DeniedHeld)
		assert.EqualValues(t, 4, s.Fleet.DeniedEmpty)
		time.Sleep(5 * time.Second)
	})
}

// A timeout costs two, of what is lent as well.
func TestATimeoutTakesTwoOfWhatIsLent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := &pooltest.Memory{}
		fill(t, pool, 3)
		b := retrybudget.New("target", retrybudget.Config{Pool: pool, Burst: 3, PerSecond: -1})
		policy := idempotent(5 * time.Millisecond)
		policy.PerAttempt = 10 * time.Millisecond
		for range 2 {
			_ = retrybudget.Do(t.Context(), b, policy, func(ctx context.Context) error {
				<-ctx.Done()
				return ctx.Err()
			})
			time.Sleep(3 * time.Second)
		}
		s := b.Stats()
		assert.EqualValues(t, 1, s.Retries)
		assert.EqualValues(t, 1, s.DeniedRetries, "one is left, and it costs two")
	})
}

func TestAHoldEndsByItselfAlsoWithoutAPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := retrybudget.New("target", retrybudget.Config{})
		b.Hold(0)
		assert.True(t, b.TryTake())
		b.Hold(time.Hour) // a minute
		b.Hold(time.Second)
		calls := 0
		err := retrybudget.Do(t.Context(), b, idempotent(time.Millisecond), failing(&calls, errDown))
		var denied *retrybudget.DeniedError
		assert.ErrorAs(t, err, &denied)
		assert.Equal(t, time.Minute, denied.Wait)
		assert.Equal(t, "retries are held for 1m0s", denied.Why)
		time.Sleep(time.Minute)
		assert.True(t, b.TryTake())
		u := retrybudget.Unlimited()
		u.Hold(time.Second)
		assert.True(t, u.TryTake())
	})
}

func TestBadCallsOfAFleetPanic(t *testing.T) {
	var noCtx context.Context
	b := retrybudget.New("target", retrybudget.Config{Pool: &pooltest.Memory{}})
	assert.PanicsWithValue(t, "retrybudget: Hold: negative d -1ns", func() { b.Hold(-1) })
	assert.PanicsWithValue(t, "retrybudget: Close: nil context", func() { _ = b.Close(noCtx) })
	assert.PanicsWithValue(t, "retrybudget: Close: zero Budget; New makes one", func() { _ = new(retrybudget.Budget).Close(t.Context()) })
	assert.PanicsWithValue(t, "retrybudget: Close: nil or zero Set; NewSet makes one", func() { _ = new(retrybudget.Set).Close(t.Context()) })
	assert.EqualError(t, retrybudget.PoolRequest{Target: "a\nb"}.Check(), `retrybudget: pool of "a\nb": Member of 0 bytes is not within 1 and 128`)
}
