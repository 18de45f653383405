package retrybudget_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/curfew-go/curfew/retrybudget"
)

// The public cases about accounts of credit, and those about fan-outs and what a
// denial says.

func TestCase01_ARatioOf60PercentAllowsSixOfTen(t *testing.T) {
	for ratio, want := range map[float64]int{0.6: 6, 0.07: 0, 0.15: 1, 0.3: 3, 0.7: 7, 0.99: 9} {
		b := retrybudget.New("target", none(ratio))
		earn(b, 10)
		assert.Equal(t, want, drain(b), "ratio %v", ratio)
	}
}

func TestCase03_ABurstOfThreeAllowsThreeAndNotAFourth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := retrybudget.New("target", retrybudget.Config{Ratio: 0.001, Burst: 3})
		assert.True(t, b.TryTake())
		assert.True(t, b.TryTake())
		assert.True(t, b.TryTake())
		assert.False(t, b.TryTake())
	})
}

func TestCase06_ADrainedBudgetRefillsBySuccessesInEveryMode(t *testing.T) {
	for name, c := range map[string]retrybudget.Config{
		"credit only":       none(0.1),
		"with a floor":      {Ratio: 0.1, Burst: 2, PerSecond: 0.001},
		"with a burst only": {Ratio: 0.1, Burst: 2, PerSecond: -1},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := retrybudget.New("target", c)
			for range 3 { // not only the first time
				drain(b)
				earn(b, 9)
				assert.False(t, b.TryTake(), name)
				b.Success()
				assert.True(t, b.TryTake(), name)
				time.Sleep(15 * time.Second) // what was earned expires
			}
		})
	}
}

func TestCase07_WorkersResumeWithinOneFloorIntervalAfterTheTargetHeals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const perSecond = 2
		b := retrybudget.New("target", retrybudget.Config{PerSecond: perSecond, Burst: 1})
		var healthy atomic.Bool
		var healedAt, resumedAt atomic.Int64
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() { // one task that is repeated until it works; no new calls
				policy := retrybudget.Policy{Idempotent: true, Attempts: 1 << 30, Backoff: fixed(10 * time.Millisecond)}
				for ctx.Err() == nil {
					err := retrybudget.Do(ctx, b, policy, func(ctx context.Context) error {
						if !healthy.Load() {
							return errDown
						}
						if retrybudget.Attempt(ctx) > 1 {
							resumedAt.CompareAndSwap(0, time.Now().UnixNano())
						}
						return nil
					})
					if err == nil {
						return
					}
					_ = retrybudget.Pause(ctx, err)
				}
			})
		}
		time.Sleep(time.Minute)
		assert.Positive(t, b.Stats().DeniedRetries)
		healthy.Store(true)
		healedAt.Store(time.Now().UnixNano())
		wg.Wait()
		assert.NoError(t, ctx.Err(), "the workers stalled")
		if at := resumedAt.Load(); at != 0 { // else fresh attempts were faster
			assert.LessOrEqual(t, time.Duration(at-healedAt.Load()), time.Second/perSecond+20*time.Millisecond)
		}
		assert.Less(t, time.Duration(time.Now().UnixNano()-healedAt.Load()), 2*time.Second)
	})
}

func TestCase08_ADeniedLoopThatPausesMakesOneCallPerBaseDelayAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const base = 100 * time.Millisecond
		for _, jitter := range []retrybudget.Jitter{retrybudget.FullJitter, retrybudget.EqualJitter, retrybudget.DecorrelatedJitter, retrybudget.NoJitter} {
			b := retrybudget.New("target", none(0.1))
			policy := retrybudget.Policy{Idempotent: true, Backoff: retrybudget.Backoff{Base: base, Jitter: jitter}}
			calls := 0
			for start := time.Now(); time.Since(start) < 10*time.Second; {
				before := time.Now()
				err := retrybudget.Do(t.Context(), b, policy, failing(&calls, errDown))
				assert.Zero(t, time.Since(before), "a denial must not wait")
				var denied *retrybudget.DeniedError
				if assert.ErrorAs(t, err, &denied) {
					assert.GreaterOrEqual(t, denied.Wait, base)
				}
				assert.NoError(t, retrybudget.Pause(t.Context(), err))
			}
			assert.LessOrEqual(t, calls, 100)
			assert.Greater(t, calls, 10)
		}
	})
}

