package scope_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
)

// deepDown calls f below n frames of its own.
func deepDown(n int, f func() error) error {
	if n == 0 {
		return f()
	}
	err := deepDown(n-1, f)
	runtime.KeepAlive(n)
	return err
}

// forkAndWait is work that needs a slot in s, beside the one of its caller.
func forkAndWait(ctx context.Context, s *scope.Scope) error {
	_, err := scope.Fork(s, "child", func(context.Context) (int, error) { return 1, nil }).Wait(ctx)
	return err
}

// atOnce asserts that f, a task in a scope with n slots, ends without any wait.
func atOnce(t *testing.T, n int, f func(ctx context.Context, s *scope.Scope) error) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		assert.NoError(t, scope.Run(t.Context(), "x", budget.Within(time.Minute), func(_ context.Context, s *scope.Scope) error {
			s.SetSlots(n)
			s.Go("task", func(ctx context.Context) error { return f(ctx, s) })
			return nil
		}))
		assert.Zero(t, time.Since(start))
	})
}

// TestATaskLendsItsSlotFromWithinAForeignScope: the innermost task on the goroutine
// has no slot to lend, since its scope does not stand in the tree; the one that
// waits for it has.
func TestATaskLendsItsSlotFromWithinAForeignScope(t *testing.T) {
	atOnce(t, 1, func(_ context.Context, s *scope.Scope) error {
		foreign, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		_, err := scope.All(foreign, "foreign", func(ctx context.Context) (int, error) { return 1, forkAndWait(ctx, s) })
		return err
	})
}

// TestADeepStackHidesNoSlot: the runtime shows a hundred frames of a stack at most
// and leaves out the middle, where the task with the inner slot stands here.
func TestADeepStackHidesNoSlot(t *testing.T) {
	atOnce(t, 4, func(ctx context.Context, _ *scope.Scope) error {
		return deepDown(60, func() error {
			return scope.Run(ctx, "inner", budget.Inherited(), func(ctx context.Context, s *scope.Scope) error {
				s.SetSlots(1)
				return scope.Each(ctx, "each", 1, []int{1}, func(ctx context.Context, _ int) error {
					return deepDown(80, func() error { return forkAndWait(ctx, s) })
				})
			})
		})
	})
}

// TestWhatACleanupOpensNeedsNoSlot: it would wait for the slot of the task that
// waits for the cleanup.
func TestWhatACleanupOpensNeedsNoSlot(t *testing.T) {
	atOnce(t, 1, func(ctx context.Context, _ *scope.Scope) error {
		return scope.Run(ctx, "inner", budget.Inherited(), func(_ context.Context, s *scope.Scope) error {
			s.Cleanup("flush", func(ctx context.Context) error {
				return scope.Each(ctx, "flush", 2, []int{1, 2}, func(context.Context, int) error { return nil })
			})
			return nil
		})
	})
}

func TestATaskLendsItsSlotToTheServicesItWaitsFor(t *testing.T) {
	atOnce(t, 1, func(ctx context.Context, _ *scope.Scope) error {
		return scope.Run(ctx, "inner", budget.Inherited(), func(_ context.Context, s *scope.Scope) error {
			s.Service().Go("writer", func(ctx context.Context) error {
				<-ctx.Done()
				ctx, cancel := budget.Detached(ctx, time.Second)
				defer cancel()
				return scope.Each(ctx, "flush", 2, []int{1, 2}, func(context.Context, int) error { return nil })
			})
			return nil
		})
	})
}

func TestAWaitForASlotEndsWithTheContextGivenToIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		err := scope.Run(t.Context(), "x", budget.Within(time.Minute), func(ctx context.Context, s *scope.Scope) error {
			s.SetSlots(1)
			s.Go("busy", func(context.Context) error { time.Sleep(10 * time.Second); return nil })
			in, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			s.In(in).Go("late", func(context.Context) error { t.Error("it ran"); return nil })
			assert.Equal(t, time.Second, time.Since(start))
			return nil
		})
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorContains(t, err, `task "late"`)
	})
}

// TestAScopeIsOverBeforeItsTaskTakesItsSlotBack: what comes while a Run waits only
// for its caller's slot comes too late, and is not left behind.
func TestAScopeIsOverBeforeItsTaskTakesItsSlotBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := make(chan any, 1)
		require.NoError(t, scope.Run(t.Context(), "x", budget.Within(time.Minute), func(_ context.Context, s *scope.Scope) error {
			s.SetSlots(2)
			s.Go("task", func(ctx context.Context) error {
				var in *scope.Scope
				err := scope.Run(ctx, "inner", budget.Inherited(), func(_ context.Context, s *scope.Scope) error {
					in = s
					s.Go("second", func(context.Context) error { time.Sleep(time.Second); return nil })
					time.AfterFunc(2*time.Second, func() {
						defer func() { late <- recover() }()
						s.Service().Go("late", func(context.Context) error { time.Sleep(time.Minute); return nil })
					})
					return nil
				})
				assert.Zero(t, in.Stats().Live)
				return err
			})
			synctest.Wait()
			for range 2 { // they get the slots of task and second, for ten seconds
				s.Service().Go("spawner", func(context.Context) error {
					s.Go("long", func(context.Context) error { time.Sleep(10 * time.Second); return nil })
					return nil
				})
			}
			time.Sleep(5 * time.Second)
			return nil
		}))
		err, _ := (<-late).(error)
		assert.ErrorIs(t, err, scope.ErrClosed)
	})
}
