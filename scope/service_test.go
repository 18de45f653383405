package scope_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
)

func TestCase43_ServicesEndAfterTheBodyAndAllOtherTasks(t *testing.T) {
	boom := errors.New("boom")
	for name, body := range map[string]func(ctx context.Context, s *scope.Scope) error{
		"success": func(context.Context, *scope.Scope) error { return nil },
		"failure": func(context.Context, *scope.Scope) error { return boom },
		"cancel":  func(_ context.Context, s *scope.Scope) error { s.Cancel(nil); return nil },
		"deadline": func(ctx context.Context, _ *scope.Scope) error {
			<-ctx.Done()
			return context.Cause(ctx)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var order []string
				ended := func(who string) {
					mu.Lock()
					defer mu.Unlock()
					order = append(order, who)
				}
				err := scope.Run(t.Context(), "shop", budget.Within(time.Minute), func(ctx context.Context, s *scope.Scope) error {
					s.Cleanup("cleanup", func(context.Context) error { ended("cleanup"); return nil })
					s.Service().Go("writer", func(ctx context.Context) error {
						left, ok := budget.Remaining(ctx)
						assert.True(t, ok && left > 0 && left <= time.Minute, "it reports the scope's deadline")
						<-ctx.Done()
						ended("service")
						assert.Equal(t, budget.Closed, budget.KindOf(context.Cause(ctx)))
						return ctx.Err()
					})
					s.Go("task", func(ctx context.Context) error {
						if name == "success" {
							time.Sleep(time.Second)
						} else {
							<-ctx.Done()
							time.Sleep(time.Second) // it takes a moment, in which it needs the writer
						}
						ended("task")
						return nil
					})
					err := body(ctx, s)
					ended("body")
					return err
				})
				assert.Equal(t, []string{"body", "task", "service", "cleanup"}, order)
				switch name {
				case "success", "cancel":
					assert.NoError(t, err, "a service that was told to end has not failed")
				case "failure":
					assert.ErrorIs(t, err, boom)
				case "deadline":
					assert.ErrorIs(t, err, context.DeadlineExceeded)
				}
				if e := (*scope.Error)(nil); errors.As(err, &e) {
					assert.Len(t, append(e.Failures, e.Late...), 1, "the service is not among them")
				}
			})
		})
	}
}

func TestAServiceThatFailsEarlyFailsTheScope(t *testing.T) {
	boom := errors.New("boom")
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		err := scope.Run(t.Context(), "shop", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
			s.Service().Go("writer", func(context.Context) error { time.Sleep(time.Second); return boom })
			s.Service().Go("done early", func(context.Context) error { return nil })
			<-ctx.Done()
			return nil
		})
		assert.ErrorIs(t, err, boom)
		assert.ErrorContains(t, err, `"writer"`)
		assert.Equal(t, time.Second, time.Since(start))
	})
}

// TestServicesMayWorkToTheEnd: what a service does while it ends is awaited, also
// tasks and services that it starts.
func TestServicesMayWorkToTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended []string
		require.NoError(t, scope.Run(t.Context(), "shop", budget.Within(time.Hour), func(_ context.Context, s *scope.Scope) error {
			s.Service().Go("first", func(ctx context.Context) error {
				<-ctx.Done()
				s.Go("flush", func(context.Context) error {
					time.Sleep(time.Second)
					ended = append(ended, "flush")
					return nil
				})
				s.Service().Go("second", func(ctx context.Context) error { // needed until flush has ended
					<-ctx.Done()
					ended = append(ended, "second")
					return nil
				})
				return context.Cause(ctx)
			})
			return nil
		}))
		assert.Equal(t, []string{"flush", "second"}, ended)
	})
}

func TestWaitDoesNotWaitForServices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		require.NoError(t, scope.Run(t.Context(), "shop", budget.Within(time.Hour), func(_ context.Context, s *scope.Scope) error {
			s.Service().Go("writer", func(ctx context.Context) error { <-ctx.Done(); return nil })
			s.Go("task", func(context.Context) error { time.Sleep(time.Second); return nil })
			require.NoError(t, s.Wait())
			assert.Equal(t, time.Second, time.Since(start))
			assert.Equal(t, 1, s.Stats().Live)
			return nil
		}))
		assert.Equal(t, time.Second, time.Since(start))
	})
}

func TestStartHandsOverWhatTheTaskIsReadyWith(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		require.NoError(t, scope.Run(t.Context(), "shop", budget.Within(time.Hour), func(_ context.Context, s *scope.Scope) error {
			addr, err := scope.Start(s.Service(), "listener", func(ctx context.Context, ready func(string)) error {
				time.Sleep(time.Second)
				ready("127.0.0.1:80")
				ready("only the first counts")
				<-ctx.Done()
				return context.Cause(ctx)
			})
			require.NoError(t, err)
			assert.Equal(t, "127.0.0.1:80", addr)
			assert.Equal(t, time.Second, time.Since(start))
			return nil
		}))
	})
}

