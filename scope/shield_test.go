package scope_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
)

// TestCase31_AShieldIsAFixedRegion: an outer cancel inside it does not reach
// it, the region ends clean, and the outer ends as cancelled.
func TestCase31_AShieldIsAFixedRegion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		committed := false
		err := scope.Run(t.Context(), "order", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
			s.Go("commit", func(ctx context.Context) error {
				err := func() error {
					shielded, done := budget.Detached(ctx, time.Minute)
					defer done()
					// Made inside, and so inside the shield.
					return scope.Run(shielded, "critical", budget.Inherited(), func(ctx context.Context, s *scope.Scope) error {
						s.Go("write", func(ctx context.Context) error {
							select {
							case <-time.After(2 * time.Second):
								committed = true
								return nil
							case <-ctx.Done():
								return context.Cause(ctx)
							}
						})
						return s.Wait()
					})
				}()
				assert.NoError(t, err, "the region ends clean")
				assert.Error(t, ctx.Err(), "right after it the outer's end is seen")
				return context.Cause(ctx)
			})
			s.Go("canceller", func(context.Context) error {
				time.Sleep(time.Second)
				s.Cancel(errJoin)
				return nil
			})
			return nil
		})
		assert.True(t, committed)
		assert.Equal(t, budget.Cancelled, budget.KindOf(err))
		assert.ErrorIs(t, err, errJoin)
	})
	synctest.Test(t, func(t *testing.T) { // an explicit cancel of what is inside still works
		err := scope.Run(t.Context(), "order", budget.Within(time.Hour), func(ctx context.Context, _ *scope.Scope) error {
			shielded, done := budget.Detached(ctx, time.Minute)
			defer done()
			inner := scope.Run(shielded, "critical", budget.Inherited(), func(ctx context.Context, s *scope.Scope) error {
				s.Go("task", obedient)
				s.Cancel(errJoin)
				return nil
			})
			assert.ErrorIs(t, inner, errJoin)
			assert.NoError(t, ctx.Err(), "and stays inside")
			return nil
		})
		assert.NoError(t, err)
	})
}
