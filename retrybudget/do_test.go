package retrybudget_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/retrybudget"
)

func TestWhatMayHaveRunIsRepeatedOnlyWhenIdempotent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			name              string
			err               error
			plain, idempotent int // calls made
		}{
			{"unknown failure", errDown, 1, 3},
			{"overloaded", &budget.Cause{Kind: budget.Overloaded}, 3, 3},
			{"shutdown", &budget.Cause{Kind: budget.Shutdown}, 3, 3},
			{"dependency timeout", &budget.Cause{Kind: budget.DependencyTimeout}, 1, 3},
			{"attempt's deadline", context.DeadlineExceeded, 1, 3},
			{"cancelled", context.Canceled, 1, 1},
			{"user cancelled", &budget.Cause{Kind: budget.UserCancelled}, 1, 1},
			{"too little time to begin", &budget.Cause{Kind: budget.LocalBudgetRejected}, 1, 1},
			{"expired on arrival", &budget.Cause{Kind: budget.ExpiredOnArrival}, 1, 1},
			{"says it did not run", notSent{true}, 3, 3},
			{"says it ran", notSent{false}, 1, 3},
		} {
			for idempotent, want := range map[bool]int{false: tt.plain, true: tt.idempotent} {
				calls := 0
				err := retrybudget.Do(t.Context(), retrybudget.Unlimited(), retrybudget.Policy{Idempotent: idempotent}, failing(&calls, tt.err))
				assert.Equal(t, want, calls, "%s, idempotent %v", tt.name, idempotent)
				assert.ErrorIs(t, err, tt.err)
				if calls == 1 {
					assert.Equal(t, tt.err, err, "not repeated: the error is bare")
				}
			}
		}
	})
}

// notSent is an error as pgconn has them.
type notSent struct{ safe bool }

func (notSent) Error() string       { return "conn closed" }
func (e notSent) SafeToRetry() bool { return e.safe }

func TestACallEarnsOnceWhicheverAttemptSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := retrybudget.New("target", retrybudget.Config{Burst: 10})
		for succeedsAt := 1; succeedsAt <= 3; succeedsAt++ {
			v, err := retrybudget.DoValue(t.Context(), b, retrybudget.Policy{Idempotent: true}, func(ctx context.Context) (int, error) {
				if n := retrybudget.Attempt(ctx); n < succeedsAt {
					return n, errDown
				}
				return 42, nil
			})
			assert.NoError(t, err)
			assert.Equal(t, 42, v)
			assert.EqualValues(t, succeedsAt, b.Stats().Successes)
		}
		_, _ = retrybudget.DoValue(t.Context(), b, retrybudget.Policy{Attempts: 1}, func(context.Context) (int, error) { return 0, errDown })
		assert.EqualValues(t, 3, b.Stats().Successes, "a failure earns nothing")
	})
}

func TestAnAnswerTheCallerDislikesIsASuccessOfTheTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := retrybudget.New("target", none(1))
		notFound := errors.New("404")
		var told []error
		policy := retrybudget.Policy{
			Judge: func(error) retrybudget.Verdict { return retrybudget.Verdict{Answered: true, Retry: true} },
			Gate:  func() (func(error), error) { return func(err error) { told = append(told, err) }, nil },
		}
		calls := 0
		assert.Equal(t, notFound, retrybudget.Do(t.Context(), b, policy, failing(&calls, notFound)))
		assert.Equal(t, 1, calls)
		assert.EqualValues(t, 1, b.Stats().Successes)
		assert.Equal(t, []error{nil}, told)
	})
}

func TestDoValueReturnsTheLastValueBesideTheError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, err := retrybudget.DoValue(t.Context(), retrybudget.Unlimited(), retrybudget.Policy{Idempotent: true}, func(ctx context.Context) (int, error) {
			return retrybudget.Attempt(ctx), errDown
		})
		assert.Equal(t, 3, v)
		assert.ErrorIs(t, err, errDown)
	})
}

func TestTheWishOfTheTargetForNoRetryIsObeyed(t *testing.T) {
	calls := 0
	err := retrybudget.Do(t.Context(), retrybudget.Unlimited(), retrybudget.Policy{
		Judge: func(error) retrybudget.Verdict { return retrybudget.Verdict{Retry: true, After: -1} },
	}, failing(&calls, errDown))
	assert.Equal(t, 1, calls)
	assert.Equal(t, errDown, err)
}

func TestAHugePushbackIsNotWaitedForWithoutADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		start := time.Now()
		err := retrybudget.Do(context.Background(), retrybudget.Unlimited(), retrybudget.Policy{
			Judge: func(error) retrybudget.Verdict { return retrybudget.Verdict{Retry: true, After: 24 * time.Hour} },
		}, failing(&calls, errDown))
		assert.Zero(t, time.Since(start))
		var denied *retrybudget.DeniedError
		require.ErrorAs(t, err, &denied)
		assert.Equal(t, 24*time.Hour, denied.Wait)
	})
}

// A reserve is time for the caller, and no wait or attempt may use it.
func TestARetryMustFitBeforeTheReserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			reserve time.Duration
			calls   int
		}{{0, 2}, {300 * time.Millisecond, 1}} {
			ctx, cancel, err := budget.Enter(context.Background(), budget.Within(time.Second).Reserve(tt.reserve))
			require.NoError(t, err)
			calls := 0
			err = retrybudget.Do(ctx, retrybudget.Unlimited(), retrybudget.Policy{
				Idempotent: true, Attempts: 2, Backoff: fixed(500 * time.Millisecond),
				Typical: func() time.Duration { return 300 * time.Millisecond },
			}, failing(&calls, errDown))
			assert.Equal(t, tt.calls, calls)
			assert.ErrorIs(t, err, errDown)
			cancel()
		}
	})
}

func TestObserveDeniesNothingAndCountsWhatItWould(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := retrybudget.New("target", retrybudget.Config{Ratio: 1, Burst: -1, Observe: true})
		earn(b, 2)
		for range 5 {
			assert.True(t, b.TryTake())
		}
		assert.True(t, b.AtMost(0).TryTake())
		assert.True(t, b.Hedges().TryTake())
		st := b.Stats()
		assert.EqualValues(t, 6, st.Retries)
		assert.EqualValues(t, 4, st.DeniedRetries)
		assert.EqualValues(t, 1, st.Hedges)
		assert.EqualValues(t, 1, st.DeniedHedges)
		assert.Contains(t, b.String(), "; would deny now: no credit left")
	})
}
