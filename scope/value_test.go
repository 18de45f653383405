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

// instantly is a task that is over as soon as it starts.
func instantly(v string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return v, nil }
}

// TestValuePanicsBeforeAWaitHoweverFastTheTaskWas holds S20: code that works
// only when a task is fast is wrong on every run.
func TestValuePanicsBeforeAWaitHoweverFastTheTaskWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		err := scope.Run(t.Context(), "shop", budget.Within(time.Hour), func(_ context.Context, s *scope.Scope) error {
			task := scope.Fork(s, "fast", instantly("v"))
			synctest.Wait() // it has ended
			require.Zero(t, s.Stats().Live)
			for verb, use := range map[string]func(){
				"Value": func() { task.Value() },
				"Or":    func() { task.Or("fallback") },
			} {
				v := fmt.Sprint(recovered(use))
				assert.Contains(t, v, verb)
				assert.Contains(t, v, `"fast"`)
				assert.Contains(t, v, "before a Wait")
			}
			require.NoError(t, s.Wait())
			assert.Equal(t, "v", task.Value())
			assert.Equal(t, "v", task.Or("fallback"))
			return nil
		})
		assert.NoError(t, err)
	})
}

// TestWhichWaitsCoverATask: the scope's and the task's own, not another task's,
// and no Wait that returned before the task was started.
func TestWhichWaitsCoverATask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var afterRun *scope.Task[string]
		err := scope.Run(t.Context(), "shop", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
			a := scope.Fork(s, "a", instantly("a"))
			b := scope.Fork(s, "b", instantly("b"))
			_, err := a.Wait(ctx)
			require.NoError(t, err)
			assert.Equal(t, "a", a.Value(), "its own Wait covers it")
			assert.NotNil(t, recovered(func() { b.Value() }), "another task's does not")
			require.NoError(t, s.Wait())
			assert.Equal(t, "b", b.Value())

			c := scope.Fork(s, "c", instantly("c"))
			synctest.Wait()
			assert.NotNil(t, recovered(func() { c.Value() }), "the Wait came before the task")

			slow := scope.Fork(s, "slow", func(context.Context) (string, error) { time.Sleep(time.Second); return "slow", nil })
			short, cancel := context.WithTimeout(ctx, time.Millisecond)
			defer cancel()
			_, err = slow.Wait(short)
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			assert.NotNil(t, recovered(func() { slow.Value() }), "a Wait that gave up covers nothing")
			v, err := slow.Wait(ctx)
			require.NoError(t, err)
			assert.Equal(t, "slow", v, "a later Wait still has the value")
			assert.Equal(t, "slow", slow.Value())

			s.Cleanup("looks", func(context.Context) error {
				assert.Equal(t, "c", c.Value(), "the scope has joined by now")
				return nil
			})
			afterRun = c
			return nil
		})
		require.NoError(t, err)
		assert.Equal(t, "c", afterRun.Value(), "Run's own join covers all")
	})
}

// TestTaskHasNoValue: what Value and Or do for a task that brought none.
func TestTaskHasNoValue(t *testing.T) {
	boom := errors.New("boom")
	for name, c := range map[string]struct {
		task func(context.Context) (string, error)
		want error
	}{
		"failed":    {func(context.Context) (string, error) { return "half", boom }, boom},
		"Goexit":    {func(context.Context) (string, error) { goexit(); return "", nil }, scope.ErrGoexit},
		"cancelled": {func(ctx context.Context) (string, error) { <-ctx.Done(); return "", context.Cause(ctx) }, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				err := scope.Run(t.Context(), "shop", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
					task := scope.Fork(s, "task", c.task)
					synctest.Wait()
					s.Cancel(nil)
					require.Error(t, s.Wait())
					v, ok := recovered(func() { task.Value() }).(error)
					require.True(t, ok, "it panics with an error")
					assert.ErrorIs(t, v, c.want)
					assert.ErrorContains(t, v, `"task"`)
					assert.Equal(t, "fallback", task.Or("fallback"))
					got, err := task.Wait(ctx)
					assert.ErrorIs(t, err, c.want)
					assert.Empty(t, got, "a failed task's value is not handed out")
					return nil
				})
				assert.Error(t, err)
			})
		})
	}
}

// TestRunValueReturnsTheBodysValueBesideAnError: nothing a body acquired is lost.
func TestRunValueReturnsTheBodysValueBesideAnError(t *testing.T) {
	boom := errors.New("boom")
	for name, c := range map[string]struct {
		body func(context.Context, *scope.Scope) (string, error)
		want error
	}{
		"the body's own": {func(context.Context, *scope.Scope) (string, error) { return "conn", boom }, boom},
		"a task's": {func(_ context.Context, s *scope.Scope) (string, error) {
			s.Go("bad", func(context.Context) error { return boom })
			return "conn", nil
		}, boom},
		"the deadline's": {func(ctx context.Context, s *scope.Scope) (string, error) {
			<-ctx.Done()
			return "conn", context.Cause(ctx)
		}, context.DeadlineExceeded},
		"a cleanup's": {func(_ context.Context, s *scope.Scope) (string, error) {
			s.Cleanup("bad", func(context.Context) error { return boom })
			return "conn", nil
		}, boom},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v, err := scope.RunValue(t.Context(), "shop", budget.Within(time.Second), c.body)
				assert.Equal(t, "conn", v)
				assert.ErrorIs(t, err, c.want)
			})
		})
	}
	v, err := scope.RunValue(t.Context(), "shop", budget.Within(0), func(context.Context, *scope.Scope) (string, error) {
		return "conn", nil
	})
	assert.Empty(t, v, "the body did not run")
	assert.Equal(t, budget.ExpiredOnArrival, budget.KindOf(err))
}

// TestCase25_ResultAndCancelAtOnce: a task finishes in the instant of a cancel,
// of the waiter's context or of the scope. Task.Wait gives the value or the
// cause, never neither, and the value is not lost: whoever asks again has it.
func TestCase25_ResultAndCancelAtOnce(t *testing.T) {
	const runs = 10_000
	stop := errors.New("stop")
	for name, canceller := range map[string]func(*scope.Scope, context.CancelCauseFunc) func(){
		"of the waiter": func(_ *scope.Scope, cancel context.CancelCauseFunc) func() { return func() { cancel(stop) } },
		"of the scope":  func(s *scope.Scope, _ context.CancelCauseFunc) func() { return func() { s.Cancel(stop) } },
	} {
		t.Run(name, func(t *testing.T) {
			values, causes := 0, 0
			for range stress.Rounds(runs) {
				var task *scope.Task[int]
				err := scope.Run(t.Context(), "shop", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
					ctx, cancel := context.WithCancelCause(ctx)
					defer cancel(nil)
					at := startLine(2)
					task = scope.Fork(s, "task", func(context.Context) (int, error) { at(); return 7, nil })
					go func(end func()) { at(); end() }(canceller(s, cancel))
					v, err := task.Wait(ctx)
					switch {
					case v == 7 && err == nil:
						values++
					case v == 0 && errors.Is(err, stop):
						causes++
					default:
						t.Errorf("Wait gave %v, %v", v, err)
					}
					return nil
				})
				require.NoError(t, err, "the task and the body succeeded, cancelled or not")
				require.Equal(t, 7, task.Value())
			}
			t.Logf("%d values, %d causes", values, causes)
			assert.NotZero(t, values)
			assert.NotZero(t, causes)
		})
	}
}
