package scope_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/stress"
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
	for range stress.Rounds(5_000) {
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
		for range stress.Rounds(5_000) {
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
		for range stress.Rounds(5_000) {
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
