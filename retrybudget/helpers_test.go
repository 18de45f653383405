package retrybudget_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/retrybudget"
)

var errDown = errors.New("503 service unavailable")

// none is a Config without a floor: all credit is earned.
func none(ratio float64) retrybudget.Config {
	return retrybudget.Config{Ratio: ratio, Burst: -1}
}

// fixed waits exactly d before each retry.
func fixed(d time.Duration) retrybudget.Backoff {
	return retrybudget.Backoff{Base: d, Max: d, Jitter: retrybudget.NoJitter}
}

// within returns a context with d left.
func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel, err := budget.Enter(context.Background(), budget.Within(d).Named("call"))
	require.NoError(t, err)
	t.Cleanup(cancel)
	return ctx
}

// drain takes until it is denied and returns how many were granted.
func drain(b *retrybudget.Budget) int {
	n := 0
	for b.TryTake() {
		n++
	}
	return n
}

// earn adds the credit of n successes.
func earn(b *retrybudget.Budget, n int) {
	for range n {
		b.Success()
	}
}

// failing counts its calls and returns err on each.
func failing(calls *int, err error) func(context.Context) error {
	return func(context.Context) error {
		*calls++
		return err
	}
}
