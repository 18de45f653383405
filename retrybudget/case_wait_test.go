package retrybudget_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/retrybudget"
)

// The public cases about deadlines and waits.

func TestCase17_ARetryThatCannotMeetTheDeadlineIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		calls := 0
		err := retrybudget.Do(within(t, 300*time.Millisecond), retrybudget.Unlimited(),
			retrybudget.Policy{Idempotent: true, Backoff: fixed(5 * time.Second)}, failing(&calls, errDown))
		assert.Zero(t, time.Since(start))
		assert.Equal(t, 1, calls)
		assert.ErrorIs(t, err, errDown)
		assert.ErrorIs(t, err, retrybudget.ErrDenied)
		assert.ErrorContains(t, err, "would not fit the 300ms left")
		assert.NotErrorIs(t, err, context.DeadlineExceeded, "nothing has run out yet")
	})
}

func TestCase18_AnEndedCallMakesNoAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		past, stop := context.WithDeadline(context.Background(), time.Now().Add(-time.Second))
		defer stop()
		for _, policy := range []retrybudget.Policy{{}, {PerAttempt: time.Second}} {
			calls := 0
			err := retrybudget.Do(ended, retrybudget.Unlimited(), policy, failing(&calls, nil))
			assert.Equal(t, context.Canceled, err)
			err = retrybudget.Do(past, retrybudget.Unlimited(), policy, failing(&calls, nil))
			assert.Equal(t, context.DeadlineExceeded, err)
			ours := within(t, time.Second)
			time.Sleep(2 * time.Second)
			err = retrybudget.Do(ours, retrybudget.Unlimited(), policy, failing(&calls, nil))
			assert.Same(t, context.Cause(ours), err)
			assert.Zero(t, calls)
		}
	})
}

func TestCase19_EndlessAttemptsEndWithTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		calls := 0
		err := retrybudget.Do(within(t, 5*time.Second), retrybudget.Unlimited(),
			retrybudget.Policy{Idempotent: true, Attempts: math.MaxInt}, func(context.Context) error {
				calls++
				time.Sleep(10 * time.Millisecond) // deaf
				return errDown
			})
		assert.LessOrEqual(t, time.Since(start), 5*time.Second+10*time.Millisecond)
		assert.Greater(t, calls, 3)
		assert.ErrorIs(t, err, errDown)
	})
}

func TestCase21_AnAttemptsDeadlineIsRepeatedAndTheCallsIsNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		calls := 0
		hang := func(ctx context.Context) error {
			calls++
			<-ctx.Done()
			return context.Cause(ctx)
		}
		err := retrybudget.Do(within(t, 10*time.Second), retrybudget.Unlimited(),
			retrybudget.Policy{Idempotent: true, Attempts: 10, PerAttempt: 2 * time.Second, Backoff: fixed(time.Millisecond)}, hang)
		assert.Equal(t, 5, calls)
		assert.Equal(t, 10*time.Second, time.Since(start))
		assert.ErrorIs(t, err, context.DeadlineExceeded)

		calls = 0
		err = retrybudget.Do(within(t, time.Second), retrybudget.Unlimited(), retrybudget.Policy{Idempotent: true}, hang)
		assert.Equal(t, 1, calls, "the call's own deadline")
		assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err))
		var cause *budget.Cause
		require.ErrorAs(t, err, &cause)
		assert.Contains(t, cause.Limit, "call 1s")
	})
}

func TestCase22_ATimedOutAttemptIsBackedOffAndCostsTwo(t *testing.T) {
	for name, timeout := range map[string]func(ctx context.Context) error{
		"of the attempt":     func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) },
		"of std":             func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"of a dependency":    func(context.Context) error { return &budget.Cause{Kind: budget.DependencyTimeout} },
		"of its own in f":    func(context.Context) error { return context.DeadlineExceeded },
		"of a net operation": func(context.Context) error { return timeoutError{} },
	} {
		synctest.Test(t, func(t *testing.T) {
			b := retrybudget.New("target", none(1))
			earn(b, 5)
			var waits []time.Duration
			var failed time.Time
			err := retrybudget.Do(within(t, time.Hour), b, retrybudget.Policy{Idempotent: true, Attempts: 10, PerAttempt: time.Second}, func(ctx context.Context) error {
				if !failed.IsZero() {
					waits = append(waits, time.Since(failed))
				}
				err := timeout(ctx)
				failed = time.Now()
				return err
			})
			assert.ErrorIs(t, err, retrybudget.ErrDenied)
			assert.Len(t, waits, 2, "%s: five tokens are two retries", name)
			for _, wait := range waits {
				assert.Positive(t, wait, name)
			}
			assert.Equal(t, 1, b.Stats().Credit, name)
			assert.EqualValues(t, 2, b.Stats().Retries, name)
		})
	}
	// A floor that holds a single token must still be able to pay for one.
	synctest.Test(t, func(t *testing.T) {
		b := retrybudget.New("target", retrybudget.Config{Burst: 1, PerSecond: 1})
		calls := 0
		err := retrybudget.Do(t.Context(), b, retrybudget.Policy{Idempotent: true}, failing(&calls, context.DeadlineExceeded))
		assert.Equal(t, 2, calls)
		assert.ErrorIs(t, err, retrybudget.ErrDenied)
	})
}

