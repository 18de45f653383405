package scope_test

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
)

// TestCase22_AnOuterExpirySeenInsideIsTheOuters: the inner limit is longer, the
// outer time runs out first; a loop of inner attempts stops and blames the outer.
func TestCase22_AnOuterExpirySeenInsideIsTheOuters(t *testing.T) {
	for name, outer := range map[string]struct {
		enter func(context.Context) (context.Context, context.CancelFunc)
		limit budget.Limit
		named string
	}{
		"a scope's": {func(ctx context.Context) (context.Context, context.CancelFunc) { return ctx, func() {} },
			budget.Within(5500 * time.Millisecond).Named("request"), "request"},
		"a std context's": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 5500*time.Millisecond)
		}, budget.Within(time.Hour), "parent deadline"},
		"a budget's": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel, _ := budget.Enter(ctx, budget.Within(5500*time.Millisecond).Named("edge"))
			return ctx, cancel
		}, budget.Inherited(), "edge"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := outer.enter(t.Context())
				defer cancel()
				start := time.Now()
				attempts := 0
				err := scope.Run(ctx, "outer", outer.limit, func(ctx context.Context, _ *scope.Scope) error {
					for {
						attempts++
						err := scope.Run(ctx, "inner", budget.Within(time.Second).Named("attempt"), func(ctx context.Context, s *scope.Scope) error {
							s.Go("call", obedient)
							return s.Wait()
						})
						require.Equal(t, budget.DeadlineExceeded, budget.KindOf(err))
						var e *scope.Error
						require.ErrorAs(t, err, &e)
						if attempts <= 5 {
							assert.Contains(t, e.Cause.Scope, "outer/inner", "its own second ran out")
							assert.Contains(t, e.Cause.Limit, "attempt")
							assert.NoError(t, ctx.Err())
							continue
						}
						assert.Contains(t, e.Cause.Limit, outer.named)
						assert.NotContains(t, e.Cause.Limit, "attempt", "the attempt's limit was not the one")
						assert.Same(t, context.Cause(ctx), e.Cause, "one event, one cause")
						return context.Cause(ctx)
					}
				})
				assert.Equal(t, 6, attempts)
				assert.Equal(t, 5500*time.Millisecond, time.Since(start))
				assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err))
				assert.ErrorContains(t, err, outer.named)
			})
		})
	}
}

// TestCase24_AnInnerEndDoesNotSwallowTheOuters: the outer is cancelled while
// the inner is already ending for a reason of its own. The inner keeps its
// verdict, and the outer ends as cancelled all the same.
func TestCase24_AnInnerEndDoesNotSwallowTheOuters(t *testing.T) {
	boom := errors.New("boom")
	for name, c := range map[string]struct {
		inner budget.Limit
		end   func(s *scope.Scope)
		kind  budget.Kind
		is    error
	}{
		"failure":  {budget.Inherited(), func(s *scope.Scope) { s.Go("bad", func(context.Context) error { return boom }) }, budget.Failed, boom},
		"cancel":   {budget.Inherited(), func(s *scope.Scope) { s.Cancel(boom) }, budget.Cancelled, boom},
		"deadline": {budget.Within(time.Second), func(*scope.Scope) { time.Sleep(time.Second) }, budget.DeadlineExceeded, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var inner error
				err := scope.Run(t.Context(), "outer", budget.Within(time.Hour), func(ctx context.Context, outer *scope.Scope) error {
					outer.Go("task", func(ctx context.Context) error {
						inner = scope.Run(ctx, "inner", c.inner, func(ctx context.Context, s *scope.Scope) error {
							s.Go("slow to end", func(ctx context.Context) error {
								<-ctx.Done()
								time.Sleep(time.Second) // the outer's cancel comes meanwhile
								return context.Cause(ctx)
							})
							synctest.Wait()
							c.end(s)
							return nil
						})
						return context.Cause(ctx)
					})
					outer.Go("canceller", func(context.Context) error {
						time.Sleep(1500 * time.Millisecond)
						if name != "deadline" {
							return nil // the inner has ended already
						}
						outer.Cancel(errJoin)
						return nil
					})
					if name != "deadline" {
						time.Sleep(500 * time.Millisecond)
						outer.Cancel(errJoin)
					}
					return nil
				})
				assert.Equal(t, c.kind, budget.KindOf(inner), "the inner keeps its own verdict: %v", inner)
				assert.ErrorIs(t, inner, c.is)
				assert.NotErrorIs(t, inner, errJoin)
				assert.Equal(t, budget.Cancelled, budget.KindOf(err), "the outer's cancel is not lost: %v", err)
				assert.ErrorIs(t, err, errJoin)
				assert.NotErrorIs(t, err, context.DeadlineExceeded)
			})
		})
	}
}

