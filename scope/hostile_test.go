package scope_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
)

// What users' errors and functions do must not keep a scope from ending.

type panickingError struct{}

func (panickingError) Error() string   { return "panics when compared" }
func (panickingError) Is(error) bool   { panic("Is") }
func (panickingError) Unwrap() []error { panic("Unwrap") }

type curiousError struct{ s *scope.Scope }

func (e curiousError) Error() string { return "calls back" }
func (e curiousError) Is(error) bool { return e.s.Stats().Live < 0 }

type uncomparableInside struct{ v any }

func (uncomparableInside) Error() string { return "comparable by type, not by value" }

func TestErrorsOfUsersDoNotKeepAScopeFromEnding(t *testing.T) {
	for name, make := range map[string]func(*scope.Scope) error{
		"typed nil verdict":    func(*scope.Scope) error { var e *scope.Error; return e },
		"typed nil cause":      func(*scope.Scope) error { var c *budget.Cause; return c },
		"Is panics":            func(*scope.Scope) error { return panickingError{} },
		"Is calls the scope":   func(s *scope.Scope) error { return curiousError{s} },
		"comparison panics":    func(*scope.Scope) error { return uncomparableInside{[]int{1}} },
		"wrapped, Is panics":   func(*scope.Scope) error { return fmt.Errorf("w: %w", panickingError{}) },
		"two of them, wrapped": func(s *scope.Scope) error { return errors.Join(curiousError{s}, uncomparableInside{[]int{1}}) },
	} {
		for _, cancelled := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, cancelled %t", name, cancelled), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					err := scope.Run(t.Context(), "page", budget.Within(time.Minute), func(ctx context.Context, s *scope.Scope) error {
						bad := scope.Fork(s, "bad", func(ctx context.Context) (int, error) {
							if cancelled {
								<-ctx.Done()
							}
							return 0, make(s)
						})
						if cancelled {
							s.Cancel(nil)
						}
						_, err := bad.Wait(t.Context())
						return err
					})
					var e *scope.Error
					require.ErrorAs(t, err, &e)
					assert.NotEmpty(t, err.Error())
				})
			})
		}
	}
}

// TestNestedVerdictsAreSearchedInLinearTime would take hours at this depth if
// each level searched the one below twice.
func TestNestedVerdictsAreSearchedInLinearTime(t *testing.T) {
	leaf := errors.New("leaf")
	const depth = 60
	for name, pass := range map[string]func(s *scope.Scope, inner func(context.Context) error) error{
		"the body returns it": func(s *scope.Scope, inner func(context.Context) error) error {
			return inner(t.Context())
		},
		"a task returns it": func(s *scope.Scope, inner func(context.Context) error) error {
			s.Go("task", inner)
			return nil
		},
		"the body wraps what Scope.Wait returned": func(s *scope.Scope, inner func(context.Context) error) error {
			s.Go("task", inner)
			return fmt.Errorf("load: %w", s.Wait())
		},
		"the body wraps what Task.Wait returned": func(s *scope.Scope, inner func(context.Context) error) error {
			k := scope.Fork(s, "task", func(ctx context.Context) (int, error) { return 0, fmt.Errorf("task: %w", inner(ctx)) })
			_, err := k.Wait(t.Context())
			return fmt.Errorf("load: %w", err)
		},
		"siblings return the cause": func(s *scope.Scope, inner func(context.Context) error) error {
			for range 3 {
				s.Go("sibling", obedient)
			}
			s.Go("task", inner)
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			run := func(context.Context) error { return leaf }
			for range depth {
				inner := run
				run = func(context.Context) error {
					return scope.Run(t.Context(), "level", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
						return pass(s, inner)
					})
				}
			}
			err := run(t.Context())
			assert.ErrorIs(t, err, leaf)
			assert.NotErrorIs(t, err, io.EOF)
			assert.NotErrorIs(t, err, context.Canceled)
			var pe *scope.PanicError
			assert.False(t, errors.As(err, &pe))
			assert.Equal(t, budget.Failed, budget.KindOf(err))
			assert.Less(t, len(err.Error()), 5<<10)
		})
	}
}

func TestAVerdictOfManyFailuresHasAShortText(t *testing.T) {
	const n = 20_000
	err := scope.Run(t.Context(), "page", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
		for i := range n {
			s.Go("task", func(ctx context.Context) error {
				<-ctx.Done()
				return fmt.Errorf("failure %d", i)
			})
		}
		return errors.New("first")
	})
	var e *scope.Error
	require.ErrorAs(t, err, &e)
	assert.Len(t, e.Late, n)
	assert.Less(t, len(err.Error()), 1<<10)
	assert.Contains(t, err.Error(), "more errors")
}

func TestALimitOfATaskIsNamedAlsoWhenTheTaskReturnsCtxErr(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sibling error
		err := scope.Run(t.Context(), "page", budget.Within(time.Minute).Named("route"), func(ctx context.Context, s *scope.Scope) error {
			s.Limit(budget.Within(time.Second).Named("price limit")).Go("price", func(ctx context.Context) error {
				<-ctx.Done()
				return ctx.Err()
			})
			<-ctx.Done()
			sibling = context.Cause(ctx)
			return nil
		})
		assert.EqualError(t, err, `scope: page: task "price": context deadline exceeded (limit price limit 1s < route 1m0s)`)
		assert.ErrorContains(t, sibling, "price limit 1s < route 1m0s")
		assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err))
	})
}

