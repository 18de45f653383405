package budget_test

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

// Detached: values kept, end and deadline dropped, a bound of its own.
func TestDetachedOutlivesItsParentWithinItsOwnBound(t *testing.T) {
	parents := map[string]func(t *testing.T) context.Context{
		"cancelled": func(t *testing.T) context.Context {
			ctx, cancel, err := budget.Enter(context.WithValue(context.Background(), key("user"), "ann"), budget.Within(time.Hour))
			require.NoError(t, err)
			cancel()
			return ctx
		},
		"expired": func(t *testing.T) context.Context {
			ctx := enter(t, context.WithValue(context.Background(), key("user"), "ann"), budget.Within(time.Second))
			time.Sleep(time.Second)
			synctest.Wait()
			return ctx
		},
		"expiring": func(t *testing.T) context.Context {
			return enter(t, context.WithValue(context.Background(), key("user"), "ann"), budget.Within(time.Second))
		},
		"std, cancelled": func(t *testing.T) context.Context {
			return cancelled(t, context.WithValue(context.Background(), key("user"), "ann"), nil)
		},
	}
	for name, parent := range parents {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := budget.Detached(parent(t), 10*time.Second)
				defer cancel()
				assert.NoError(t, ctx.Err())
				assert.Equal(t, "ann", ctx.Value(key("user")))
				left, ok := budget.Remaining(ctx)
				assert.True(t, ok)
				assert.Equal(t, 10*time.Second, left)
				time.Sleep(10*time.Second - 1)
				synctest.Wait()
				assert.NoError(t, ctx.Err(), "before its bound")
				time.Sleep(time.Nanosecond)
				synctest.Wait()
				assert.Equal(t, context.DeadlineExceeded, ctx.Err())
				assert.EqualError(t, context.Cause(ctx), "budget: deadline exceeded: limit detached 10s")
			})
		})
	}
}

func TestDetachedIsCancelledByItsFunctionAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outer, cancelOuter, err := budget.Enter(context.Background(), budget.Within(time.Hour))
		require.NoError(t, err)
		ctx, cancel := budget.Detached(outer, time.Minute)
		below := enter(t, ctx, budget.Inherited())
		cancelOuter()
		synctest.Wait()
		assert.NoError(t, ctx.Err())
		assert.NoError(t, below.Err())
		cancel()
		cancel()
		assert.Equal(t, context.Canceled, ctx.Err())
		assert.Equal(t, budget.Cancelled, budget.KindOf(context.Cause(ctx)))
		assert.Same(t, context.Cause(ctx), context.Cause(below))
	})
}

func TestDetachedForNoTimeHasEnded(t *testing.T) {
	for _, d := range []time.Duration{0, -1, -time.Hour, -forever} {
		ctx, cancel := budget.Detached(context.WithValue(context.Background(), key("user"), "ann"), d)
		require.NotNil(t, cancel)
		<-ctx.Done()
		assert.Equal(t, context.DeadlineExceeded, ctx.Err())
		assert.Equal(t, budget.ExpiredOnArrival, budget.KindOf(context.Cause(ctx)))
		assert.ErrorContains(t, context.Cause(ctx), "detached")
		assert.Equal(t, "ann", ctx.Value(key("user")))
		_, ok := budget.Remaining(ctx)
		assert.True(t, ok, "it has a deadline, which has passed")
		cancel()
		assert.Equal(t, budget.ExpiredOnArrival, budget.KindOf(context.Cause(ctx)))
	}
	ctx, cancel := budget.Detached(context.Background(), forever)
	assert.NoError(t, ctx.Err(), "and for ever is not negative")
	cancel()
}

// A shielded block inside a scope: the scope's end does not cut it, Run waits
// for it, and a scope inside the block lives on its bound.
func TestDetachedInsideAScope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var steps []string
		start := time.Now()
		err := scope.Run(context.Background(), "order", budget.Within(time.Second), func(ctx context.Context, s *scope.Scope) error {
			s.Go("pay", func(ctx context.Context) error {
				shield, cancel := budget.Detached(ctx, 5*time.Second)
				defer cancel()
				err := scope.Run(shield, "commit", budget.Inherited(), func(ctx context.Context, s *scope.Scope) error {
					time.Sleep(2 * time.Second) // past the scope's deadline
					steps = append(steps, "committed")
					return context.Cause(ctx)
				})
				if err != nil {
					return err
				}
				<-ctx.Done() // ended long ago
				return context.Cause(ctx)
			})
			return nil
		})
		assert.Equal(t, []string{"committed"}, steps)
		assert.Equal(t, 2*time.Second, time.Since(start))
		assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err))
	})
}
