package ctxnode_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/ctxnode"
	"github.com/curfew-go/curfew/scope"
)

// A context that ended is taken from its parent's list, whoever ended it: a
// long-lived parent must not collect the contexts of a day.
func TestEndedContextsDoNotPileUpBelowTheirParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outer := enter(t, context.Background(), budget.Within(time.Hour))
		node := ctxnode.Find(outer).Node()
		for range 10 {
			_, cancel, err := budget.Enter(outer, budget.Within(time.Second))
			require.NoError(t, err)
			cancel()
		}
		assert.Zero(t, node.Linked(), "cancelled")
		for range 10 {
			_, cancel, err := budget.Enter(outer, budget.Within(time.Second))
			require.NoError(t, err)
			defer cancel()
		}
		assert.Equal(t, 10, node.Linked())
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.Zero(t, node.Linked(), "expired; std forgets its children then, without a cancel")
	})
}

// What still runs below an ended scope is found from it: who waits for itself,
// who is late, and later what a drain still waits for.
func TestAnEndedNodeStillKnowsWhatRunsBelowIt(t *testing.T) {
	for _, end := range []struct {
		name string
		f    func(outer *scope.Scope)
	}{
		{"cancel", func(s *scope.Scope) { s.Cancel(errBoom) }},
		{"deadline", func(*scope.Scope) { time.Sleep(time.Second) }},
	} {
		synctest.Test(t, func(t *testing.T) {
			_ = scope.Run(context.Background(), "outer", budget.Within(time.Second), func(ctx context.Context, s *scope.Scope) error {
				node := ctxnode.Find(ctx).Node()
				s.Go("deaf", func(ctx context.Context) error {
					return scope.Run(ctx, "inner", budget.Inherited(), func(ctx context.Context, _ *scope.Scope) error {
						<-ctx.Done()
						time.Sleep(time.Minute)
						return nil
					})
				})
				synctest.Wait()
				end.f(s)
				synctest.Wait()
				require.Error(t, ctx.Err(), end.name)
				assert.Equal(t, 1, node.Linked(), "%s: the inner scope still runs", end.name)
				assert.NoError(t, s.Wait())
				assert.Zero(t, node.Linked(), end.name)
				return nil
			})
		})
	}
}

// Trap: looking for the parent by value, or by its Done, makes the std context
// of a parent that nobody has asked.
func TestNestingDoesNotMakeStdContexts(t *testing.T) {
	outer := enter(t, context.Background(), budget.Within(time.Hour))
	node := ctxnode.Find(outer).Node()
	inner := enter(t, outer, budget.Inherited())
	require.NoError(t, scope.Run(inner, "a", budget.Inherited(), func(ctx context.Context, s *scope.Scope) error {
		s.Go("task", func(taskCtx context.Context) error {
			err := scope.Run(taskCtx, "b", budget.Within(time.Minute), func(context.Context, *scope.Scope) error { return nil })
			assert.False(t, ctxnode.Find(taskCtx).Node().HasStd())
			return err
		})
		s.Limit(budget.Within(time.Minute)).Go("limited", func(ctx context.Context) error { return ctx.Err() })
		return s.Wait()
	}))
	_, ok := budget.Remaining(inner)
	assert.True(t, ok)
	assert.NoError(t, budget.Require(inner, time.Second))
	assert.False(t, node.HasStd())
	assert.False(t, ctxnode.Find(inner).Node().HasStd())
	outer.Done()
	assert.True(t, node.HasStd(), "or this test would see nothing")
}

// Behind values, too, a context of ours hangs directly below the one above: no
// std context stands between them, and no callback, so it ends in the same step.
func TestContextsBehindValuesAreLinkedDirectly(t *testing.T) {
	outer, cancel, err := budget.Enter(context.Background(), budget.Within(time.Hour))
	require.NoError(t, err)
	inner := enter(t, context.WithValue(context.WithValue(outer, key("a"), 1), key("b"), 2), budget.Inherited())
	assert.Equal(t, 1, ctxnode.Find(outer).Node().Linked())
	assert.Zero(t, ctxnode.Find(inner).Node().Callbacks())
	cancel()
	assert.Equal(t, context.Canceled, inner.Err(), "at once")
}

// Paths are made on demand from all that stands above.
func TestPaths(t *testing.T) {
	outer := enter(t, context.Background(), budget.Within(time.Hour))
	assert.Empty(t, ctxnode.Find(outer).Path(), "a budget has no name")
	require.NoError(t, scope.Run(outer, "checkout", budget.Inherited(), func(ctx context.Context, s *scope.Scope) error {
		assert.Equal(t, "checkout", ctxnode.Find(ctx).Path())
		s.Go("order", func(ctx context.Context) error {
			assert.Equal(t, "checkout/order", ctxnode.Find(ctx).Path())
			assert.Equal(t, "order", ctxnode.Find(ctx).Task())
			below := child(t, context.WithValue(enter(t, ctx, budget.Inherited()), key("a"), 1))
			return scope.Run(below, "payment", budget.Inherited(), func(ctx context.Context, s *scope.Scope) error {
				v := ctxnode.Find(ctx)
				assert.Equal(t, "checkout/order/payment", v.Path())
				assert.True(t, v.Within(ctxnode.Find(outer).Node()))
				assert.False(t, ctxnode.Find(outer).Within(v.Node()))
				return nil
			})
		})
		return nil
	}))
	assert.Nil(t, ctxnode.Find(context.Background()))
}
