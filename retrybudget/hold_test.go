package retrybudget_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/retrybudget"
	"github.com/curfew-go/curfew/retrybudget/pooltest"
)

func TestAHoldReachesTheWholeFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := &pooltest.Memory{}
		one, other := retrybudget.New("target", fleet(memory)), retrybudget.New("target", fleet(memory))
		for range 20 {
			earn(one, 10)
			earn(other, 10)
			time.Sleep(50 * time.Millisecond)
		}
		require.True(t, other.TryTake())
		one.Hold(5 * time.Second)
		assert.False(t, one.TryTake(), "at once where it is said")
		earn(other, 20) // something to say
		time.Sleep(600 * time.Millisecond)
		assert.False(t, other.TryTake())
		assert.False(t, other.Hedges().TryTake())
		assert.EqualValues(t, 2, other.Stats().DeniedHeld)
		assert.Contains(t, fmt.Sprint(other), "retries are held for 4.")
		time.Sleep(5 * time.Second)
		assert.True(t, other.TryTake())
		assert.True(t, one.TryTake())
	})
}

// A member that spends about what it earns asks the pool for nothing.
func TestAHoldReachesAMemberThatRetriesOnItsOwnCredit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := &pooltest.Memory{}
		one, other := retrybudget.New("target", fleet(memory)), retrybudget.New("target", fleet(memory))
		second := func(b *retrybudget.Budget) (retries int) { // 10 calls/s succeed, and one more fails
			for i := range 11 {
				switch {
				case i < 10:
					b.Success()
				case b.TryTake():
					retries++
				}
				time.Sleep(time.Second / 11)
			}
			return retries
		}
		before := 0
		for range 20 {
			before += second(other)
		}
		assert.GreaterOrEqual(t, before, 18)
		one.Hold(30 * time.Second)
		time.Sleep(time.Second)
		require.False(t, one.TryTake())
		late := 0
		for i := range 25 {
			if n := second(other); i >= 2 {
				late += n
			}
		}
		assert.Zero(t, late, "retries of a member, two seconds and more after the target said: do not retry")
		time.Sleep(15 * time.Second)
	})
}

func TestAHoldWhoseCallIsLostIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := &pooltest.Memory{}
		pool := &link{Pool: memory}
		b := retrybudget.New("target", fleet(pool))
		pool.cut.Store(true)
		b.Hold(5 * time.Second)
		time.Sleep(time.Second)
		require.Equal(t, "local", b.Stats().Fleet.Mode)
		pool.cut.Store(false)
		time.Sleep(600 * time.Millisecond)
		g, err := memory.Sync(t.Context(), retrybudget.PoolRequest{Target: "target", Member: "other", Seq: 1})
		require.NoError(t, err)
		assert.InDelta(t, 3.4, g.Hold.Seconds(), 0.1, "what is left of it")
		time.Sleep(15 * time.Second)
	})
}
