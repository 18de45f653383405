package scope_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
)

// endings are the ways in which a scope can end; cleanups work after each.
var endings = []struct {
	name string
	kind budget.Kind
	end  func(ctx context.Context, s *scope.Scope) error
}{
	{"success", budget.None, func(context.Context, *scope.Scope) error { return nil }},
	{"failure", budget.Failed, func(context.Context, *scope.Scope) error { return errors.New("boom") }},
	{"deadline", budget.DeadlineExceeded, func(ctx context.Context, _ *scope.Scope) error { <-ctx.Done(); return context.Cause(ctx) }},
	{"cancel", budget.Cancelled, func(ctx context.Context, s *scope.Scope) error { s.Cancel(nil); return context.Cause(ctx) }},
}

type valueKey struct{}

func TestCase50And51_CleanupHasALiveContextWithValuesAndABoundOfItsOwn(t *testing.T) {
	for _, e := range endings {
		for _, limit := range []struct {
			name  string
			limit budget.Limit
			bound time.Duration
		}{
			{"default", budget.Within(time.Minute), time.Second},
			{"kept back", budget.Within(time.Minute).Cleanup(3 * time.Second), 3 * time.Second},
		} {
			t.Run(e.name+", "+limit.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ran := false
					ctx := context.WithValue(t.Context(), valueKey{}, "kept")
					err := scope.Run(ctx, "order", limit.limit, func(ctx context.Context, s *scope.Scope) error {
						s.Cleanup("rollback", func(ctx context.Context) error {
							ran = true
							assert.NoError(t, ctx.Err())
							assert.Equal(t, "kept", ctx.Value(valueKey{}))
							left, ok := budget.Remaining(ctx)
							assert.True(t, ok)
							assert.Equal(t, limit.bound, left)
							return nil
						})
						s.Go("last", func(ctx context.Context) error {
							<-ctx.Done()
							time.Sleep(time.Hour) // the bound counts from the end of the last task
							return nil
						})
						if e.kind == budget.None {
							s.Cancel(nil) // lets the task end; nothing is cut
						}
						return e.end(ctx, s)
					})
					assert.True(t, ran)
					assert.Equal(t, e.kind, budget.KindOf(err), "%v", err)
				})
			})
		}
	}
}

func TestCleanupTimeComesOutOfTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		err := scope.Run(t.Context(), "order", budget.Within(10*time.Second).Reserve(time.Second).Cleanup(3*time.Second),
			func(ctx context.Context, s *scope.Scope) error {
				left, _ := budget.Remaining(ctx)
				assert.Equal(t, 6*time.Second, left)
				s.Cleanup("slow", func(ctx context.Context) error { <-ctx.Done(); return nil })
				<-ctx.Done()
				return nil
			})
		assert.NoError(t, err, "nothing failed and nothing was cut")
		assert.Equal(t, 9*time.Second, time.Since(start), "the reserve is left")
	})
}

func TestCase52_DeafCleanupIsLeftBehindAtItsBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var s1 *scope.Scope
		var reported []string
		ctx := scope.WithTrace(t.Context(), &scope.Trace{
			CleanupLeftBehind: func(scope, cleanup string, after time.Duration) {
				reported = append(reported, fmt.Sprint(scope, " ", cleanup, " ", after))
			},
		})
		start := time.Now()
		err := scope.Run(ctx, "order", budget.Within(time.Minute), func(ctx context.Context, s *scope.Scope) error {
			s1 = s
			s.Cleanup("deaf", func(context.Context) error { <-release; return nil })
			return nil
		})
		assert.Equal(t, 1010*time.Millisecond, time.Since(start), "its bound and the moment to return")
		require.ErrorIs(t, err, scope.ErrCleanupTimeout)
		var e *scope.Error
		require.ErrorAs(t, err, &e)
		assert.Equal(t, budget.Failed, e.Cause.Kind)
		assert.Len(t, e.Cleanup, 1)
		assert.Empty(t, e.Failures)
		assert.Empty(t, e.Late)
		assert.Equal(t, []string{"order deaf 1s"}, reported)
		assert.Equal(t, 1, s1.Stats().Orphans)
		close(release)
		synctest.Wait()
		assert.Zero(t, s1.Stats().Orphans, "an orphan that ends is counted no more")
	})
}

func TestObedientCleanupThatRunsOutOfTimeIsATimeoutToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		never := scope.WithTrace(t.Context(), &scope.Trace{CleanupLeftBehind: func(_, cleanup string, _ time.Duration) {
			t.Error(cleanup, "obeyed its context")
		}})
		err := scope.Run(never, "order", budget.Within(time.Minute), func(ctx context.Context, s *scope.Scope) error {
			s.Cleanup("obedient", func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) })
			return nil
		})
		assert.ErrorIs(t, err, scope.ErrCleanupTimeout)
	})
}