// TestEndsAtOnceAreToldApart races an outer cancel with an inner failure: each
// scope has one reason, and the two agree on what ended the inner one.
func TestEndsAtOnceAreToldApart(t *testing.T) {
	boom := errors.New("boom")
	seen := map[budget.Kind]int{}
	for range 5_000 * stress() {
		var inner, seenCause error
		err := scope.Run(t.Context(), "outer", budget.Within(time.Hour), func(ctx context.Context, outer *scope.Scope) error {
			at := startLine(2)
			outer.Go("task", func(ctx context.Context) error {
				inner = scope.Run(ctx, "inner", budget.Inherited(), func(ctx context.Context, s *scope.Scope) error {
					s.Go("bad", func(context.Context) error { at(); return boom })
					<-ctx.Done()
					seenCause = context.Cause(ctx)
					return nil
				})
				return nil
			})
			at()
			outer.Cancel(errJoin)
			return nil
		})
		require.NoError(t, err, "nothing of the outer was cut")
		k := budget.KindOf(inner)
		seen[k]++
		require.ErrorIs(t, inner, boom, "a real failure is never lost")
		switch k {
		case budget.Failed:
			require.NotErrorIs(t, inner, errJoin)
			require.Equal(t, budget.SiblingFailed, budget.KindOf(seenCause))
		case budget.Cancelled:
			require.ErrorIs(t, inner, errJoin)
			require.ErrorIs(t, seenCause, errJoin)
		default:
			t.Fatalf("kind %v", k)
		}
	}
	t.Logf("%v", seen)
	assert.Len(t, seen, 2, "both orders came")
}

// TestAnErrorOfAnOuterContextIsTheOutersEnd: a body that watches the context
// around its scope hears of its end before the scope does, or not, and the
// verdict is the same: the parent ended it. It did not fail.
func TestAnErrorOfAnOuterContextIsTheOutersEnd(t *testing.T) {
	t.Run("a std context", func(t *testing.T) {
		for range 5_000 * stress() {
			outer, cancel := context.WithCancel(t.Context())
			err := scope.Run(outer, "shop", budget.Within(time.Hour), func(context.Context, *scope.Scope) error {
				go cancel()
				<-outer.Done()
				return outer.Err()
			})
			require.Equal(t, budget.ParentCancelled, budget.KindOf(err), "%v", err)
		}
	})
	t.Run("a scope", func(t *testing.T) {
		for range 5_000 * stress() {
			_ = scope.Run(t.Context(), "outer", budget.Within(time.Hour), func(outer context.Context, o *scope.Scope) error {
				o.Go("task", func(ctx context.Context) error {
					err := scope.Run(ctx, "inner", budget.Inherited(), func(_ context.Context, s *scope.Scope) error {
						s.Go("deeper", func(ctx context.Context) error {
							return scope.Run(ctx, "innermost", budget.Inherited(), func(context.Context, *scope.Scope) error {
								<-outer.Done()
								return outer.Err()
							})
						})
						<-outer.Done()
						return outer.Err()
					})
					assert.Equal(t, budget.Cancelled, budget.KindOf(err), "%v", err)
					return err
				})
				o.Cancel(nil)
				return nil
			})
			if t.Failed() {
				return
			}
		}
	})
}

