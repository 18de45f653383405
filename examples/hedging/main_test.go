package main

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/budget/latency"
	"github.com/curfew-go/curfew/retrybudget"
	"github.com/curfew-go/curfew/scope"
	"github.com/curfew-go/curfew/scope/race"
)

// scope and retrybudget do not know each other; here is where they fit.
var (
	_ race.Gate            = (*retrybudget.Budget)(nil)
	_ func() time.Duration = (*latency.Observed)(nil).HedgeDelay
	_ func() time.Duration = retrybudget.Policy{}.Typical
)

// takes returns a store that takes these times, one after the other, and fails with err.
func takes(err error, times ...time.Duration) (store func(context.Context) (string, error), calls *int) {
	calls = new(int)
	return func(ctx context.Context) (string, error) {
		d := times[min(*calls, len(times)-1)]
		*calls++
		select {
		case <-time.After(d):
			return "value", err
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}, calls
}

func bounded(t *testing.T) context.Context {
	ctx, cancel, err := budget.Enter(t.Context(), budget.Within(time.Minute))
	require.NoError(t, err)
	t.Cleanup(cancel)
	return ctx
}

// A budget that is empty.
var none = retrybudget.Config{Ratio: 0.1, Burst: -1}

func TestAHedgeThatTheBudgetRefusesDoesNotHarmTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, calls := takes(nil, 200*time.Millisecond)
		b := retrybudget.New("store", none)
		start := time.Now()
		v, err := race.Config[string]{After: func() time.Duration { return 30 * time.Millisecond }, Gate: b.Hedges()}.Hedge(bounded(t), "read", store)
		require.NoError(t, err)
		assert.Equal(t, "value", v)
		assert.Equal(t, 200*time.Millisecond, time.Since(start))
		assert.Equal(t, 1, *calls)
		assert.EqualValues(t, 1, b.Stats().DeniedHedges)
	})
}

func TestAFailureWithAnEmptyBudgetIsReturnedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		boom := errors.New("boom")
		store, _ := takes(boom, 10*time.Millisecond)
		start := time.Now()
		_, err := race.Config[string]{After: func() time.Duration { return 30 * time.Millisecond }, Gate: retrybudget.New("store", none).Hedges()}.Hedge(bounded(t), "read", store)
		assert.ErrorIs(t, err, boom)
		assert.Equal(t, 10*time.Millisecond, time.Since(start))
	})
}

// TestHedgesStayWithinTheBudgetWhenEverythingSlowsDown: at four times the latency
// every read would be hedged.
func TestHedgesStayWithinTheBudgetWhenEverythingSlowsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls, latencyNow atomic.Int64
		latencyNow.Store(int64(10 * time.Millisecond))
		r := newReader(func(ctx context.Context) (string, error) {
			calls.Add(1)
			time.Sleep(time.Duration(latencyNow.Load())) // deaf, so that hedges cost the most
			return "value", nil
		})
		const reads = 1000
		for range reads {
			_, err := r.read(bounded(t))
			require.NoError(t, err)
		}
		calls.Store(0)
		latencyNow.Store(int64(40 * time.Millisecond))
		for range reads {
			_, err := r.read(bounded(t))
			require.NoError(t, err)
		}
		assert.Greater(t, calls.Load(), int64(reads), "some are hedged")
		assert.LessOrEqual(t, calls.Load(), int64(reads+reads/10+100+5+40), "within a tenth of successes, credit of the window, burst and floor")
	})
}

// TestRetriesAreLeftTheirShare: hedges leave the last half of the credit.
func TestRetriesAreLeftTheirShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := retrybudget.New("store", none)
		for range 100 {
			b.Success()
		}
		hedges := 0
		for b.Hedges().TryTake() {
			hedges++
		}
		retries := 0
		for b.TryTake() {
			retries++
		}
		assert.Equal(t, 5, hedges)
		assert.Equal(t, 5, retries)
	})
}

