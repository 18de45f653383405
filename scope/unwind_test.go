package scope_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
)

// TestCleanupsMayRegisterCleanups: one registered while cleaning runs next.
func TestCleanupsMayRegisterCleanups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		note := func(name string) func(context.Context) error {
			return func(ctx context.Context) error {
				assert.NoError(t, ctx.Err())
				order = append(order, name)
				return nil
			}
		}
		err := scope.Run(t.Context(), "shop", budget.Within(time.Hour), func(_ context.Context, s *scope.Scope) error {
			s.Cleanup("first", note("first"))
			s.Cleanup("nests", func(ctx context.Context) error {
				s.Cleanup("inner", func(ctx context.Context) error {
					s.Cleanup("innermost", note("innermost"))
					return note("inner")(ctx)
				})
				return note("nests")(ctx)
			})
			s.Go("task", func(context.Context) error { s.Cleanup("task's", note("task's")); return nil })
			return nil
		})
		assert.NoError(t, err)
		assert.Equal(t, []string{"task's", "nests", "inner", "innermost", "first"}, order)
	})
}

// TestRunInsideAnUnwindingGoroutine: a deferred function may open a scope while
// its goroutine panics or exits, and the scope swallows neither.
func TestRunInsideAnUnwindingGoroutine(t *testing.T) {
	boom := errors.New("boom")
	run := func(t *testing.T, ran *bool) {
		err := scope.Run(context.Background(), "deferred", budget.Within(time.Hour), func(_ context.Context, s *scope.Scope) error {
			s.Go("task", func(context.Context) error { *ran = true; return boom })
			return s.Wait()
		})
		assert.ErrorIs(t, err, boom)
	}
	t.Run("panic", func(t *testing.T) {
		ran := false
		assert.Equal(t, "outer", recovered(func() {
			defer run(t, &ran)
			panic("outer")
		}))
		assert.True(t, ran)
	})
	t.Run("Goexit", func(t *testing.T) {
		ran, went := false, true
		failNow := new(testing.T).FailNow // of another test than this one
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer run(t, &ran)
			failNow()
			went = false
		}()
		<-done
		assert.True(t, ran && went)
	})
	t.Run("panic, and the inner body exits", func(t *testing.T) {
		done := make(chan any, 1)
		joined := false
		go func() {
			defer func() { done <- recover() }()
			defer func() {
				_ = scope.Run(context.Background(), "deferred", budget.Within(time.Hour), func(_ context.Context, s *scope.Scope) error {
					s.Go("task", func(ctx context.Context) error { <-ctx.Done(); joined = true; return nil })
					goexit()
					return nil
				})
			}()
			panic("outer")
		}()
		<-done
		assert.True(t, joined, "the task was joined before the goroutine went on")
	})
}