// TestCase26_AnExpiredScopeStartsNothing: neither the body nor a task runs, and
// the answer is there at once.
func TestCase26_AnExpiredScopeStartsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		expired, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
		defer cancel()
		passing, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		left, _, err := budget.Enter(t.Context(), budget.Within(time.Minute))
		require.NoError(t, err)
		for name, c := range map[string]struct {
			ctx   context.Context
			limit budget.Limit
			kind  budget.Kind
			is    error
		}{
			"a limit of zero":              {t.Context(), budget.Within(0), budget.ExpiredOnArrival, context.DeadlineExceeded},
			"a negative limit":             {t.Context(), budget.Within(-time.Second), budget.ExpiredOnArrival, context.DeadlineExceeded},
			"a time in the past":           {t.Context(), budget.Until(time.Now().Add(-time.Nanosecond)), budget.ExpiredOnArrival, context.DeadlineExceeded},
			"this instant":                 {t.Context(), budget.Until(time.Now()), budget.ExpiredOnArrival, context.DeadlineExceeded},
			"the zero time":                {t.Context(), budget.Until(time.Time{}), budget.ExpiredOnArrival, context.DeadlineExceeded},
			"a parent that has expired":    {expired, budget.Within(time.Hour), budget.ExpiredOnArrival, context.DeadlineExceeded},
			"inherited from it":            {expired, budget.Inherited(), budget.ExpiredOnArrival, context.DeadlineExceeded},
			"a parent that was cancelled":  {cancelled, budget.Within(time.Hour), budget.ParentCancelled, context.Canceled},
			"less than it requires":        {passing, budget.Inherited().Require(2 * time.Second), budget.LocalBudgetRejected, context.DeadlineExceeded},
			"less than the reserve":        {passing, budget.Inherited().Reserve(time.Second), budget.LocalBudgetRejected, context.DeadlineExceeded},
			"less than the cleanup":        {passing, budget.Inherited().Cleanup(time.Second), budget.LocalBudgetRejected, context.DeadlineExceeded},
			"too little for all of them":   {left, budget.Inherited().Reserve(30 * time.Second).Cleanup(30 * time.Second), budget.LocalBudgetRejected, context.DeadlineExceeded},
			"nothing to inherit":           {t.Context(), budget.Inherited(), budget.Failed, budget.ErrNoDeadline},
			"nothing to inherit, reserved": {t.Context(), budget.Inherited().Reserve(time.Second), budget.Failed, budget.ErrNoDeadline},
		} {
			start := time.Now()
			var value int
			value, err := scope.RunValue(c.ctx, "shop", c.limit, func(context.Context, *scope.Scope) (int, error) {
				t.Errorf("%s: the body ran", name)
				return 1, nil
			})
			assert.Zero(t, time.Since(start), name)
			assert.Zero(t, value, name)
			var e *scope.Error
			require.ErrorAs(t, err, &e, name)
			assert.Equal(t, c.kind, e.Cause.Kind, name)
			assert.ErrorIs(t, err, c.is, name)
			assert.Equal(t, "shop", e.Scope, name)
			assert.Contains(t, e.Error(), "shop", name)
		}
	})
}

// TestCase27_ALimitCountsFromEntry: built early, entered late, it is full.
func TestCase27_ALimitCountsFromEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		five := budget.Within(5 * time.Second)
		time.Sleep(5 * time.Second)
		for range 2 { // and it can be used again
			err := scope.Run(t.Context(), "shop", five, func(ctx context.Context, s *scope.Scope) error {
				left, ok := budget.Remaining(ctx)
				assert.True(t, ok)
				assert.Equal(t, 5*time.Second, left)
				limited := s.Limit(budget.Within(time.Second)) // a handle, built early too
				time.Sleep(2 * time.Second)
				limited.Go("task", func(ctx context.Context) error {
					left, _ := budget.Remaining(ctx)
					assert.Equal(t, time.Second, left)
					return nil
				})
				task := scope.Fork(limited, "fork", func(ctx context.Context) (time.Duration, error) {
					left, _ := budget.Remaining(ctx)
					return left, nil
				})
				require.NoError(t, s.Wait())
				assert.Equal(t, time.Second, task.Value())
				return nil
			})
			assert.NoError(t, err)
		}
	})
}

