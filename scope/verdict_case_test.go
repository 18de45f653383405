package scope_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/stress"
	"github.com/curfew-go/curfew/scope"
)

// obedient is a task that ends with its context's cause when that ends.
func obedient(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// namesOf lists whose errors they are.
func namesOf(errs []error) (names []string) {
	for _, err := range errs {
		var te *scope.TaskError
		if errors.As(err, &te) {
			names = append(names, te.Task)
		}
	}
	return names
}

// TestCase11_ManyOutcomesNeitherHangNorGetLost: 1 000 tasks, some fail, some
// succeed, and with a deadline in between obedient ones do not make it success.
func TestCase11_ManyOutcomesNeitherHangNorGetLost(t *testing.T) {
	const n = 1_000
	for name, c := range map[string]struct {
		failEvery int
		deadline  time.Duration
		kind      budget.Kind
	}{
		"all succeed":              {0, time.Hour, budget.None},
		"one in 50 fails":          {50, time.Hour, budget.Failed},
		"all fail":                 {1, time.Hour, budget.Failed},
		"the deadline comes first": {0, time.Second, budget.DeadlineExceeded},
		"and one fails later":      {n - 1, time.Second, budget.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ended := make(chan struct{}, n)
				err := scope.Run(t.Context(), "shop", budget.Within(c.deadline), func(ctx context.Context, s *scope.Scope) error {
					for i := range n {
						s.Go(fmt.Sprint(i), func(ctx context.Context) error {
							defer func() { ended <- struct{}{} }()
							if c.deadline < time.Hour {
								<-ctx.Done()
								if c.failEvery > 0 && i%c.failEvery == 1 {
									return io.ErrUnexpectedEOF
								}
								return context.Cause(ctx)
							}
							if c.failEvery > 0 && i%c.failEvery == 0 {
								return fmt.Errorf("%d: %w", i, io.ErrUnexpectedEOF)
							}
							return nil
						})
					}
					return nil
				})
				started := len(ended)
				assert.Equal(t, c.kind, budget.KindOf(err))
				var e *scope.Error
				if !errors.As(err, &e) {
					assert.Equal(t, n, started)
					return
				}
				wantFailures := 0
				if c.kind == budget.Failed {
					wantFailures = 1
				}
				assert.Len(t, e.Failures, wantFailures)
				assert.Equal(t, c.failEvery > 0, errors.Is(err, io.ErrUnexpectedEOF))
				assert.Equal(t, c.kind == budget.DeadlineExceeded, errors.Is(err, context.DeadlineExceeded))
				if c.deadline < time.Hour {
					assert.Len(t, e.Late, n, "every outcome is there")
				}
			})
		})
	}
}

// TestCase12_TheVerdictIsTheFailureNotWhatItInduced: the failing task is slow
// to return, its siblings are quick to obey; the order never matters.
func TestCase12_TheVerdictIsTheFailureNotWhatItInduced(t *testing.T) {
	const runs = 10_000
	boom := errors.New("boom")
	induced := map[string]int{}
	for i := range stress.Rounds(runs) {
		err := scope.Run(t.Context(), "shop", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
			s.Go("b", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
			s.Go("a", func(context.Context) error { return boom })
			s.Go("c", obedient)
			switch i % 3 {
			case 0:
				return s.Wait()
			case 1:
				<-ctx.Done()
				return context.Cause(ctx)
			}
			return nil
		})
		var e *scope.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, budget.Failed, e.Cause.Kind)
		require.Equal(t, "a", e.Cause.Task)
		require.ErrorIs(t, err, boom)
		require.NotErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, []string{"a"}, namesOf(e.Failures))
		for _, late := range e.Late {
			var te *scope.TaskError
			require.ErrorAs(t, late, &te)
			require.True(t, te.Induced)
			induced[te.Task]++
		}
	}
	t.Logf("induced: %v", induced)
	for _, who := range []string{"b", "c", ""} {
		assert.NotZero(t, induced[who], "%q was never listed apart", who)
	}
}

// TestInducedErrorsNeverLookLikeATimeoutOrACancel: whatever wrapping a library
// puts around its context's error, it is the end's doing and not a failure.
func TestInducedErrorsNeverLookLikeATimeoutOrACancel(t *testing.T) {
	boom := errors.New("boom")
	for name, wrap := range map[string]func(ctx context.Context) error{
		"its Err":       func(ctx context.Context) error { return ctx.Err() },
		"its cause":     context.Cause,
		"wrapped Err":   func(ctx context.Context) error { return fmt.Errorf("read: %w", ctx.Err()) },
		"wrapped cause": func(ctx context.Context) error { return fmt.Errorf("read: %w", context.Cause(ctx)) },
		"joined":        func(ctx context.Context) error { return errors.Join(io.ErrUnexpectedEOF, ctx.Err()) },
		"a std child's Err": func(ctx context.Context) error {
			c, f := context.WithTimeout(ctx, time.Hour)
			defer f()
			return c.Err()
		},
		"an inner Run's": func(ctx context.Context) error {
			return scope.Run(ctx, "inner", budget.Inherited(), func(context.Context, *scope.Scope) error { return nil })
		},
	} {
		for _, body := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, from the body %t", name, body), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					err := scope.Run(t.Context(), "shop", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
						s.Go("a", func(context.Context) error { return boom })
						<-ctx.Done()
						if body {
							return wrap(ctx)
						}
						return nil
					})
					if !body {
						err = scope.Run(t.Context(), "shop", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
							s.Go("b", func(ctx context.Context) error { <-ctx.Done(); return wrap(ctx) })
							s.In(context.WithValue(ctx, spanKey{}, "v")).Go("c", func(ctx context.Context) error { <-ctx.Done(); return wrap(ctx) })
							s.Limit(budget.Within(time.Minute)).Go("d", func(ctx context.Context) error { <-ctx.Done(); return wrap(ctx) })
							synctest.Wait()
							s.Go("a", func(context.Context) error { return boom })
							return nil
						})
					}
					assert.ErrorIs(t, err, boom)
					assert.NotErrorIs(t, err, context.Canceled)
					assert.NotErrorIs(t, err, context.DeadlineExceeded)
					assert.Equal(t, budget.Failed, budget.KindOf(err))
					var e *scope.Error
					require.ErrorAs(t, err, &e)
					assert.Equal(t, []string{"a"}, namesOf(e.Failures))
					want := 1
					if !body {
						want = 3
					}
					assert.Len(t, e.Late, want, "%v", e.Late)
				})
			})
		}
	}
}

// TestABodyMayAddItsContextsErrorToAFailureItPassesOn: the verdict still does
// not look like a cancel.
func TestABodyMayAddItsContextsErrorToAFailureItPassesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		boom := errors.New("boom")
		err := scope.Run(t.Context(), "shop", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
			s.Go("a", func(context.Context) error { return boom })
			return fmt.Errorf("render: %w (ctx: %w)", s.Wait(), ctx.Err())
		})
		assert.ErrorIs(t, err, boom)
		assert.NotErrorIs(t, err, context.Canceled)
		assert.ErrorContains(t, err, "render: ")
		var e *scope.Error
		require.ErrorAs(t, err, &e)
		assert.Equal(t, []string{"a"}, namesOf(e.Failures), "it is that failure, not a second one")
	})
}
