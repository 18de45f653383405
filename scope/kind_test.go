package scope_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
)

// A handler maps what Run returned to a status by its kind alone.
func TestKindOfAScopeIsThatOfTheTaskThatFailed(t *testing.T) {
	gatewayTimeout := &budget.Cause{Kind: budget.DependencyTimeout, Err: errors.New("inventory answered 504")}
	for _, c := range []struct {
		name string
		task func(context.Context) error
		kind budget.Kind
	}{
		{"an error nobody knows", func(context.Context) error { return errors.New("boom") }, budget.Failed},
		{"a cause, wrapped", func(context.Context) error { return fmt.Errorf("asking: %w", gatewayTimeout) }, budget.DependencyTimeout},
		{"a step that was not begun", func(ctx context.Context) error {
			return scope.Run(ctx, "inner", budget.Within(time.Nanosecond).Require(time.Second), func(context.Context, *scope.Scope) error { return nil })
		}, budget.DeadlineExceeded},
		{"a dependency that has no room", func(context.Context) error { return &budget.Cause{Kind: budget.Overloaded} }, budget.Failed},
		{"a dependency that goes down", func(context.Context) error { return &budget.Cause{Kind: budget.Shutdown} }, budget.Failed},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := scope.Run(t.Context(), "order", budget.Within(time.Minute), func(ctx context.Context, s *scope.Scope) error {
				s.Go("inventory", c.task)
				return s.Wait()
			})
			assert.Equal(t, c.kind, budget.KindOf(err), "%v", err)
			assert.NotContains(t, []budget.Retry{budget.RetryFresh, budget.RetryYes}, budget.KindOf(err).Retry(),
				"something may have been done: nobody is invited to repeat it")
			var e *scope.Error
			assert.ErrorAs(t, err, &e)
			assert.Equal(t, budget.Failed, e.Cause.Kind, "the scope itself was ended by a failure")
		})
	}
}
