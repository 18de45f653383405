package scope_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
)

// TestCase26_AnExpiredScopeStartsNothing: neither the body nor a task runs, and
// the answer is there at once.
func TestCase26_AnExpiredScopeStartsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		expired, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
		defer cancel()
		passing, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		left, _, err := budget.Enter(t.Context(), budget.Within(time.Minute))
		require.NoError(t, err)
		for name, c := range map[string]struct {
			ctx   context.Context
			limit budget.Limit
			kind  budget.Kind
			is    error
		}{
			"a limit of zero":              {t.Context(), budget.Within(0), budget.ExpiredOnArrival, context.DeadlineExceeded},
			"a negative limit":             {t.Context(), budget.Within(-time.Second), budget.ExpiredOnArrival, context.DeadlineExceeded},
			"a time in the past":           {t.Context(), budget.Until(time.Now().Add(-time.Nanosecond)), budget.ExpiredOnArrival, context.DeadlineExceeded},
			"this instant":                 {t.Context(), budget.Until(time.Now()), budget.ExpiredOnArrival, context.DeadlineExceeded},
			"the zero time":                {t.Context(), budget.Until(time.Time{}), budget.ExpiredOnArrival, context.DeadlineExceeded},
			"a parent that has expired":    {expired, budget.Within(time.Hour), budget.ExpiredOnArrival, context.DeadlineExceeded},
			"inherited from it":            {expired, budget.Inherited(), budget.ExpiredOnArrival, context.DeadlineExceeded},
			"a parent that was cancelled":  {cancelled, budget.Within(time.Hour), budget.ParentCancelled, context.Canceled},
			"less than it requires":        {passing, budget.Inherited().Require(2 * time.Second), budget.LocalBudgetRejected, context.DeadlineExceeded},
			"less than the reserve":        {passing, budget.Inherited().Reserve(time.Second), budget.LocalBudgetRejected, context.DeadlineExceeded},
			"less than the cleanup":        {passing, budget.Inherited().Cleanup(time.Second), budget.LocalBudgetRejected, context.DeadlineExceeded},
			"too little for all of them":   {left, budget.Inherited().Reserve(30 * time.Second).Cleanup(30 * time.Second), budget.LocalBudgetRejected, context.DeadlineExceeded},
			"nothing to inherit":           {t.Context(), budget.Inherited(), budget.Failed, budget.ErrNoDeadline},
			"nothing to inherit, reserved": {t.Context(), budget.Inherited().Reserve(time.Second), budget.Failed, budget.ErrNoDeadline},
		} {
			start := time.Now()
			var value int
			value, err := scope.RunValue(c.ctx, "shop", c.limit, func(context.Context, *scope.Scope) (int, error) {
				t.Errorf("%s: the body ran", name)
				return 1, nil
			})
			assert.Zero(t, time.Since(start), name)
			assert.Zero(t, value, name)
			var e *scope.Error
			require.ErrorAs(t, err, &e, name)
			assert.Equal(t, c.kind, e.Cause.Kind, name)
			assert.ErrorIs(t, err, c.is, name)
			assert.Equal(t, "shop", e.Scope, name)
			assert.Contains(t, e.Error(), "shop", name)
		}
	})
}

// TestCase27_ALimitCountsFromEntry: built early, entered late, it is full.
func TestCase27_ALimitCountsFromEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		five := budget.Within(5 * time.Second)
		time.Sleep(5 * time.Second)
		for range 2 { // and it can be used again
			err := scope.Run(t.Context(), "shop", five, func(ctx context.Context, s *scope.Scope) error {
				left, ok := budget.Remaining(ctx)
				assert.True(t, ok)
				assert.Equal(t, 5*time.Second, left)
				limited := s.Limit(budget.Within(time.Second)) // a handle, built early too
				time.Sleep(2 * time.Second)
				limited.Go("task", func(ctx context.Context) error {
					left, _ := budget.Remaining(ctx)
					assert.Equal(t, time.Second, left)
					return nil
				})
				task := scope.Fork(limited, "fork", func(ctx context.Context) (time.Duration, error) {
					left, _ := budget.Remaining(ctx)
					return left, nil
				})
				require.NoError(t, s.Wait())
				assert.Equal(t, time.Second, task.Value())
				return nil
			})
			assert.NoError(t, err)
		}
	})
}