func TestCase53_OneStuckCleanupDoesNotKeepTheOthersFromRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // the stuck one is not joined: nothing else orders it
		var order []string
		var stuck string
		ctx := scope.WithTrace(t.Context(), &scope.Trace{CleanupLeftBehind: func(_, cleanup string, _ time.Duration) { stuck = cleanup }})
		release := make(chan struct{})
		defer close(release)
		start := time.Now()
		err := scope.Run(ctx, "order", budget.Within(time.Minute).Cleanup(5*time.Second), func(ctx context.Context, s *scope.Scope) error {
			for i := 1; i <= 5; i++ {
				name := fmt.Sprint("hook-", i)
				s.Cleanup(name, func(ctx context.Context) error {
					mu.Lock()
					order = append(order, name)
					mu.Unlock()
					left, _ := budget.Remaining(ctx)
					assert.GreaterOrEqual(t, left, time.Second, "%s: an equal share of what is left, at least", name)
					if i == 4 {
						<-release
					}
					return nil
				})
			}
			return nil
		})
		assert.Equal(t, []string{"hook-5", "hook-4", "hook-3", "hook-2", "hook-1"}, order)
		assert.Equal(t, "hook-4", stuck)
		assert.ErrorContains(t, err, "hook-4")
		assert.Equal(t, 1260*time.Millisecond, time.Since(start), "the stuck one had a quarter of five seconds")
	})
}

func TestDeafCleanupsTogetherStayWithinTheCleanupTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := scope.WithTrace(t.Context(), &scope.Trace{CleanupLeftBehind: func(string, string, time.Duration) {}})
		release := make(chan struct{})
		defer close(release)
		start := time.Now()
		err := scope.Run(ctx, "order", budget.Within(time.Minute), func(ctx context.Context, s *scope.Scope) error {
			for i := range 10 {
				s.Cleanup(fmt.Sprint("deaf-", i), func(context.Context) error { <-release; return nil })
			}
			return nil
		})
		assert.LessOrEqual(t, time.Since(start), 1010*time.Millisecond, "each moment to return comes out of what is left")
		var e *scope.Error
		require.ErrorAs(t, err, &e)
		assert.Len(t, e.Cleanup, 10)
	})
}

func TestCase56_CleanupsRunLastRegisteredFirstWhateverEndedTheScope(t *testing.T) {
	for _, e := range endings {
		t.Run(e.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var order []int
				scope.Run(t.Context(), "order", budget.Within(time.Minute), func(ctx context.Context, s *scope.Scope) error {
					for i := 1; i <= 3; i++ {
						s.Cleanup(fmt.Sprint(i), func(context.Context) error { order = append(order, i); return nil })
					}
					return e.end(ctx, s)
				})
				assert.Equal(t, []int{3, 2, 1}, order)
			})
		})
	}
}

func TestCleanupErrorsJoinTheVerdictAndNeverReplaceIt(t *testing.T) {
	failed, unclean := errors.New("failed"), errors.New("unclean")
	err := scope.Run(t.Context(), "order", budget.Within(time.Minute), func(ctx context.Context, s *scope.Scope) error {
		s.Cleanup("release", func(context.Context) error { return unclean })
		s.Go("task", func(context.Context) error { return failed })
		return nil
	})
	var e *scope.Error
	require.ErrorAs(t, err, &e)
	assert.ErrorIs(t, err, failed)
	assert.ErrorIs(t, err, unclean)
	assert.Equal(t, "task", e.Cause.Task)
	assert.Equal(t, `scope: order: task "task": failed; cleanup "release": unclean`, err.Error())
}

func TestPanicAndGoexitOfACleanup(t *testing.T) {
	ctx, seen := quiet()
	ran := false
	v := recovered(func() {
		scope.Run(ctx, "order", budget.Within(time.Minute), func(ctx context.Context, s *scope.Scope) error {
			s.Cleanup("below", func(context.Context) error { ran = true; return nil })
			s.Cleanup("bad", func(context.Context) error { return explode("ouch") })
			return nil
		})
	})
	pe, ok := v.(*scope.PanicError)
	require.True(t, ok, "%v", v)
	assert.Equal(t, "order/bad", pe.Task)
	assert.Contains(t, string(pe.Stack), "scope_test.explode")
	assert.Len(t, seen(), 1)
	assert.True(t, ran, "those below still run")

	err := scope.Run(t.Context(), "order", budget.Within(time.Minute), func(ctx context.Context, s *scope.Scope) error {
		s.Cleanup("quits", func(context.Context) error { runtime.Goexit(); return nil })
		return nil
	})
	assert.ErrorIs(t, err, scope.ErrGoexit)
}

func TestCleanupRegisteredLate(t *testing.T) {
	var order []string
	var kept *scope.Scope
	err := scope.Run(t.Context(), "order", budget.Within(time.Minute), func(ctx context.Context, s *scope.Scope) error {
		kept = s
		s.Cleanup("first", func(context.Context) error {
			order = append(order, "first")
			s.Cleanup("from a cleanup", func(context.Context) error { order = append(order, "from a cleanup"); return nil })
			return nil
		})
		s.Cancel(nil)
		s.Cleanup("after the cancel", func(context.Context) error { order = append(order, "after the cancel"); return nil })
		return nil
	})
	assert.NoError(t, err)
	assert.Equal(t, []string{"after the cancel", "first", "from a cleanup"}, order)
	v := recovered(func() { kept.Cleanup("too late", func(context.Context) error { return nil }) })
	err, _ = v.(error)
	assert.ErrorIs(t, err, scope.ErrClosed)
	assert.ErrorContains(t, err, "too late")
}

func TestCleanupIsNotATask(t *testing.T) {
	ctx, _ := quiet()
	v := recovered(func() {
		scope.Run(ctx, "order", budget.Within(time.Minute), func(ctx context.Context, s *scope.Scope) error {
			s.Cleanup("spawns", func(context.Context) error {
				s.Go("late", func(context.Context) error { return nil })
				return nil
			})
			return nil
		})
	})
	pe, ok := v.(*scope.PanicError)
	require.True(t, ok, "%v", v)
	assert.ErrorIs(t, pe, scope.ErrClosed)
}
