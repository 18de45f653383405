package ctxnode_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
)

func TestEndsSeenInTheContextItself(t *testing.T) {
	t.Parallel()
	forEachEnd(t, func(t *testing.T, e end, ctx context.Context, end func()) {
		end()
		<-ctx.Done()
		assert.Equal(t, e.sentinel, ctx.Err())
		e.looksLike(t, context.Cause(ctx), false)
		e.looksLike(t, ctx.Err(), true)
		assert.IsType(t, &budget.Cause{}, context.Cause(ctx))
	})
}

func TestEndsSeenInStdChildren(t *testing.T) {
	t.Parallel()
	for _, c := range children {
		t.Run(c.name, func(t *testing.T) {
			forEachEnd(t, func(t *testing.T, e end, ctx context.Context, end func()) {
				direct, stop := c.derive(ctx)
				defer stop()
				behind, stop := c.derive(context.WithValue(ctx, key("span"), 1))
				defer stop()
				end()
				<-direct.Done()
				<-behind.Done()
				late, stop := c.derive(context.WithValue(ctx, key("span"), 1))
				defer stop()
				<-late.Done()
				for _, child := range []context.Context{direct, behind, late} {
					assert.Same(t, context.Cause(ctx), context.Cause(child))
					if c.name != "AfterFunc" { // whose child is a context of the test's own
						assert.Equal(t, e.sentinel, child.Err())
						e.looksLike(t, child.Err(), true)
					}
				}
			})
		})
	}
}

func TestEndsSeenInScopesBelow(t *testing.T) {
	t.Parallel()
	forEachEnd(t, func(t *testing.T, e end, ctx context.Context, end func()) {
		err := scope.Run(context.WithValue(ctx, key("span"), 1), "inner", budget.Inherited(), func(inner context.Context, s *scope.Scope) error {
			s.Go("task", func(ctx context.Context) error {
				<-ctx.Done()
				return context.Cause(ctx)
			})
			end()
			return s.Wait()
		})
		e.looksLike(t, err, false)
		var se *scope.Error
		require.ErrorAs(t, err, &se)
		assert.Same(t, context.Cause(ctx), se.Cause)
	})
}
