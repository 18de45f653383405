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
	"github.com/curfew-go/curfew/scope"
)

// nestedIn runs a scope inside ctx whose one task, called name, runs f.
func nestedIn(ctx context.Context, name string, f func(context.Context) error) error {
	return scope.Run(ctx, "inner", budget.Within(time.Minute), func(_ context.Context, s *scope.Scope) error {
		s.Go(name, f)
		return nil
	})
}

// TestATaskThatWaitsForItsOwnScopePanicsWithItsName holds S10: a Wait that
// would wait for itself is told, however the task came to call it and wherever
// the body is, and nothing hangs. In each case the task "selfish" is to blame.
func TestATaskThatWaitsForItsOwnScopePanicsWithItsName(t *testing.T) {
	type body = func(ctx context.Context, s *scope.Scope) error
	waits := func(s *scope.Scope) func(context.Context) error {
		return func(context.Context) error { return s.Wait() }
	}
	// The task waits first in every case that calls settled before it goes on.
	settled := synctest.Wait
	for name, body := range map[string]body{
		"the body waits too": func(_ context.Context, s *scope.Scope) error {
			s.Go("selfish", waits(s))
			return s.Wait()
		},
		"the body waits later": func(_ context.Context, s *scope.Scope) error {
			s.Go("selfish", waits(s))
			settled()
			return s.Wait()
		},
		"the body returns": func(_ context.Context, s *scope.Scope) error {
			s.Go("selfish", waits(s))
			settled()
			return nil
		},
		"the body has returned": func(_ context.Context, s *scope.Scope) error {
			s.Go("selfish", func(context.Context) error {
				time.Sleep(time.Millisecond)
				return s.Wait()
			})
			return nil
		},
		"the body fails": func(_ context.Context, s *scope.Scope) error {
			s.Go("selfish", waits(s))
			settled()
			return errors.New("boom")
		},
		"the body waits for the task": func(_ context.Context, s *scope.Scope) error {
			task := scope.Fork(s, "selfish", func(context.Context) (int, error) { return 0, s.Wait() })
			_, err := task.Wait(context.Background())
			return err
		},
		"through a handle": func(ctx context.Context, s *scope.Scope) error {
			s.Go("selfish", func(ctx context.Context) error { return s.In(ctx).Limit(budget.Within(time.Second)).Wait() })
			return s.Wait()
		},
		"with a limit of its own": func(_ context.Context, s *scope.Scope) error {
			s.Limit(budget.Within(time.Second)).Go("selfish", waits(s))
			return s.Wait()
		},
		"with siblings that go on": func(ctx context.Context, s *scope.Scope) error {
			s.Go("obedient", func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) })
			s.Go("selfish", waits(s))
			return s.Wait()
		},
		"in the body of a scope inside": func(_ context.Context, s *scope.Scope) error {
			s.Go("selfish", func(ctx context.Context) error {
				return scope.Run(ctx, "inner", budget.Inherited(), func(context.Context, *scope.Scope) error { return s.Wait() })
			})
			settled()
			return nil
		},
		"in a task of a scope inside": func(_ context.Context, s *scope.Scope) error {
			s.Go("outer", func(ctx context.Context) error { return nestedIn(ctx, "selfish", waits(s)) })
			settled()
			return nil
		},
		"in a task of a scope inside, after the end": func(_ context.Context, s *scope.Scope) error {
			s.Go("outer", func(ctx context.Context) error { return nestedIn(ctx, "selfish", waits(s)) })
			settled()
			s.Cancel(nil)
			settled()
			return nil
		},
		"in a task of a scope inside a std context": func(_ context.Context, s *scope.Scope) error {
			s.Go("outer", func(ctx context.Context) error {
				ctx, cancel := context.WithCancel(ctx)
				defer cancel()
				return nestedIn(ctx, "selfish", waits(s))
			})
			settled()
			return nil
		},
		"in a task of a scope inside a detached block": func(_ context.Context, s *scope.Scope) error {
			s.Go("outer", func(ctx context.Context) error {
				ctx, cancel := budget.Detached(ctx, time.Minute)
				defer cancel()
				return nestedIn(ctx, "selfish", waits(s))
			})
			settled()
			return nil
		},
		"in a task of a scope inside a shielded context": func(_ context.Context, s *scope.Scope) error {
			s.Go("outer", func(ctx context.Context) error {
				return nestedIn(context.WithoutCancel(ctx), "selfish", waits(s))
			})
			settled()
			return nil
		},
		"three scopes down": func(_ context.Context, s *scope.Scope) error {
			s.Go("outer", func(ctx context.Context) error {
				return nestedIn(ctx, "middle", func(ctx context.Context) error {
					return nestedIn(ctx, "selfish", waits(s))
				})
			})
			settled()
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, _ := quiet()
				v := recovered(func() {
					scope.Run(ctx, "shop", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
						return body(ctx, s)
					})
				})
				pe, ok := v.(*scope.PanicError)
				require.True(t, ok, "%T %v", v, v)
				assert.Contains(t, fmt.Sprint(pe.Value), `"selfish"`)
				assert.Contains(t, fmt.Sprint(pe.Value), "waits for its own scope")
			})
		})
	}
}

