package retrybudget_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/retrybudget"
)

// verdict stands for the error of a scope: it answers errors.As for all that
// failed in it, and unwraps to nothing.
type verdict struct{ failures []error }

func (v *verdict) Error() string      { return fmt.Sprint("scope: ", v.failures) }
func (v *verdict) As(target any) bool { return errors.As(errors.Join(v.failures...), target) }

func TestOfThreeLayersOnlyTheInnermostRetries(t *testing.T) {
	wraps := map[string]func(error) error{
		"bare":                 func(err error) error { return err },
		"wrapped":              func(err error) error { return fmt.Errorf("load page: %w", err) },
		"joined":               func(err error) error { return errors.Join(errors.New("other"), err) },
		"in a scope's verdict": func(err error) error { return &verdict{[]error{errors.New("other"), err}} },
	}
	for name, wrap := range wraps {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				policy := retrybudget.Policy{Idempotent: true, Attempts: 3}
				var seen []int
				layer := func(b *retrybudget.Budget, below func(context.Context) error) func(context.Context) error {
					return func(ctx context.Context) error {
						return wrap(retrybudget.Do(ctx, b, policy, below))
					}
				}
				leaf := func(ctx context.Context) error {
					seen = append(seen, retrybudget.Attempt(ctx))
					return errDown
				}
				unlimited := retrybudget.Unlimited()
				err := layer(unlimited, layer(unlimited, layer(unlimited, leaf)))(t.Context())
				assert.Equal(t, []int{1, 2, 3}, seen, "the layer next to the fault retries")
				assert.EqualValues(t, 2, unlimited.Stats().Retries)
				var retried *retrybudget.RetriedError
				assert.ErrorAs(t, err, &retried)

				// What a layer below was denied is not repeated above either.
				seen = nil
				err = layer(unlimited, layer(retrybudget.New("target", none(0.1)), leaf))(t.Context())
				assert.Equal(t, []int{1}, seen)
				var denied *retrybudget.DeniedError
				assert.ErrorAs(t, err, &denied)
				assert.False(t, retrybudget.SafeToRetry(err))
			})
		})
	}
}

func TestALayerThatDoesNotRetryLeavesItToTheOneAbove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		inner := func(ctx context.Context) error {
			return retrybudget.Do(ctx, retrybudget.Unlimited(), retrybudget.Policy{Attempts: 1}, failing(&calls, errDown))
		}
		err := retrybudget.Do(t.Context(), retrybudget.Unlimited(), retrybudget.Policy{Idempotent: true}, inner)
		assert.Equal(t, 3, calls)
		assert.ErrorIs(t, err, errDown)
	})
}

// What failed for good on a repeated attempt was repeated all the same.
func TestATerminalErrorAfterARetryIsMarkedToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := &budget.Cause{Kind: budget.UserCancelled}
		calls := 0
		inner := func(ctx context.Context) error {
			return retrybudget.Do(ctx, retrybudget.Unlimited(), retrybudget.Policy{Idempotent: true}, func(context.Context) error {
				if calls++; calls == 1 {
					return errDown
				}
				return gone
			})
		}
		err := retrybudget.Do(t.Context(), retrybudget.Unlimited(), retrybudget.Policy{
			Idempotent: true, Judge: func(error) retrybudget.Verdict { return retrybudget.Verdict{Retry: true} },
		}, inner)
		assert.Equal(t, 2, calls)
		assert.ErrorIs(t, err, gone)
		assert.NotErrorIs(t, err, errDown, "it has nothing to do with how the call ended")
	})
}

// A peer says it over the wire, in an error of an adapter's own.
type peerError struct{ below bool }

func (peerError) Error() string        { return "peer: 503" }
func (e peerError) RetriedBelow() bool { return e.below }

func TestAnErrorOfAnAdapterMaySayThatItWasRetriedBelow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for below, want := range map[bool]int{true: 1, false: 3} {
			calls := 0
			_ = retrybudget.Do(t.Context(), retrybudget.Unlimited(), retrybudget.Policy{Idempotent: true},
				failing(&calls, fmt.Errorf("call: %w", peerError{below})))
			assert.Equal(t, want, calls)
		}
	})
}

// One of several that failed together was retried: doing all again would repeat
// that one.
func TestEachOfTheErrorsThatWereJoinedIsAskedWhatMayBeRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		retried := &retrybudget.RetriedError{Attempts: 2, Last: errDown}
		for _, tt := range []struct {
			err   error
			calls int // made with no word that repeating does no harm
		}{
			{errors.Join(notSent{true}, peerError{false}, retried), 1},
			{errors.Join(peerError{false}, peerError{true}, notSent{true}), 1},
			{&verdict{[]error{peerError{false}, notSent{true}, retried}}, 1},
			{errors.Join(notSent{true}, notSent{false}), 1},
			{errors.Join(notSent{false}, notSent{true}), 1},
			{errors.Join(notSent{true}, fmt.Errorf("second: %w", notSent{true})), 3},
			{fmt.Errorf("%w: %w", errDown, notSent{true}), 3},
		} {
			calls := 0
			_ = retrybudget.Do(t.Context(), retrybudget.Unlimited(), retrybudget.Policy{}, failing(&calls, tt.err))
			assert.Equal(t, tt.calls, calls, "%v", tt.err)
		}
	})
}

func TestAttemptIsTheInnermostAndZeroOutside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		assert.Zero(t, retrybudget.Attempt(t.Context()))
		for _, perAttempt := range []time.Duration{0, time.Second} {
			policy := retrybudget.Policy{Idempotent: true, PerAttempt: perAttempt}
			var outer, inner []int
			_ = retrybudget.Do(t.Context(), retrybudget.Unlimited(), policy, func(ctx context.Context) error {
				outer = append(outer, retrybudget.Attempt(ctx))
				below, cancel := context.WithCancel(context.WithValue(ctx, key{}, 1))
				defer cancel()
				assert.Equal(t, outer[len(outer)-1], retrybudget.Attempt(below))
				_ = retrybudget.Do(below, retrybudget.Unlimited(), policy, func(ctx context.Context) error {
					inner = append(inner, retrybudget.Attempt(ctx))
					return nil
				})
				return errDown
			})
			assert.Equal(t, []int{1, 2, 3}, outer)
			assert.Equal(t, []int{1, 1, 1}, inner)
		}
	})
}

type key struct{}

// The context of an attempt ends with the call, whatever its kind.
func TestAnAttemptsContextEndsWithTheCallAndHasItsValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, perAttempt := range []time.Duration{0, time.Hour} {
			parent, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "ann"))
			err := retrybudget.Do(parent, retrybudget.Unlimited(), retrybudget.Policy{PerAttempt: perAttempt}, func(ctx context.Context) error {
				assert.Equal(t, "ann", ctx.Value(key{}))
				cancel()
				<-ctx.Done()
				return context.Cause(ctx)
			})
			assert.ErrorIs(t, err, context.Canceled)
		}
	})
}
