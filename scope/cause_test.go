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

// TestCase16_ASiblingsFailureReadAsACauseSaysSo: it names the sibling and its
// error, and never looks like an error of whoever reads it.
func TestCase16_ASiblingsFailureReadAsACauseSaysSo(t *testing.T) {
	for name, failure := range map[string]error{
		"a plain error":        errors.New("boom"),
		"a timeout":            context.DeadlineExceeded,
		"a cancel of its own":  context.Canceled,
		"a limit of its own":   &budget.Cause{Kind: budget.DeadlineExceeded, Limit: "replica 1"},
		"a dependency timeout": &budget.Cause{Kind: budget.DependencyTimeout, Phase: "connect"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				err := scope.Run(t.Context(), "shop", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
					look := func(ctx context.Context) error {
						<-ctx.Done()
						assert.Equal(t, context.Canceled, ctx.Err())
						cause := context.Cause(ctx)
						assert.Equal(t, budget.SiblingFailed, budget.KindOf(cause))
						assert.ErrorContains(t, cause, "sibling failed")
						assert.ErrorContains(t, cause, "shop")
						var c *budget.Cause
						require.ErrorAs(t, cause, &c)
						assert.Equal(t, "a", c.Task)
						assert.Equal(t, failure, c.Err)
						assert.ErrorIs(t, cause, context.Canceled, "to B it is a cancel")
						assert.NotErrorIs(t, cause, context.DeadlineExceeded, "a sibling's timeout is not mine")
						assert.False(t, c.Timeout())
						if failure != context.Canceled && failure != context.DeadlineExceeded {
							assert.ErrorIs(t, cause, failure)
						}
						return cause
					}
					s.Go("b", look)
					s.Limit(budget.Within(time.Minute)).Go("c", look)
					s.Go("d", func(ctx context.Context) error {
						return scope.Run(ctx, "inner", budget.Within(time.Minute), func(ctx context.Context, _ *scope.Scope) error {
							return look(ctx)
						})
					})
					synctest.Wait()
					s.Go("a", func(context.Context) error { return failure })
					_ = look(ctx)
					return nil
				})
				var e *scope.Error
				require.ErrorAs(t, err, &e)
				assert.Equal(t, budget.Failed, e.Cause.Kind, "to who called Run it is a failure")
				assert.Equal(t, []string{"a"}, namesOf(e.Failures))
				assert.ElementsMatch(t, []string{"b", "c", "d"}, namesOf(e.Late))
				assert.ErrorIs(t, err, failure)
			})
		})
	}
}

// TestCase18_ACleanupsErrorNeverReplacesTheVerdict: both are kept, apart.
func TestCase18_ACleanupsErrorNeverReplacesTheVerdict(t *testing.T) {
	boom, unlock := errors.New("boom"), errors.New("unlock failed")
	for name, c := range map[string]struct {
		body func(ctx context.Context, s *scope.Scope) error
		kind budget.Kind
		also error
	}{
		"after a task's failure": {func(ctx context.Context, s *scope.Scope) error {
			s.Go("bad", func(context.Context) error { return boom })
			return nil
		}, budget.Failed, boom},
		"after the body's failure": {func(context.Context, *scope.Scope) error { return boom }, budget.Failed, boom},
		"after the deadline":       {func(ctx context.Context, _ *scope.Scope) error { return obedient(ctx) }, budget.DeadlineExceeded, context.DeadlineExceeded},
		"after a cancel":           {func(ctx context.Context, s *scope.Scope) error { s.Cancel(boom); return obedient(ctx) }, budget.Cancelled, boom},
		"after success":            {func(context.Context, *scope.Scope) error { return nil }, budget.Failed, nil},
		"after late success":       {func(_ context.Context, s *scope.Scope) error { s.Cancel(boom); return nil }, budget.Failed, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				err := scope.Run(t.Context(), "shop", budget.Within(time.Second), func(ctx context.Context, s *scope.Scope) error {
					s.Cleanup("fine", func(context.Context) error { return nil })
					s.Cleanup("unlock", func(context.Context) error { return unlock })
					return c.body(ctx, s)
				})
				var e *scope.Error
				require.ErrorAs(t, err, &e)
				assert.Equal(t, c.kind, e.Cause.Kind)
				assert.ErrorIs(t, err, unlock)
				assert.Equal(t, []string{"unlock"}, namesOf(e.Cleanup))
				if c.also != nil {
					assert.ErrorIs(t, err, c.also)
				} else {
					assert.Empty(t, e.Failures)
					assert.Empty(t, e.Late)
					assert.NotErrorIs(t, err, context.Canceled)
				}
			})
		})
	}
}

// TestCase19_AnInnerDeadlineFailsTheOuterScope: unhandled, it is the outer's
// failure and says whose deadline it was; handled, it is nothing.
func TestCase19_AnInnerDeadlineFailsTheOuterScope(t *testing.T) {
	inner := func(ctx context.Context) error {
		return scope.Run(ctx, "inner", budget.Within(time.Second).Named("stock limit"), func(ctx context.Context, _ *scope.Scope) error {
			return obedient(ctx)
		})
	}
	for name, c := range map[string]struct {
		task func(context.Context) error
		fail bool
	}{
		"unhandled": {inner, true},
		"wrapped":   {func(ctx context.Context) error { return fmt.Errorf("stock: %w", inner(ctx)) }, true},
		"handled":   {func(ctx context.Context) error { _ = inner(ctx); return nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				err := scope.Run(t.Context(), "outer", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
					s.Go("child", c.task)
					s.Go("sibling", func(ctx context.Context) error {
						if c.fail {
							return obedient(ctx)
						}
						return nil
					})
					return nil
				})
				assert.Equal(t, time.Second, time.Since(start))
				if !c.fail {
					assert.NoError(t, err)
					return
				}
				var e *scope.Error
				require.ErrorAs(t, err, &e)
				assert.Equal(t, budget.Failed, e.Cause.Kind, "the outer's own time had not run out")
				assert.Equal(t, []string{"child"}, namesOf(e.Failures))
				assert.ErrorIs(t, err, context.DeadlineExceeded, "the failure matches it by itself")
				assert.NotErrorIs(t, err, context.Canceled)
				assert.ErrorContains(t, err, "stock limit")
				assert.ErrorContains(t, err, "outer/child/inner")
			})
		})
	}
}
