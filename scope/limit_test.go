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

// TestLimitOfATask: a task that runs into its own limit fails the scope with
// that cause; one that has no time to begin does so without running.
func TestLimitOfATask(t *testing.T) {
	for name, c := range map[string]struct {
		limit budget.Limit
		after time.Duration
		kind  budget.Kind
		runs  bool
	}{
		"its own time runs out": {budget.Within(time.Second).Named("stock"), time.Second, budget.DeadlineExceeded, true},
		"until an instant":      {budget.Until(time.Now().Add(time.Hour)).Named("stock"), time.Minute, budget.DeadlineExceeded, true},
		"reserve":               {budget.Within(10 * time.Second).Reserve(time.Second).Named("stock"), 9 * time.Second, budget.DeadlineExceeded, true},
		"zero":                  {budget.Within(0).Named("stock"), 0, budget.ExpiredOnArrival, false},
		"in the past":           {budget.Until(time.Unix(0, 0)).Named("stock"), 0, budget.ExpiredOnArrival, false},
		"requires more":         {budget.Within(time.Second).Require(time.Minute).Named("stock"), 0, budget.LocalBudgetRejected, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				ran := false
				var own error
				err := scope.Run(t.Context(), "shop", budget.Within(time.Minute), func(ctx context.Context, s *scope.Scope) error {
					s.Limit(c.limit).Go("task", func(ctx context.Context) error { ran = true; return obedient(ctx) })
					s.Go("sibling", obedient)
					<-ctx.Done()
					own = context.Cause(ctx)
					return nil
				})
				assert.Equal(t, c.runs, ran)
				var e *scope.Error
				require.ErrorAs(t, err, &e)
				if name == "until an instant" { // beyond the scope's own minute
					assert.Equal(t, time.Minute, time.Since(start))
					assert.Equal(t, budget.DeadlineExceeded, e.Cause.Kind)
					return
				}
				assert.Equal(t, c.after, time.Since(start))
				assert.Equal(t, budget.Failed, e.Cause.Kind)
				assert.Equal(t, "task", e.Cause.Task)
				assert.Equal(t, c.kind, budget.KindOf(e.Cause.Err))
				assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err), "to callers the scope had begun")
				assert.ErrorContains(t, err, "stock")
				assert.ErrorContains(t, err, "shop/task")
				assert.Equal(t, budget.SiblingFailed, budget.KindOf(own))
				assert.NotErrorIs(t, own, context.DeadlineExceeded)
			})
		})
	}
}
