package scope_test

import (
	"context"
	"errors"
	"sync/atomic"
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

// TestABodysPanicOverADeafTaskStillCleansUp: the panic does not wait for the
// task. When somebody above recovers it, as net/http does, the scope ends
// properly once the task does.
func TestABodysPanicOverADeafTaskStillCleansUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cleaned atomic.Bool
		var s1 *scope.Scope
		var ctx1 context.Context
		start := time.Now()
		v := recovered(func() {
			scope.Run(t.Context(), "shop", budget.Within(time.Second), func(ctx context.Context, s *scope.Scope) error {
				s1, ctx1 = s, ctx
				s.Cleanup("unlock", func(ctx context.Context) error { cleaned.Store(ctx.Err() == nil); return nil })
				s.Go("deaf", func(context.Context) error { time.Sleep(10 * time.Second); return nil })
				return explode("body")
			})
		})
		assert.Equal(t, "body", v)
		assert.Equal(t, 1100*time.Millisecond, time.Since(start), "the deadline, and a grace")
		assert.False(t, cleaned.Load(), "the task still uses what the cleanup releases")
		assert.Error(t, ctx1.Err())
		assert.Equal(t, 1, s1.Stats().Orphans)
		time.Sleep(time.Minute)
		assert.True(t, cleaned.Load())
		assert.Equal(t, scope.Stats{Started: 1, Stragglers: 1, Overrun: 10 * time.Second}, s1.Stats())
		late, ok := recovered(func() { s1.Go("late", obedient) }).(error)
		assert.True(t, ok)
		assert.ErrorIs(t, late, scope.ErrClosed)
	})
}