func TestHandmadePanicErrorsAreValuesLikeOthers(t *testing.T) {
	for _, value := range []*scope.PanicError{nil, {Task: "made", Value: "by hand"}} {
		ctx, seen := quiet()
		v := recovered(func() {
			scope.Run(ctx, "page", budget.Within(time.Minute), func(ctx context.Context, s *scope.Scope) error {
				s.Go("bad", func(context.Context) error { panic(value) })
				return nil
			})
		})
		pe, ok := v.(*scope.PanicError)
		require.True(t, ok)
		assert.Equal(t, "page/bad", pe.Task)
		assert.Equal(t, value, pe.Value)
		assert.NotEmpty(t, pe.Stack)
		assert.NotEmpty(t, pe.Error())
		assert.Len(t, seen(), 1)
	}
}

func TestAReportThatEndsItsGoroutineDoesNotKeepTheScope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sibling atomic.Bool
		ctx := scope.WithTrace(t.Context(), &scope.Trace{TaskPanicked: func(*scope.PanicError) {
			time.Sleep(time.Second)
			assert.True(t, sibling.Load(), "siblings are cancelled before anybody is told")
			goexit()
		}})
		v := recovered(func() {
			scope.Run(ctx, "page", budget.Within(time.Minute), func(ctx context.Context, s *scope.Scope) error {
				s.Go("sibling", func(ctx context.Context) error { <-ctx.Done(); sibling.Store(true); return nil })
				s.Go("bad", func(context.Context) error { return explode("ouch") })
				return nil
			})
		})
		assert.IsType(t, &scope.PanicError{}, v)
	})
}

// TestABodysPanicOverADeafTaskIsFinishedLater is what net/http does to a
// handler: it recovers and goes on.
func TestABodysPanicOverADeafTaskIsFinishedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var kept *scope.Scope
		var inner context.Context
		cleaned := false
		start := time.Now()
		v := recovered(func() {
			scope.Run(t.Context(), "page", budget.Within(time.Second), func(ctx context.Context, s *scope.Scope) error {
				kept, inner = s, ctx
				s.Cleanup("unlock", func(context.Context) error { cleaned = true; return nil })
				s.Go("deaf", func(context.Context) error { <-release; return nil })
				return explode("body")
			})
		})
		assert.Equal(t, "body", v)
		assert.Equal(t, 1100*time.Millisecond, time.Since(start), "a straggler's grace after the deadline")
		assert.Equal(t, 1, kept.Stats().Orphans)
		assert.False(t, cleaned, "not under a task that still runs")
		close(release)
		synctest.Wait()
		assert.True(t, cleaned)
		assert.Zero(t, kept.Stats().Orphans)
		assert.Error(t, inner.Err())
	})
}

func TestWaitsForOneselfAreFoundWhateverTheContext(t *testing.T) {
	wait := func(k **scope.Task[int], ctx context.Context) { (*k).Wait(ctx) }
	for name, task := range map[string]func(ctx context.Context, s *scope.Scope, k **scope.Task[int]){
		"Task.Wait under Background": func(_ context.Context, _ *scope.Scope, k **scope.Task[int]) { wait(k, context.Background()) },
		"Task.Wait under the body's": func(ctx context.Context, s *scope.Scope, k **scope.Task[int]) {
			wait(k, ctx.Value(bodyKey{}).(context.Context))
		},
		"Task.Wait under its own": func(ctx context.Context, _ *scope.Scope, k **scope.Task[int]) { wait(k, ctx) },
		"Scope.Wait in a task of a scope behind a std context": func(ctx context.Context, s *scope.Scope, _ **scope.Task[int]) {
			ctx, cancel := context.WithTimeout(ctx, time.Hour)
			defer cancel()
			scope.Run(ctx, "inner", budget.Inherited(), func(ctx context.Context, in *scope.Scope) error {
				in.Go("leaf", func(context.Context) error { return s.Wait() })
				return nil
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, _ := quiet()
				v := recovered(func() {
					scope.Run(ctx, "page", budget.Within(time.Hour), func(body context.Context, s *scope.Scope) error {
						var k *scope.Task[int]
						known := make(chan struct{})
						k = scope.Fork(s, "task", func(ctx context.Context) (int, error) {
							<-known
							task(context.WithValue(ctx, bodyKey{}, body), s, &k)
							return 0, nil
						})
						close(known)
						return nil
					})
				})
				pe, ok := v.(*scope.PanicError)
				require.True(t, ok, "%v", v)
				assert.Contains(t, fmt.Sprint(pe.Value), "waits for i")
			})
		})
	}
}

type bodyKey struct{}

func TestATaskOfTheScopeWaitsForItWhileTheBodyWaitsForTheTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, _ := quiet()
		v := recovered(func() {
			scope.Run(ctx, "page", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
				k := scope.Fork(s, "task", func(context.Context) (int, error) { return 0, s.Wait() })
				synctest.Wait()
				_, err := k.Wait(context.Background())
				return err
			})
		})
		pe, ok := v.(*scope.PanicError)
		require.True(t, ok, "%v", v)
		assert.Contains(t, fmt.Sprint(pe.Value), `task "task" waits for its own scope`)
	})
}

func TestWaitingForWhoDoesNotWaitForMeIsNoMistake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		err := scope.Run(t.Context(), "page", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
			var a *scope.Task[int]
			known := make(chan struct{})
			a = scope.Fork(s, "a", func(ctx context.Context) (int, error) {
				<-known
				// b has a's context, but a does not wait for b.
				s.In(ctx).Limit(budget.Within(time.Minute)).Go("b", func(ctx context.Context) error {
					_, err := a.Wait(ctx)
					return err
				})
				detached, cancel := budget.Detached(ctx, time.Minute)
				go func() {
					defer cancel()
					a.Wait(detached)
				}()
				time.Sleep(time.Second)
				return 1, nil
			})
			close(known)
			return s.Wait()
		})
		assert.NoError(t, err)
	})
}