// TestATaskThatWaitsWhileTheBodyUnwindsPanics: a body that panics or calls
// Goexit does not leave a task behind that waits for itself.
func TestATaskThatWaitsWhileTheBodyUnwindsPanics(t *testing.T) {
	for name, unwind := range map[string]func(){
		"panic":  func() { panic("body") },
		"Goexit": runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, reports := quiet()
				done := make(chan struct{})
				go func() {
					defer close(done)
					defer func() { _ = recover() }()
					scope.Run(ctx, "shop", budget.Within(time.Hour), func(_ context.Context, s *scope.Scope) error {
						s.Go("selfish", func(context.Context) error { return s.Wait() })
						synctest.Wait()
						unwind()
						return nil
					})
				}()
				<-done
				require.Len(t, reports(), 1)
				assert.Contains(t, fmt.Sprint(reports()[0].Value), `"selfish"`)
			})
		})
	}
}

// TestATaskThatWaitsForItselfPanicsWithItsName: Task.Wait, from inside the task.
func TestATaskThatWaitsForItselfPanicsWithItsName(t *testing.T) {
	type task = *scope.Task[int]
	for name, wait := range map[string]func(ctx, body context.Context, self task) error{
		"on its own context": func(ctx, _ context.Context, self task) error {
			_, err := self.Wait(ctx)
			return err
		},
		"on a context with a value": func(ctx, _ context.Context, self task) error {
			_, err := self.Wait(context.WithValue(ctx, spanKey{}, "v"))
			return err
		},
		"in a scope inside": func(ctx, _ context.Context, self task) error {
			return nestedIn(ctx, "inner", func(ctx context.Context) error {
				_, err := self.Wait(ctx)
				return err
			})
		},
		"on the background": func(_, _ context.Context, self task) error {
			_, err := self.Wait(context.Background())
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				trace, _ := quiet()
				start := time.Now()
				v := recovered(func() {
					scope.Run(trace, "shop", budget.Within(time.Hour), func(body context.Context, s *scope.Scope) error {
						self := make(chan task, 1)
						self <- scope.Fork(s, "selfish", func(ctx context.Context) (int, error) {
							return 0, wait(ctx, body, <-self)
						})
						return s.Wait()
					})
				})
				pe, ok := v.(*scope.PanicError)
				require.True(t, ok, "%T %v", v, v)
				assert.Contains(t, fmt.Sprint(pe.Value), `"selfish" waits for itself`)
				assert.Zero(t, time.Since(start), "it does not wait for the deadline")
			})
		})
	}
}

// TestManyMayWaitForAScope: only a task that waits for its own scope is wrong;
// the body, outsiders, and tasks of other scopes are not.
func TestManyMayWaitForAScope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		err := scope.Run(t.Context(), "other", budget.Within(time.Hour), func(ctx context.Context, other *scope.Scope) error {
			return scope.Run(ctx, "shop", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
				for i := range 3 {
					s.Go(fmt.Sprint("task-", i), func(context.Context) error { <-release; return nil })
					other.Go(fmt.Sprint("waits-", i), func(context.Context) error { return s.Wait() })
				}
				outsiders := make(chan error, 3)
				for range 3 {
					go func() { outsiders <- s.Wait() }()
				}
				synctest.Wait()
				go func() { synctest.Wait(); close(release) }()
				err := s.Wait()
				for range 3 {
					assert.NoError(t, <-outsiders)
				}
				return err
			})
		})
		assert.NoError(t, err)
	})
}

// TestABodyInsideATaskMayWaitForItsOwnScope: the body of an inner scope runs on
// the goroutine of a task, of the outer scope.
func TestABodyInsideATaskMayWaitForItsOwnScope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		err := scope.Run(t.Context(), "outer", budget.Within(time.Hour), func(ctx context.Context, outer *scope.Scope) error {
			outer.Go("task", func(ctx context.Context) error {
				return scope.Run(ctx, "inner", budget.Inherited(), func(ctx context.Context, inner *scope.Scope) error {
					inner.Go("slow", func(context.Context) error { time.Sleep(time.Second); return nil })
					go inner.Wait() // a second waiter makes everybody look at their stacks
					synctest.Wait()
					return inner.Wait()
				})
			})
			return outer.Wait()
		})
		assert.NoError(t, err)
	})
}