// TestCase31_AShieldIsAFixedRegion: an outer cancel inside it does not reach
// it, the region ends clean, and the outer ends as cancelled.
func TestCase31_AShieldIsAFixedRegion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		committed := false
		err := scope.Run(t.Context(), "order", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
			s.Go("commit", func(ctx context.Context) error {
				err := func() error {
					shielded, done := budget.Detached(ctx, time.Minute)
					defer done()
					// Made inside, and so inside the shield.
					return scope.Run(shielded, "critical", budget.Inherited(), func(ctx context.Context, s *scope.Scope) error {
						s.Go("write", func(ctx context.Context) error {
							select {
							case <-time.After(2 * time.Second):
								committed = true
								return nil
							case <-ctx.Done():
								return context.Cause(ctx)
							}
						})
						return s.Wait()
					})
				}()
				assert.NoError(t, err, "the region ends clean")
				assert.Error(t, ctx.Err(), "right after it the outer's end is seen")
				return context.Cause(ctx)
			})
			s.Go("canceller", func(context.Context) error {
				time.Sleep(time.Second)
				s.Cancel(errJoin)
				return nil
			})
			return nil
		})
		assert.True(t, committed)
		assert.Equal(t, budget.Cancelled, budget.KindOf(err))
		assert.ErrorIs(t, err, errJoin)
	})
	synctest.Test(t, func(t *testing.T) { // an explicit cancel of what is inside still works
		err := scope.Run(t.Context(), "order", budget.Within(time.Hour), func(ctx context.Context, _ *scope.Scope) error {
			shielded, done := budget.Detached(ctx, time.Minute)
			defer done()
			inner := scope.Run(shielded, "critical", budget.Inherited(), func(ctx context.Context, s *scope.Scope) error {
				s.Go("task", obedient)
				s.Cancel(errJoin)
				return nil
			})
			assert.ErrorIs(t, inner, errJoin)
			assert.NoError(t, ctx.Err(), "and stays inside")
			return nil
		})
		assert.NoError(t, err)
	})
}

// TestCase32_WaitingForAShieldedTaskCostsNoProcessor: an hour in a bubble would
// show any polling, and a spin would never let it pass.
func TestCase32_WaitingForAShieldedTaskCostsNoProcessor(t *testing.T) {
	cpu := func() time.Duration {
		var u syscall.Rusage
		require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	for name, end := range map[string]func(*scope.Scope){
		"cancel": func(s *scope.Scope) { s.Cancel(nil) },
		"panic":  func(s *scope.Scope) { s.Go("bad", func(context.Context) error { return explode("ouch") }) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, _ := quiet()
				start, before := time.Now(), cpu()
				_ = recovered(func() {
					_ = scope.Run(ctx, "order", budget.Within(time.Second), func(ctx context.Context, s *scope.Scope) error {
						for i := range 8 {
							s.Go(fmt.Sprint("shielded-", i), func(ctx context.Context) error {
								ctx, done := budget.Detached(ctx, 2*time.Hour)
								defer done()
								select {
								case <-time.After(time.Hour):
								case <-ctx.Done():
								}
								return nil
							})
						}
						synctest.Wait()
						end(s)
						return s.Wait()
					})
				})
				assert.Equal(t, time.Hour, time.Since(start))
				used := cpu() - before
				t.Logf("%v of processor time for an hour", used)
				assert.Less(t, used, 5*time.Second, "5 ms a second would be 18 s")
			})
		})
	}
}