func TestCase42_AHandshakeIntoADyingScopeDoesNotHang(t *testing.T) {
	boom := errors.New("boom")
	t.Run("the scope fails before", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			joined := false
			err := scope.Run(t.Context(), "shop", budget.Within(time.Hour), func(_ context.Context, s *scope.Scope) error {
				s.Go("fails", func(context.Context) error { time.Sleep(time.Second); return boom })
				_, err := scope.Start(s, "slow", func(ctx context.Context, _ func(int)) error {
					<-ctx.Done()
					time.Sleep(time.Second)
					joined = true
					return context.Cause(ctx)
				})
				assert.Equal(t, budget.SiblingFailed, budget.KindOf(err))
				assert.ErrorIs(t, err, boom)
				assert.Equal(t, time.Second, time.Since(start), "at once")
				return err
			})
			assert.ErrorIs(t, err, boom)
			assert.True(t, joined)
		})
	})
	t.Run("the scope is over its end already", func(t *testing.T) {
		scope.Run(t.Context(), "shop", budget.Within(time.Hour), func(_ context.Context, s *scope.Scope) error {
			s.Cancel(boom)
			_, err := scope.Start(s, "skipped", func(context.Context, func(int)) error { t.Error("it ran"); return nil })
			assert.ErrorIs(t, err, boom)
			return nil
		})
	})
	for name, c := range map[string]struct {
		returns error
		is      error
	}{
		"it fails before":            {boom, boom},
		"it ends well without ready": {nil, scope.ErrNotReady},
	} {
		t.Run(name, func(t *testing.T) {
			scope.Run(t.Context(), "shop", budget.Within(time.Hour), func(_ context.Context, s *scope.Scope) error {
				_, err := scope.Start(s, "early", func(context.Context, func(int)) error { return c.returns })
				assert.ErrorIs(t, err, c.is)
				return nil
			})
		})
	}
}

func TestRestartStartsAgainWithABackoffThatGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		boom := errors.New("boom")
		var waits []time.Duration
		ctx := scope.WithTrace(t.Context(), &scope.Trace{TaskRestarted: func(_, task string, err error, wait time.Duration) {
			assert.Equal(t, "flaky", task)
			assert.Equal(t, boom, err)
			waits = append(waits, wait)
		}})
		runs := 0
		require.NoError(t, scope.Run(ctx, "shop", budget.Within(time.Hour), func(_ context.Context, s *scope.Scope) error {
			s.Restart(scope.Backoff{First: time.Second, Max: 8 * time.Second}).Go("flaky", func(context.Context) error {
				if runs++; runs <= 10 {
					return boom
				}
				return nil
			})
			return nil
		}))
		assert.Equal(t, 11, runs)
		require.Len(t, waits, 10)
		for i, w := range waits {
			assert.LessOrEqual(t, w, min(time.Second<<i, 8*time.Second), "wait %d", i)
		}
	})
}

func TestRestartGivesUpAndForgives(t *testing.T) {
	boom := errors.New("boom")
	b := scope.Backoff{First: time.Millisecond, Max: time.Second, Tries: 3}
	t.Run("gives up after three in a row", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			runs := 0
			err := scope.Run(t.Context(), "shop", budget.Within(time.Hour), func(_ context.Context, s *scope.Scope) error {
				s.Restart(b).Go("flaky", func(context.Context) error { runs++; return fmt.Errorf("run %d: %w", runs, boom) })
				return nil
			})
			assert.ErrorIs(t, err, boom)
			assert.ErrorContains(t, err, "run 3")
			assert.Equal(t, 3, runs)
		})
	})
	t.Run("forgives after a long run", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			runs := 0
			require.NoError(t, scope.Run(t.Context(), "shop", budget.Within(time.Hour), func(_ context.Context, s *scope.Scope) error {
				s.Restart(b).Go("flaky", func(context.Context) error {
					if runs++; runs == 20 {
						return nil
					}
					if runs%2 == 0 {
						time.Sleep(time.Second)
					}
					return boom
				})
				return nil
			}))
		})
	})
	t.Run("ends with its scope", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			require.NoError(t, scope.Run(t.Context(), "shop", budget.Within(time.Hour), func(_ context.Context, s *scope.Scope) error {
				s.Service().Restart(scope.Backoff{First: time.Minute, Max: time.Hour}).Go("flaky", func(context.Context) error { return boom })
				time.Sleep(time.Millisecond)
				return nil
			}), "what a service waits for is not waited for")
			assert.Equal(t, time.Millisecond, time.Since(start))
		})
	})
	t.Run("does not survive a panic", func(t *testing.T) {
		ctx, _ := quiet()
		runs := 0
		v := recovered(func() {
			scope.Run(ctx, "shop", budget.Within(time.Hour), func(_ context.Context, s *scope.Scope) error {
				s.Restart(b).Go("flaky", func(context.Context) error { runs++; return explode("ouch") })
				return nil
			})
		})
		assert.IsType(t, (*scope.PanicError)(nil), v)
		assert.Equal(t, 1, runs)
	})
	t.Run("refuses nonsense", func(t *testing.T) {
		scope.Run(t.Context(), "shop", budget.Within(time.Hour), func(_ context.Context, s *scope.Scope) error {
			for _, bad := range []scope.Backoff{{First: -1}, {Max: -1}, {Tries: -1}, {First: 2, Max: 1}} {
				assert.Contains(t, recovered(func() { s.Restart(bad) }), "Restart")
			}
			return nil
		})
	})
}
