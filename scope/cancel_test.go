package scope_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
)

// TestCancelSaysWhy: the reason stands in every cause and in the verdict, with
// the kind it has, and the std sentinel is the one of that kind.
func TestCancelSaysWhy(t *testing.T) {
	why := errors.New("deploy")
	for name, c := range map[string]struct {
		why  error
		kind budget.Kind
		err  error // of the context
	}{
		"nothing":               {nil, budget.Cancelled, context.Canceled},
		"an error":              {why, budget.Cancelled, context.Canceled},
		"a cause":               {&budget.Cause{Kind: budget.UserCancelled, Err: why}, budget.UserCancelled, context.Canceled},
		"a cause of the fleet":  {&budget.Cause{Kind: budget.Shutdown, Err: why}, budget.Shutdown, context.Canceled},
		"a deadline elsewhere":  {&budget.Cause{Kind: budget.DeadlineExceeded, Err: why}, budget.DeadlineExceeded, context.DeadlineExceeded},
		"a cause of no kind":    {&budget.Cause{Err: why}, budget.Cancelled, context.Canceled},
		"a cause, wrapped":      {fmt.Errorf("stop: %w", &budget.Cause{Kind: budget.Shutdown, Err: why}), budget.Cancelled, context.Canceled},
		"another scope's cause": {&budget.Cause{Kind: budget.SiblingFailed, Scope: "other", Err: why}, budget.SiblingFailed, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				err := scope.Run(t.Context(), "shop", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
					s.Go("obeys", obedient)
					s.Go("obeys in its words", func(ctx context.Context) error { <-ctx.Done(); return fmt.Errorf("read: %w", ctx.Err()) })
					synctest.Wait()
					s.Cancel(c.why)
					assert.Equal(t, c.err, ctx.Err(), "at once")
					assert.Equal(t, c.kind, budget.KindOf(context.Cause(ctx)))
					s.Cancel(errors.New("later")) // does nothing
					return nil
				})
				var e *scope.Error
				require.ErrorAs(t, err, &e)
				assert.Equal(t, c.kind, e.Cause.Kind)
				assert.Equal(t, c.kind, budget.KindOf(err))
				assert.Empty(t, e.Failures)
				assert.ElementsMatch(t, []string{"obeys", "obeys in its words"}, namesOf(e.Late))
				for _, late := range e.Late {
					assert.True(t, late.(*scope.TaskError).Induced)
				}
				for _, sentinel := range []error{context.Canceled, context.DeadlineExceeded} {
					assert.Equal(t, c.kind.Sentinel() == sentinel, errors.Is(err, sentinel), "%v", sentinel)
				}
				if c.why != nil {
					assert.ErrorIs(t, err, why)
					assert.ErrorContains(t, err, "deploy")
				}
				assert.NotContains(t, err.Error(), "later")
			})
		})
	}
}

// TestACancelledScopeThatDoesItsWorkHasSucceeded: a cancel is a wish; what was
// done in spite of it counts, and is marked late.
func TestACancelledScopeThatDoesItsWorkHasSucceeded(t *testing.T) {
	for name, end := range map[string]func(context.Context, *scope.Scope){
		"cancel":   func(_ context.Context, s *scope.Scope) { s.Cancel(nil) },
		"deadline": func(ctx context.Context, _ *scope.Scope) { <-ctx.Done() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var s1 *scope.Scope
				v, err := scope.RunValue(t.Context(), "shop", budget.Within(time.Second), func(ctx context.Context, s *scope.Scope) (int, error) {
					s1 = s
					task := scope.Fork(s, "overstays", func(ctx context.Context) (int, error) {
						<-ctx.Done()
						time.Sleep(time.Minute)
						return 7, nil
					})
					end(ctx, s)
					require.NoError(t, s.Wait(), "nothing failed and nothing was cut")
					assert.False(t, s.Stats().Late, "not decided yet")
					return task.Value(), nil
				})
				assert.NoError(t, err)
				assert.Equal(t, 7, v)
				assert.True(t, s1.Stats().Late)
			})
		})
	}
}

// A nosy error looks at its scope when it is compared, as one with a lock of
// its own might wait for somebody who does.
type nosyError struct{ s *scope.Scope }

func (nosyError) Error() string   { return "nosy" }
func (e nosyError) Is(error) bool { e.s.Stats(); return false }
func (e nosyError) As(any) bool   { e.s.Stats(); return false }

// TestAnErrorsOwnMethodsMayUseTheScope: no foreign code runs under its lock.
func TestAnErrorsOwnMethodsMayUseTheScope(t *testing.T) {
	for name, body := range map[string]func(ctx context.Context, s *scope.Scope) error{
		"of the body, first": func(_ context.Context, s *scope.Scope) error { return nosyError{s} },
		"of the body, late":  func(_ context.Context, s *scope.Scope) error { s.Cancel(nil); return nosyError{s} },
		"of the body, after a failure": func(ctx context.Context, s *scope.Scope) error {
			s.Go("bad", func(context.Context) error { return errJoin })
			<-ctx.Done()
			return nosyError{s}
		},
		"of a task, late": func(ctx context.Context, s *scope.Scope) error {
			s.Go("bad", func(ctx context.Context) error { <-ctx.Done(); return nosyError{s} })
			s.Cancel(nil)
			return s.Wait()
		},
		"wrapped": func(ctx context.Context, s *scope.Scope) error {
			s.Go("bad", func(ctx context.Context) error { return nosyError{s} })
			return fmt.Errorf("render: %w", s.Wait())
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				err := scope.Run(t.Context(), "shop", budget.Within(time.Hour), body)
				assert.Error(t, err)
				assert.ErrorContains(t, err, "nosy")
				assert.NotErrorIs(t, err, errOutside)
			})
		})
	}
}