type timeoutError struct{}

func (timeoutError) Error() string { return "i/o timeout" }
func (timeoutError) Timeout() bool { return true }

func TestCase23_TheLastRealErrorIsFoundBesideTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Cut during the second attempt.
		calls := 0
		err := retrybudget.Do(within(t, time.Second), retrybudget.Unlimited(), retrybudget.Policy{Idempotent: true}, func(ctx context.Context) error {
			if calls++; calls == 1 {
				return errDown
			}
			<-ctx.Done()
			return context.Cause(ctx)
		})
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorIs(t, err, errDown)

		// Cut during the wait, by a cancel that nobody could foresee.
		ctx, cancel := context.WithCancelCause(context.Background())
		why := errors.New("the user left")
		time.AfterFunc(time.Second, func() { cancel(why) })
		b := retrybudget.New("target", retrybudget.Config{Burst: 1, PerSecond: -1})
		start := time.Now()
		err = retrybudget.Do(ctx, b, retrybudget.Policy{Idempotent: true, Backoff: fixed(time.Minute)}, failing(&calls, errDown))
		assert.Equal(t, time.Second, time.Since(start))
		assert.ErrorIs(t, err, why)
		assert.ErrorIs(t, err, errDown)
		assert.Equal(t, 1, b.Stats().Floor, "the token went back")
		assert.Zero(t, b.Stats().Retries)
	})
}

func TestCase25_ALongFirstAttemptDoesNotUseUpTheTimeForRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			retryFor time.Duration
			calls    int
		}{{0, 6}, {time.Second, 1}, {2500 * time.Millisecond, 3}, {time.Hour, 6}} {
			calls := 0
			err := retrybudget.Do(t.Context(), retrybudget.Unlimited(),
				retrybudget.Policy{Idempotent: true, Attempts: 6, RetryFor: tt.retryFor, Backoff: fixed(time.Second + 1)}, func(context.Context) error {
					if calls++; calls == 1 {
						time.Sleep(time.Minute)
					}
					return errDown
				})
			assert.Equal(t, tt.calls, calls, "%v", tt.retryFor)
			assert.ErrorIs(t, err, errDown)
		}
	})
}

func TestCase26_JitterOnlyAddsToWhatTheTargetAskedFor(t *testing.T) {
	for _, jitter := range []retrybudget.Jitter{retrybudget.FullJitter, retrybudget.EqualJitter, retrybudget.DecorrelatedJitter, retrybudget.NoJitter} {
		synctest.Test(t, func(t *testing.T) {
			for range 100 {
				wait := waitAfter(t, context.Background(), jitter, time.Second)
				assert.GreaterOrEqual(t, wait, time.Second)
				assert.LessOrEqual(t, wait, 1200*time.Millisecond)

				// What is added stays inside of what fits.
				wait = waitAfter(t, within(t, 1010*time.Millisecond), jitter, time.Second)
				assert.GreaterOrEqual(t, wait, time.Second)
				assert.LessOrEqual(t, wait, 1010*time.Millisecond)

				// Nothing asked for, or a wait of zero, does not remove the backoff.
				assert.Positive(t, waitAfter(t, context.Background(), jitter, 0))
				assert.Positive(t, waitAfter(t, context.Background(), jitter, 1))
			}
		})
	}
}

// waitAfter returns how long Do waits before a retry when asked to.
func waitAfter(t *testing.T, ctx context.Context, jitter retrybudget.Jitter, asked time.Duration) time.Duration {
	t.Helper()
	var at []time.Time
	policy := retrybudget.Policy{
		Attempts: 2,
		Backoff:  retrybudget.Backoff{Base: 50 * time.Millisecond, Jitter: jitter},
		Judge:    func(error) retrybudget.Verdict { return retrybudget.Verdict{Retry: true, After: asked} },
	}
	_ = retrybudget.Do(ctx, retrybudget.Unlimited(), policy, func(context.Context) error {
		at = append(at, time.Now())
		return errDown
	})
	if !assert.Len(t, at, 2) {
		return 0
	}
	return at[1].Sub(at[0])
}

func TestCase28_TheLastFailureIsReturnedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		start := time.Now()
		err := retrybudget.Do(t.Context(), retrybudget.Unlimited(), retrybudget.Policy{Idempotent: true, Backoff: fixed(time.Second)}, failing(&calls, errDown))
		assert.Equal(t, 3, calls)
		assert.Equal(t, 2*time.Second, time.Since(start), "two waits and not three")
		var retried *retrybudget.RetriedError
		require.ErrorAs(t, err, &retried)
		assert.Equal(t, 3, retried.Attempts)
		assert.ErrorIs(t, err, errDown)
		assert.NotErrorIs(t, err, retrybudget.ErrDenied)
	})
}
