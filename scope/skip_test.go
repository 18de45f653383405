package scope_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/stress"
	"github.com/curfew-go/curfew/scope"
)

// TestCase34_SpawnAfterTheEndIsSkipped: what is started in a scope that has
// ended does not run. The trace and Task.Wait say so, it is counted, and it
// alone makes the scope fail, whatever ended it.
func TestCase34_SpawnAfterTheEndIsSkipped(t *testing.T) {
	boom := errors.New("boom")
	for name, c := range map[string]struct {
		end  func(ctx context.Context, s *scope.Scope, parent context.CancelFunc)
		kind budget.Kind // of the context's cause
		want budget.Kind // of the verdict
	}{
		"failure": {func(ctx context.Context, s *scope.Scope, _ context.CancelFunc) {
			s.Go("bad", func(context.Context) error { return boom })
			<-ctx.Done()
		}, budget.SiblingFailed, budget.Failed},
		"panic": {func(ctx context.Context, s *scope.Scope, _ context.CancelFunc) {
			s.Go("bad", func(context.Context) error { return explode(boom) })
			<-ctx.Done()
		}, budget.SiblingFailed, budget.Failed},
		"deadline": {func(ctx context.Context, _ *scope.Scope, _ context.CancelFunc) { <-ctx.Done() },
			budget.DeadlineExceeded, budget.DeadlineExceeded},
		"cancel": {func(_ context.Context, s *scope.Scope, _ context.CancelFunc) { s.Cancel(boom) },
			budget.Cancelled, budget.Cancelled},
		"parent": {func(ctx context.Context, _ *scope.Scope, cancel context.CancelFunc) { cancel(); <-ctx.Done() },
			budget.ParentCancelled, budget.ParentCancelled},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				type skip struct {
					scope, task string
					cause       error
				}
				var skips []skip
				ctx, cancel := context.WithCancel(scope.WithTrace(t.Context(), &scope.Trace{
					TaskSkipped:  func(scope, task string, cause error) { skips = append(skips, skip{scope, task, cause}) },
					TaskPanicked: func(*scope.PanicError) {},
				}))
				defer cancel()
				var s1 *scope.Scope
				var cause error
				var err error
				panicked := recovered(func() {
					err = scope.Run(ctx, "shop", budget.Within(time.Second), func(ctx context.Context, s *scope.Scope) error {
						s1 = s
						c.end(ctx, s, cancel)
						cause = context.Cause(ctx)
						never := func(context.Context) (int, error) { t.Error("it ran"); return 1, nil }
						forks := []*scope.Task[int]{
							scope.Fork(s, "fork", never),
							scope.Fork(s.Limit(budget.Within(time.Minute)), "limited", never),
							scope.Fork(s.In(context.WithoutCancel(ctx)), "shielded", never),
						}
						s.Go("go", func(context.Context) error { t.Error("it ran"); return nil })
						for _, task := range forks {
							v, err := task.Wait(context.Background())
							assert.Zero(t, v)
							assert.Same(t, cause, err, "the cause of the scope's end")
							assert.Equal(t, -1, task.Or(-1))
						}
						return nil
					})
				})
				assert.Equal(t, c.kind, budget.KindOf(cause))
				require.Len(t, skips, 4)
				for i, task := range []string{"fork", "limited", "shielded", "go"} {
					assert.Equal(t, skip{"shop", task, cause}, skips[i])
				}
				assert.Equal(t, 4, s1.Stats().Skipped)
				if name == "panic" {
					assert.NotNil(t, panicked)
					return
				}
				var e *scope.Error
				require.ErrorAs(t, err, &e, "cut work is not success")
				assert.Equal(t, c.want, e.Cause.Kind)
				assert.Contains(t, e.Error(), "not begun: 4")
			})
		})
	}
}

// TestNothingStartsAfterAFailure races the failure with a stream of spawns: no
// task starts that was spawned after its spawner saw the end.
func TestNothingStartsAfterAFailure(t *testing.T) {
	skipped, started := 0, 0
	for range stress.Rounds(2_000) {
		var late bool
		var s1 *scope.Scope
		err := scope.Run(t.Context(), "shop", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
			s1 = s
			at := startLine(2)
			s.Go("bad", func(context.Context) error { at(); return errJoin })
			at()
			for i := range 20 {
				over := ctx.Err() != nil
				s.Go(fmt.Sprint(i), func(context.Context) error {
					if over {
						late = true // read after Run
					}
					return nil
				})
				runtime.Gosched()
			}
			return nil
		})
		require.ErrorIs(t, err, errJoin)
		require.False(t, late, "it started after the end was seen")
		stats := s1.Stats()
		require.Equal(t, 21, stats.Started+stats.Skipped)
		started += stats.Started - 1
		skipped += stats.Skipped
	}
	t.Logf("%d started, %d skipped", started, skipped)
	assert.NotZero(t, started)
	assert.NotZero(t, skipped)
}

// TestCase06_CancelledTasksAreAnOutcomeAndNoPanic: a Cancel while all are
// joined gives each waiter the cancel as the outcome of its task.
func TestCase06_CancelledTasksAreAnOutcomeAndNoPanic(t *testing.T) {
	shutdown := &budget.Cause{Kind: budget.Shutdown}
	for name, why := range map[string]error{"nil": nil, "an error": errors.New("deploy"), "a cause": shutdown} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				want := budget.Cancelled
				if why == error(shutdown) {
					want = budget.Shutdown
				}
				err := scope.Run(t.Context(), "shop", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
					var tasks []*scope.Task[int]
					for i := range 8 {
						tasks = append(tasks, scope.Fork(s, fmt.Sprint("task-", i), func(ctx context.Context) (int, error) {
							if i == 0 {
								return 7, nil // this one made it
							}
							<-ctx.Done()
							return 0, context.Cause(ctx)
						}))
					}
					time.AfterFunc(time.Second, func() { s.Cancel(why) })
					err := s.Wait()
					var e *scope.Error
					require.ErrorAs(t, err, &e)
					assert.Equal(t, want, e.Cause.Kind)
					assert.Empty(t, e.Failures)
					assert.Len(t, e.Late, 7)
					assert.Equal(t, 7, tasks[0].Value())
					for _, task := range tasks[1:] {
						v, err := task.Wait(context.Background())
						assert.Zero(t, v)
						assert.Equal(t, want, budget.KindOf(err))
						assert.Equal(t, -1, task.Or(-1))
					}
					return nil
				})
				assert.Equal(t, want, budget.KindOf(err), "a body that drops Wait's error does not un-fail the scope")
				if why != nil && why != error(shutdown) {
					assert.ErrorIs(t, err, why)
				}
			})
		})
	}
}
