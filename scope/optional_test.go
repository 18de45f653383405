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
	"github.com/curfew-go/curfew/scope"
)

func TestAnOptionalTasksFailureIsAMissing(t *testing.T) {
	boom := errors.New("boom")
	for name, c := range map[string]struct {
		limit time.Duration
		task  func(context.Context) (string, error)
		is    error
		after time.Duration
	}{
		"fails":       {time.Minute, func(context.Context) (string, error) { time.Sleep(time.Second); return "x", boom }, boom, time.Second},
		"Goexit":      {time.Minute, func(context.Context) (string, error) { goexit(); return "", nil }, scope.ErrGoexit, 0},
		"too slow":    {time.Second, func(ctx context.Context) (string, error) { <-ctx.Done(); return "", ctx.Err() }, context.DeadlineExceeded, time.Second},
		"no time":     {-1, func(context.Context) (string, error) { return "ran", nil }, context.DeadlineExceeded, 0},
		"deaf a bit":  {time.Second, func(ctx context.Context) (string, error) { time.Sleep(2 * time.Second); return "", context.Cause(ctx) }, context.DeadlineExceeded, 2 * time.Second},
		"gives value": {time.Minute, func(context.Context) (string, error) { return "value", nil }, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var missing []scope.Missing
				page, err := scope.RunValue(t.Context(), "page", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) (string, error) {
					main := scope.Fork(s, "main", func(ctx context.Context) (string, error) {
						time.Sleep(10 * time.Second)
						return "main", ctx.Err()
					})
					extra := scope.Fork(s.Optional(budget.Within(c.limit)), "extra", c.task)
					if err := s.Wait(); err != nil {
						return "", err
					}
					missing = s.Missing()
					return main.Value() + " " + extra.Or("fallback"), nil
				})
				require.NoError(t, err, "the scope does without")
				if c.is == nil {
					assert.Equal(t, "main value", page)
					assert.Empty(t, missing)
					return
				}
				assert.Equal(t, "main fallback", page)
				require.Len(t, missing, 1)
				assert.Equal(t, "extra", missing[0].Task)
				assert.ErrorIs(t, missing[0].Err, c.is)
				assert.Equal(t, c.after, missing[0].After)
				assert.Contains(t, missing[0].String(), "extra, after ")
			})
		})
	}
}

func TestMissingKeepsTheOrderOfTheStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		require.NoError(t, scope.Run(t.Context(), "page", budget.Within(time.Hour), func(_ context.Context, s *scope.Scope) error {
			for i, name := range []string{"a", "b", "c"} {
				s.Optional(budget.Within(time.Minute)).Go(name, func(context.Context) error {
					time.Sleep(time.Duration(3-i) * time.Second)
					return errors.New(name)
				})
			}
			s.Wait()
			var names []string
			for _, m := range s.Missing() {
				names = append(names, m.Task)
			}
			assert.Equal(t, []string{"a", "b", "c"}, names)
			assert.Equal(t, 3, s.Stats().Missing)
			return nil
		}))
	})
}

func TestAnOptionalTaskHasNoSayInTheVerdict(t *testing.T) {
	boom := errors.New("boom")
	optional := func(s *scope.Scope) *scope.Scope { return s.Optional(budget.Within(time.Hour)) }
	t.Run("cut by the deadline", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var s1 *scope.Scope
			require.NoError(t, scope.Run(t.Context(), "page", budget.Within(time.Second), func(_ context.Context, s *scope.Scope) error {
				s1 = s
				optional(s).Go("extra", obedient)
				return nil
			}), "everything that was asked for is there")
			assert.True(t, s1.Stats().Late)
			assert.Len(t, s1.Missing(), 1)
		})
	})
	t.Run("skipped", func(t *testing.T) {
		var s1 *scope.Scope
		require.NoError(t, scope.Run(t.Context(), "page", budget.Within(time.Hour), func(_ context.Context, s *scope.Scope) error {
			s1 = s
			s.Cancel(boom)
			optional(s).Go("extra", obedient)
			return nil
		}))
		require.Len(t, s1.Missing(), 1)
		assert.ErrorIs(t, s1.Missing()[0].Err, boom)
		assert.Equal(t, 1, s1.Stats().Skipped)
	})
	t.Run("but its panic counts", func(t *testing.T) {
		ctx, seen := quiet()
		v := recovered(func() {
			scope.Run(ctx, "page", budget.Within(time.Hour), func(_ context.Context, s *scope.Scope) error {
				optional(s).Go("extra", func(context.Context) error { return explode("ouch") })
				return nil
			})
		})
		assert.IsType(t, (*scope.PanicError)(nil), v)
		assert.Len(t, seen(), 1)
	})
}

func TestAScopeThatKeepsGoingCollectsAllFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e1, e2 := errors.New("first"), errors.New("second")
		finished := false
		err := scope.Run(t.Context(), "import", budget.Within(time.Hour), func(_ context.Context, s *scope.Scope) error {
			s.SetKeepGoing()
			s.Go("b", func(context.Context) error { time.Sleep(2 * time.Second); return e2 })
			s.Go("a", func(context.Context) error { time.Sleep(time.Second); return e1 })
			s.Go("c", func(ctx context.Context) error { time.Sleep(3 * time.Second); finished = ctx.Err() == nil; return nil })
			err := s.Wait()
			assert.ErrorIs(t, err, e1)
			s.Go("d", func(context.Context) error { return nil }) // and more can be started
			return nil
		})
		assert.True(t, finished, "nobody was cancelled")
		var e *scope.Error
		require.ErrorAs(t, err, &e)
		assert.Equal(t, budget.Failed, budget.KindOf(err))
		assert.Equal(t, "a", e.Cause.Task, "the first failure")
		assert.Equal(t, []string{"a", "b"}, namesOf(e.Failures))
		assert.ErrorIs(t, err, e1)
		assert.ErrorIs(t, err, e2)
		assert.NotErrorIs(t, err, context.Canceled)
	})
}

func TestWhatStillEndsAScopeThatKeepsGoing(t *testing.T) {
	boom, mine := errors.New("boom"), errors.New("mine")
	for name, c := range map[string]struct {
		body func(ctx context.Context, s *scope.Scope) error
		kind budget.Kind
		is   []error
	}{
		"its body": {func(context.Context, *scope.Scope) error { time.Sleep(2 * time.Second); return mine }, budget.Failed, []error{boom, mine}},
		"its body, passing the failure on": {func(_ context.Context, s *scope.Scope) error {
			time.Sleep(2 * time.Second)
			k := scope.Fork(s, "again", func(context.Context) (int, error) { return 0, boom })
			_, err := k.Wait(context.Background())
			return err
		}, budget.Failed, []error{boom}},
		"the deadline": {func(ctx context.Context, _ *scope.Scope) error { <-ctx.Done(); return nil }, budget.DeadlineExceeded, []error{boom, context.DeadlineExceeded}},
		"Cancel":       {func(_ context.Context, s *scope.Scope) error { time.Sleep(2 * time.Second); s.Cancel(mine); return nil }, budget.Cancelled, []error{boom, mine}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				err := scope.Run(t.Context(), "import", budget.Within(time.Minute), func(ctx context.Context, s *scope.Scope) error {
					s.SetKeepGoing()
					s.Go("fails", func(context.Context) error { time.Sleep(time.Second); return boom })
					s.Go("waits", obedient)
					return c.body(ctx, s)
				})
				assert.Equal(t, c.kind, budget.KindOf(err), "%v", err)
				for _, target := range c.is {
					assert.ErrorIs(t, err, target)
				}
			})
		})
	}
}
