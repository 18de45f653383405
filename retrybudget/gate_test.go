package retrybudget_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/retrybudget"
)

func TestAGateIsAskedBeforeEachAttemptAndToldItsOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := errors.New("circuit breaker is open")
		var told []error
		asked := 0
		gate := func() (func(error), error) {
			if asked++; asked == 3 {
				return nil, open
			}
			return func(err error) { told = append(told, err) }, nil
		}
		b := retrybudget.New("target", retrybudget.Config{Burst: 5, PerSecond: -1})
		calls := 0
		policy := retrybudget.Policy{Idempotent: true, Attempts: 5, Gate: gate}
		err := retrybudget.Do(t.Context(), b, policy, failing(&calls, errDown))
		assert.Equal(t, 2, calls)
		assert.Equal(t, []error{errDown, errDown}, told)
		assert.ErrorIs(t, err, open)
		assert.ErrorIs(t, err, errDown)
		assert.ErrorIs(t, err, retrybudget.ErrDenied)
		assert.Equal(t, 4, b.Stats().Floor, "the token for the third attempt went back")

		// Refused before the first: nothing ran, and nothing is repeated above.
		asked = 2
		err = retrybudget.Do(t.Context(), b, policy, failing(&calls, errDown))
		var denied *retrybudget.DeniedError
		require.ErrorAs(t, err, &denied)
		assert.Zero(t, denied.Attempts)
		assert.Nil(t, denied.Last)
		assert.Positive(t, denied.Wait)
		assert.Equal(t, "retrybudget: target: denied after 0 attempts: refused by the gate: circuit breaker is open", err.Error())

		told = nil
		assert.NoError(t, retrybudget.Do(t.Context(), b, policy, failing(&calls, nil)))
		assert.Equal(t, []error{nil}, told)
	})
}

func TestARefusalOfTheGateKeepsTheValueOfTheLastAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		v, err := retrybudget.DoValue(t.Context(), retrybudget.Unlimited(), retrybudget.Policy{
			Idempotent: true,
			Gate: func() (func(error), error) {
				if asked++; asked == 3 {
					return nil, errors.New("open")
				}
				return func(error) {}, nil
			},
		}, func(ctx context.Context) (int, error) { return retrybudget.Attempt(ctx), errDown })
		assert.ErrorIs(t, err, retrybudget.ErrDenied)
		assert.Equal(t, 2, v)
	})
}

func TestAGateIsToldOfAttemptsThatPanicOrExit(t *testing.T) {
	for name, end := range map[string]func(){
		"panic": func() { panic("boom") },
		"exit":  runtime.Goexit,
	} {
		var told []error
		ended := make(chan any)
		go func() {
			defer func() { ended <- recover() }()
			_ = retrybudget.Do(context.Background(), retrybudget.Unlimited(), retrybudget.Policy{
				Gate:       func() (func(error), error) { return func(err error) { told = append(told, err) }, nil },
				PerAttempt: time.Minute,
			}, func(context.Context) error { end(); return nil })
		}()
		value := <-ended
		assert.Equal(t, name == "panic", value == "boom", name)
		require.Len(t, told, 1, name)
		assert.ErrorContains(t, told[0], "panicked", name)
	}
}

func TestWhatPanicsBesideTheAttemptIsCountedAsWhatItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := retrybudget.New("target", retrybudget.Config{Burst: 3, PerSecond: -1})
		var told []error
		asked := 0
		policy := retrybudget.Policy{
			Idempotent: true,
			Judge:      func(error) retrybudget.Verdict { panic("judge") },
			Gate: func() (func(error), error) {
				if asked++; asked == 3 {
					panic("gate")
				}
				return func(err error) { told = append(told, err) }, nil
			},
		}
		calls := 0
		assert.PanicsWithValue(t, "judge", func() { _ = retrybudget.Do(t.Context(), b, policy, failing(&calls, errDown)) })
		assert.Equal(t, []error{errDown}, told, "the attempt failed whatever the judge thinks")

		policy.Judge = nil
		assert.PanicsWithValue(t, "gate", func() { _ = retrybudget.Do(t.Context(), b, policy, failing(&calls, errDown)) })
		assert.Equal(t, 2, calls)
		assert.Zero(t, b.Stats().Retries)
		assert.Equal(t, 3, b.Stats().Floor, "no attempt, no token")
	})
}
