package scope_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/stress"
	"github.com/curfew-go/curfew/scope"
)

// TestCase13_ARealFailureAfterTheEndIsKeptAndRankedFirst: something cut the
// scope, one task obeyed, then another brought a real failure.
func TestCase13_ARealFailureAfterTheEndIsKeptAndRankedFirst(t *testing.T) {
	diskFull := errors.New("disk full")
	for name, c := range map[string]struct {
		end  func(s *scope.Scope, parent context.CancelCauseFunc)
		kind budget.Kind
		want error // what the verdict matches beside the failure
	}{
		"parent":            {func(_ *scope.Scope, cancel context.CancelCauseFunc) { cancel(nil) }, budget.ParentCancelled, context.Canceled},
		"parent with cause": {func(_ *scope.Scope, cancel context.CancelCauseFunc) { cancel(errJoin) }, budget.ParentCancelled, errJoin},
		"cancel":            {func(s *scope.Scope, _ context.CancelCauseFunc) { s.Cancel(errJoin) }, budget.Cancelled, errJoin},
		"deadline":          {func(*scope.Scope, context.CancelCauseFunc) { time.Sleep(time.Minute) }, budget.DeadlineExceeded, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				err := scope.Run(ctx, "shop", budget.Within(time.Minute), func(_ context.Context, s *scope.Scope) error {
					s.Go("obeys", obedient)
					s.Go("writes", func(ctx context.Context) error {
						<-ctx.Done()
						time.Sleep(time.Second) // long after the other
						return diskFull
					})
					synctest.Wait()
					c.end(s, cancel)
					return nil
				})
				assert.ErrorIs(t, err, diskFull)
				assert.ErrorIs(t, err, c.want)
				assert.Equal(t, c.kind, budget.KindOf(err))
				var e *scope.Error
				require.ErrorAs(t, err, &e)
				assert.Empty(t, e.Failures, "no failure ended it")
				assert.Equal(t, []string{"writes", "obeys"}, namesOf(e.Late))
				assert.ErrorContains(t, err, "disk full")
			})
		})
	}
}

// TestCase15_TheBodysFailureStandsFirst: body and task fail at once, and the
// order of the two is always the same.
func TestCase15_TheBodysFailureStandsFirst(t *testing.T) {
	const runs = 10_000
	e0, e1 := errors.New("e0"), errors.New("e1")
	triggers := map[string]int{}
	for range stress.Rounds(runs) {
		err := scope.Run(t.Context(), "shop", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
			at := startLine(2)
			s.Go("child", func(context.Context) error { at(); return e1 })
			at()
			return e0
		})
		var e *scope.Error
		require.ErrorAs(t, err, &e)
		require.ErrorIs(t, err, e0)
		require.ErrorIs(t, err, e1)
		require.NotErrorIs(t, err, context.Canceled)
		all := append(namesOf(e.Failures), namesOf(e.Late)...)
		require.Equal(t, []string{"", "child"}, all, "both are kept, the body's first")
		triggers[e.Cause.Task]++
	}
	t.Logf("ended by: %v", triggers)
	assert.NotZero(t, triggers[""])
	assert.NotZero(t, triggers["child"])
}

// TestABodysErrorAndATasks: which errors of a body are failures of its own.
func TestABodysErrorAndATasks(t *testing.T) {
	boom, mine := errors.New("boom"), errors.New("mine")
	type lists struct{ failures, late []string }
	for name, c := range map[string]struct {
		body func(ctx context.Context, s *scope.Scope, task *scope.Task[int]) error
		want lists
		text string
	}{
		"returns Wait's error": {
			func(_ context.Context, s *scope.Scope, _ *scope.Task[int]) error { return s.Wait() },
			lists{failures: []string{"bad"}}, `scope: shop: task "bad": boom`},
		"wraps Wait's error": {
			func(_ context.Context, s *scope.Scope, _ *scope.Task[int]) error {
				return fmt.Errorf("render: %w", s.Wait())
			},
			lists{failures: []string{"bad"}}, "render: "},
		"returns Task.Wait's error": {
			func(_ context.Context, _ *scope.Scope, task *scope.Task[int]) error {
				_, err := task.Wait(context.Background())
				return err
			},
			lists{failures: []string{"bad"}}, "boom"},
		"drops Wait's error": {
			func(_ context.Context, s *scope.Scope, _ *scope.Task[int]) error { _ = s.Wait(); return nil },
			lists{failures: []string{"bad"}}, "boom"},
		"fails on its own later": {
			func(_ context.Context, s *scope.Scope, _ *scope.Task[int]) error { _ = s.Wait(); return mine },
			lists{failures: []string{"", "bad"}}, "mine"},
		"joins its own to Wait's": {
			func(_ context.Context, s *scope.Scope, _ *scope.Task[int]) error { return errors.Join(mine, s.Wait()) },
			lists{failures: []string{"bad"}}, "mine"},
		"obeys": {
			func(ctx context.Context, _ *scope.Scope, _ *scope.Task[int]) error { return obedient(ctx) },
			lists{failures: []string{"bad"}, late: []string{""}}, "boom"},
		"obeys, in a scope inside": {
			func(ctx context.Context, _ *scope.Scope, _ *scope.Task[int]) error {
				return nestedIn(ctx, "inner", obedient)
			},
			lists{failures: []string{"bad"}, late: []string{""}}, "boom"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				err := scope.Run(t.Context(), "shop", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
					task := scope.Fork(s, "bad", func(context.Context) (int, error) { return 0, boom })
					return c.body(ctx, s, task)
				})
				var e *scope.Error
				require.ErrorAs(t, err, &e)
				assert.Equal(t, c.want, lists{namesOf(e.Failures), namesOf(e.Late)})
				assert.ErrorIs(t, err, boom)
				assert.NotErrorIs(t, err, context.Canceled)
				assert.Equal(t, budget.Failed, e.Cause.Kind)
				assert.Equal(t, "bad", e.Cause.Task)
				assert.ErrorContains(t, err, c.text)
				if c.text == "mine" {
					assert.ErrorIs(t, err, mine)
				}
			})
		})
	}
}