// TestALayerAboveDoesNotRepeatWhatAScopePassesOn: the mark of the innermost layer
// is found through the verdict of a scope and the error of a race.
func TestALayerAboveDoesNotRepeatWhatAScopePassesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		boom := errors.New("boom")
		calls := 0
		p := retrybudget.Policy{Idempotent: true, Attempts: 3}
		leaf := func(ctx context.Context) (string, error) {
			return retrybudget.DoValue(ctx, retrybudget.Unlimited(), p, func(context.Context) (string, error) {
				calls++
				return "", boom
			})
		}
		middle := func(ctx context.Context) (string, error) {
			return retrybudget.DoValue(ctx, retrybudget.Unlimited(), p, func(ctx context.Context) (string, error) {
				return scope.RunValue(ctx, "middle", budget.Inherited(), func(_ context.Context, s *scope.Scope) (string, error) {
					k := scope.Fork(s, "leaf", leaf)
					if err := s.Wait(); err != nil {
						return "", err
					}
					return k.Value(), nil
				})
			})
		}
		err := retrybudget.Do(bounded(t), retrybudget.Unlimited(), p, func(ctx context.Context) error {
			_, err := race.First(ctx, "edge", middle)
			return err
		})
		assert.ErrorIs(t, err, boom)
		assert.Equal(t, 3, calls, "three, and not twenty-seven")
	})
}

func TestAnAttemptIsNumberedThroughScopesAndRaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []int
		err := retrybudget.Do(bounded(t), retrybudget.Unlimited(), retrybudget.Policy{Idempotent: true, Attempts: 2}, func(ctx context.Context) error {
			return scope.Run(ctx, "call", budget.Inherited(), func(ctx context.Context, s *scope.Scope) error {
				_, err := race.First(ctx, "replicas", func(ctx context.Context) (int, error) {
					seen = append(seen, retrybudget.Attempt(ctx))
					return 0, errors.New("boom")
				})
				return err
			})
		})
		assert.Error(t, err)
		assert.Equal(t, []int{1, 2}, seen)
	})
}

// TestCase59_NoWaitUsesTheRealClock: races and retry loops with an hour to wait are
// over in no time in a bubble.
func TestCase59_NoWaitUsesTheRealClock(t *testing.T) {
	slow := func(d time.Duration) func(context.Context) (string, error) {
		return func(ctx context.Context) (string, error) {
			select {
			case <-time.After(d):
				return "value", nil
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
		}
	}
	hour := func() time.Duration { return 30 * time.Minute }
	for name, wait := range map[string]func(ctx context.Context) error{
		"First": func(ctx context.Context) error {
			_, err := race.First(ctx, "r", slow(time.Hour), slow(50*time.Minute))
			return err
		},
		"Quorum": func(ctx context.Context) error {
			_, err := race.Quorum(ctx, "r", 2, slow(time.Minute), slow(50*time.Minute))
			return err
		},
		"Hedge": func(ctx context.Context) error {
			_, err := race.Hedge(ctx, "r", hour(), slow(50*time.Minute))
			return err
		},
		"Hedge, inline": func(ctx context.Context) error {
			_, err := race.Config[string]{After: hour, Inline: true}.Hedge(ctx, "r", slow(50*time.Minute))
			return err
		},
		"a back-off": func(ctx context.Context) error {
			err := retrybudget.Do(ctx, retrybudget.Unlimited(), retrybudget.Policy{
				Idempotent: true, Attempts: 2, Backoff: retrybudget.Backoff{Base: 50 * time.Minute, Max: 50 * time.Minute},
			}, func(ctx context.Context) error {
				if retrybudget.Attempt(ctx) == 2 {
					return nil
				}
				return errors.New("boom")
			})
			return err
		},
		"a wait after a denial": func(ctx context.Context) error {
			return retrybudget.Pause(ctx, &retrybudget.DeniedError{Wait: 50 * time.Minute})
		},
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel, err := budget.Enter(t.Context(), budget.Within(2*time.Hour))
				require.NoError(t, err)
				defer cancel()
				require.NoError(t, wait(ctx))
			})
			assert.Less(t, time.Since(began), time.Minute, "the hour is the bubble's")
		})
	}
}

func TestTheProgramRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a few seconds of real time")
	}
	require.NoError(t, run(100))
}