func TestCase10_NoBudgetIsSaidAloudAndTheDefaultIsOne(t *testing.T) {
	assert.Contains(t, retrybudget.Unlimited().String(), "unlimited: denies nothing")
	assert.NotContains(t, retrybudget.New("target", retrybudget.Config{}).String(), "unlimited")
	var missing *retrybudget.Budget
	assert.PanicsWithValue(t, "retrybudget: Do: nil *Budget; Unlimited() is the one without a cap", func() {
		_ = retrybudget.Do(context.Background(), missing, retrybudget.Policy{}, func(context.Context) error { return nil })
	})
	synctest.Test(t, func(t *testing.T) { // the zero Config caps
		b := retrybudget.New("target", retrybudget.Config{})
		assert.Equal(t, 5, drain(b))
		assert.Equal(t, 1000, drain(retrybudget.Unlimited().AtMost(1000)))
	})
}

func TestCase11_OneTargetsExhaustionLeavesTheOthersTheirs(t *testing.T) {
	s := retrybudget.NewSet(none(0.5), 10)
	for _, target := range []string{"a", "b"} {
		earn(s.For(target), 10)
	}
	assert.Equal(t, 5, drain(s.For("a")))
	assert.Equal(t, 5, drain(s.For("b")))
}

func TestCase12_TheCapBindsASingleSequentialCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := retrybudget.New("target", retrybudget.Config{Ratio: 0.1, Burst: 5, PerSecond: 1})
		attempts := 0
		start := time.Now()
		for range 1000 {
			_ = retrybudget.Do(t.Context(), b, retrybudget.Policy{Idempotent: true, Backoff: fixed(time.Millisecond)}, failing(&attempts, errDown))
		}
		floor := 5 + int(time.Since(start)/time.Second)
		assert.LessOrEqual(t, attempts, 1000+floor)
	})
}

func TestCase13_TheBudgetIsReportedOverAWindowWithTheNextDenial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := retrybudget.New("payments", retrybudget.Config{Ratio: 0.1, Burst: 5, PerSecond: 2})
		earn(b, 240)
		for range 3 {
			assert.True(t, b.Hedges().TryTake())
		}
		for range 12 {
			assert.True(t, b.TryTake())
		}
		assert.Equal(t, "retrybudget: payments: 12 retries + 3 hedges / 240 successes (6.2%) in 10s; cap 10% of successes + 2/s, burst 5; denies after 14 more (9 earned, 5 floor)", b.String())
		assert.Equal(t, 14, drain(b))
		assert.Contains(t, b.String(), "; denies now: no credit left, next from the floor in 500ms")
		time.Sleep(11 * time.Second)
		assert.Contains(t, b.String(), ": 0 retries + 0 hedges / 0 successes in 10s;")
		st := b.Stats()
		assert.EqualValues(t, 240, st.Successes)
		assert.EqualValues(t, 26, st.Retries)
		assert.EqualValues(t, 3, st.Hedges)
		assert.EqualValues(t, 1, st.DeniedRetries)
		assert.Zero(t, st.RecentSuccesses)
	})
}

func TestCase15_AFanOutOf32WithEightExtraMakesFortyAttemptsAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := retrybudget.New("target", retrybudget.Config{Ratio: 1, Burst: 1000})
		fan := b.AtMost(8)
		var attempts atomic.Int64
		var wg sync.WaitGroup
		for range 32 {
			wg.Go(func() {
				err := retrybudget.Do(t.Context(), fan, retrybudget.Policy{Idempotent: true}, func(context.Context) error {
					attempts.Add(1)
					return errDown
				})
				assert.ErrorIs(t, err, errDown)
			})
		}
		wg.Wait()
		assert.EqualValues(t, 40, attempts.Load())
		assert.Contains(t, fan.String(), "all extra attempts of this fan-out are made")
		assert.True(t, b.TryTake(), "only the fan-out is capped")
	})
}

func TestCase16_ADenialIsFoundBesideTheLastErrorAndComesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		calls := 0
		err := retrybudget.Do(t.Context(), retrybudget.New("target", none(0.1)), retrybudget.Policy{Idempotent: true, Attempts: 5}, failing(&calls, errDown))
		assert.Zero(t, time.Since(start))
		assert.Equal(t, 1, calls)
		assert.ErrorIs(t, err, retrybudget.ErrDenied)
		assert.ErrorIs(t, err, errDown)
		var denied *retrybudget.DeniedError
		if assert.True(t, errors.As(err, &denied)) {
			assert.Equal(t, "target", denied.Target)
			assert.Equal(t, 1, denied.Attempts)
			assert.Same(t, errDown, denied.Last)
			assert.Positive(t, denied.Wait)
			assert.Equal(t, "retrybudget: target: denied after 1 attempt: no credit left: 503 service unavailable", err.Error())
		}
	})
}
