package retrybudget_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/curfew-go/curfew/internal/stress"
	"github.com/curfew-go/curfew/retrybudget"
)

func TestHedgesLeaveTheLastHalfToRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := retrybudget.New("target", none(0.1))
		earn(b, 200)
		assert.Equal(t, 10, b.Hedges().Stats().Credit)
		assert.Equal(t, 10, drain(b.Hedges()))
		assert.Equal(t, 10, drain(b))
		st := b.Stats()
		assert.EqualValues(t, 10, st.Hedges)
		assert.EqualValues(t, 10, st.Retries)
		assert.EqualValues(t, 1, st.DeniedHedges)
		assert.EqualValues(t, 1, st.DeniedRetries)

		// Once retries have spent the first half there is nothing for hedges,
		// and what retries did not spend of theirs stays theirs.
		earn(b, 200) // 400 live now: half of 40 is kept
		for range 5 {
			assert.True(t, b.TryTake())
		}
		assert.Zero(t, drain(b.Hedges()))
		assert.Contains(t, b.Hedges().String(), "the credit left is kept for retries")
		assert.Equal(t, 15, drain(b))
	})
}

func TestHedgesAreCountedApartInWhicheverWayTheyWerePaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := retrybudget.New("target", retrybudget.Config{Ratio: 1, Burst: 4, PerSecond: -1})
		earn(b, 2)
		assert.Equal(t, 3, drain(b.Hedges()), "one of two earned, two of the floor's four")
		assert.Equal(t, 3, drain(b))
		assert.EqualValues(t, 3, b.Stats().Hedges)
		assert.EqualValues(t, 3, b.Stats().Retries)
	})
}

func TestAViewOfAViewObeysBoth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := retrybudget.New("target", retrybudget.Config{Burst: 100, PerSecond: -1})
		outer := b.AtMost(5)
		inner, other := outer.AtMost(3), outer.AtMost(4)
		assert.Equal(t, 3, inner.Stats().Floor)
		assert.Equal(t, 3, drain(inner))
		assert.Equal(t, 2, drain(other), "what the outer one has left")
		assert.Zero(t, drain(outer))
		assert.Zero(t, drain(b.AtMost(0)))
		assert.Equal(t, 95, drain(b), "refusals of a view cost nothing")

		// A denial by the budget does not use up the view.
		b = retrybudget.New("target", none(1))
		fan := b.AtMost(2)
		assert.Zero(t, drain(fan))
		earn(b, 9)
		assert.Equal(t, 2, drain(fan))
	})
}

func TestWhatACallDidNotUseGoesBackToTheFanOutToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := retrybudget.New("target", none(1))
		earn(b, 4)
		fan := b.AtMost(1)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		calls := 0
		err := retrybudget.Do(ctx, fan, retrybudget.Policy{Idempotent: true, Backoff: fixed(time.Minute)}, failing(&calls, errDown))
		assert.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, 1, drain(fan))
		assert.Equal(t, 3, drain(b))
		assert.EqualValues(t, 4, b.Stats().Retries)
	})
}

func TestAFanOutOfAnUnlimitedBudgetSaysWhatItsCapIs(t *testing.T) {
	fan := retrybudget.Unlimited().AtMost(2)
	assert.Equal(t, 2, fan.Stats().Credit)
	assert.Zero(t, fan.Stats().Floor)
	assert.Contains(t, fan.String(), "; unlimited but for this fan-out; denies after 2 more")
	drain(fan)
	assert.Contains(t, fan.String(), "; denies now: all extra attempts of this fan-out are made")
}

func TestStringRoundsNoCapDownToNothing(t *testing.T) {
	b := retrybudget.New("target", retrybudget.Config{Ratio: 0.000001, PerSecond: 0.0002})
	assert.Contains(t, b.String(), "; cap 0.0001% of successes + 0.0002/s, burst 5;")
}

// Names of targets may come from outside.
func TestANameThatWouldBreakALineIsQuoted(t *testing.T) {
	for name, want := range map[string]string{"a\nb": `"a\nb"`, "a\xffb": `"a\xffb"`, "a b/é": "a b/é"} {
		b := retrybudget.New(name, none(1))
		assert.Contains(t, b.String(), "retrybudget: "+want+": ")
		err := retrybudget.Do(t.Context(), b, retrybudget.Policy{Idempotent: true}, func(context.Context) error { return errDown })
		assert.ErrorContains(t, err, "retrybudget: "+want+": denied")
		assert.Equal(t, name, b.Stats().Target)
	}
}

func TestAViewSharedByGoroutinesIsNeverOverspent(t *testing.T) {
	for range stress.Rounds(50) {
		b := retrybudget.Unlimited()
		fan := b.AtMost(20)
		var wg sync.WaitGroup
		var mu sync.Mutex
		granted := 0
		start := make(chan struct{})
		for range 16 {
			wg.Go(func() {
				<-start
				n := drain(fan)
				mu.Lock()
				granted += n
				mu.Unlock()
			})
		}
		close(start)
		wg.Wait()
		assert.Equal(t, 20, granted)
		assert.EqualValues(t, 20, b.Stats().Retries)
	}
}
