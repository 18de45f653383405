package scope_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
)

// TestBadCallsPanicAndNameTheArgument: a mistake of the program is told at the
// call, before anything is started.
func TestBadCallsPanicAndNameTheArgument(t *testing.T) {
	var nilCtx context.Context
	body := func(context.Context, *scope.Scope) error { return nil }
	value := func(context.Context, *scope.Scope) (int, error) { return 0, nil }
	f := func(context.Context) error { return nil }
	fork := func(context.Context) (int, error) { return 0, nil }
	limit := budget.Within(time.Hour)
	synctest.Test(t, func(t *testing.T) {
		err := scope.Run(t.Context(), "shop", limit, func(ctx context.Context, s *scope.Scope) error {
			task := scope.Fork(s, "task", fork)
			require.NoError(t, s.Wait())
			before := s.Stats()
			for name, c := range map[string]struct {
				call func()
				says []string
			}{
				"Run without a body":          {func() { scope.Run(ctx, "x", limit, nil) }, []string{"Run", "nil body"}},
				"Run without a name":          {func() { scope.Run(ctx, "", limit, body) }, []string{"Run", "empty name"}},
				"Run without a context":       {func() { scope.Run(nilCtx, "x", limit, body) }, []string{"Run", "nil context"}},
				"RunValue without a body":     {func() { scope.RunValue[int](ctx, "x", limit, nil) }, []string{"RunValue", "nil body"}},
				"RunValue without a name":     {func() { scope.RunValue(ctx, "", limit, value) }, []string{"empty name"}},
				"RunValue without a context":  {func() { scope.RunValue(nilCtx, "x", limit, value) }, []string{"nil context"}},
				"Go without a name":           {func() { s.Go("", f) }, []string{"Go", "empty name"}},
				"Go without a function":       {func() { s.Go("x", nil) }, []string{"Go", `"x"`, "nil function"}},
				"Fork without a name":         {func() { scope.Fork(s, "", fork) }, []string{"Fork", "empty name"}},
				"Fork without a function":     {func() { scope.Fork[int](s, "x", nil) }, []string{"Fork", `"x"`, "nil function"}},
				"Cleanup without a name":      {func() { s.Cleanup("", f) }, []string{"Cleanup", "empty name"}},
				"Cleanup without a function":  {func() { s.Cleanup("x", nil) }, []string{"Cleanup", `"x"`, "nil function"}},
				"In without a context":        {func() { s.In(nilCtx) }, []string{"In", "nil context"}},
				"Task.Wait without a context": {func() { _, _ = task.Wait(nilCtx) }, []string{"Wait", `"task"`, "nil context"}},
				"a negative reserve":          {func() { budget.Within(time.Hour).Reserve(-1) }, []string{"Reserve", "negative"}},
				"a negative cleanup":          {func() { budget.Within(time.Hour).Cleanup(-1) }, []string{"Cleanup", "negative"}},
				"a negative require":          {func() { budget.Within(time.Hour).Require(-1) }, []string{"Require", "negative"}},
				"through a handle, no name":   {func() { s.In(ctx).Limit(limit).Go("", f) }, []string{"Go", "empty name"}},
				"Value before a Wait":         {func() { scope.Fork(s, "early", fork).Value() }, []string{"Value", `"early"`, "before a Wait"}},
			} {
				v := recovered(c.call)
				if !assert.NotNil(t, v, name) {
					continue
				}
				for _, says := range c.says {
					assert.Contains(t, fmt.Sprint(v), says, name)
				}
			}
			require.NoError(t, s.Wait())
			after := s.Stats()
			after.Started-- // "early"
			assert.Equal(t, before, after, "nothing was half started")
			assert.Zero(t, task.Value())
			return nil
		})
		assert.NoError(t, err)
	})
}

// TestCase09_AScopesContextAfterRunSaysThatItIsClosed: whoever kept a context
// of the scope, or made one from it, learns which scope it belonged to.
func TestCase09_AScopesContextAfterRunSaysThatItIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kept := map[string]context.Context{}
		var s1 *scope.Scope
		keep := func(name string, ctx context.Context) {
			child, cancel := context.WithTimeout(ctx, time.Hour)
			t.Cleanup(cancel)
			kept[name] = ctx
			kept[name+", asked before"] = context.WithValue(child, spanKey{}, 1)
			kept[name+", with a value"] = context.WithValue(ctx, spanKey{}, 1)
		}
		err := scope.Run(t.Context(), "outer", budget.Within(time.Hour), func(ctx context.Context, o *scope.Scope) error {
			err := scope.Run(ctx, "shop", budget.Inherited(), func(ctx context.Context, s *scope.Scope) error {
				s1 = s
				keep("the scope's", ctx)
				s.Go("task", func(ctx context.Context) error { keep("a task's", ctx); return nil })
				require.NoError(t, s.Wait())
				s.Limit(budget.Within(time.Minute)).Go("task", func(ctx context.Context) error { keep("a limited task's", ctx); return nil })
				require.NoError(t, s.Wait())
				_, cancel, err := budget.Enter(ctx, budget.Within(time.Minute))
				t.Cleanup(cancel)
				return err
			})
			assert.NoError(t, ctx.Err(), "the outer scope goes on")
			return err
		})
		require.NoError(t, err)
		for name, ctx := range kept {
			select {
			case <-ctx.Done():
			default:
				t.Errorf("%s is not done", name)
			}
			assert.Equal(t, context.Canceled, ctx.Err(), name)
			cause := context.Cause(ctx)
			assert.ErrorIs(t, cause, scope.ErrClosed, name)
			assert.Equal(t, budget.Closed, budget.KindOf(cause), name)
			assert.ErrorContains(t, cause, "outer/shop", name)
			err := scope.Run(ctx, "late", budget.Within(time.Second), func(context.Context, *scope.Scope) error {
				t.Errorf("a scope opened in %s", name)
				return nil
			})
			assert.Equal(t, budget.Closed, budget.KindOf(err), "%s: %v", name, err)
		}
		assert.Contains(t, fmt.Sprint(recovered(func() { s1.Go("late", func(context.Context) error { return nil }) })), "outer/shop")
	})
}

// TestEverythingMayBeCalledAfterRun: what cannot be done any more panics with
// ErrClosed or does nothing, and the counts stay.
func TestEverythingMayBeCalledAfterRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s1 *scope.Scope
		var ctx1 context.Context
		var task *scope.Task[string]
		err := scope.Run(t.Context(), "shop", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
			s1, ctx1 = s, ctx
			task = scope.Fork(s, "task", instantly("v"))
			return nil
		})
		require.NoError(t, err)
		f := func(context.Context) error { return nil }
		for name, call := range map[string]func(){
			"Go":            func() { s1.Go("x", f) },
			"Fork":          func() { scope.Fork(s1, "x", instantly("")) },
			"Cleanup":       func() { s1.Cleanup("x", f) },
			"Go, in":        func() { s1.In(ctx1).Go("x", f) },
			"Go, limited":   func() { s1.Limit(budget.Within(time.Second)).Go("x", f) },
			"Go, expired":   func() { s1.Limit(budget.Within(0)).Go("x", f) },
			"Go, detached":  func() { s1.In(context.WithoutCancel(ctx1)).Go("x", f) },
			"Fork, limited": func() { scope.Fork(s1.Limit(budget.Within(time.Second)), "x", instantly("")) },
		} {
			v, ok := recovered(call).(error)
			require.True(t, ok, name)
			assert.ErrorIs(t, v, scope.ErrClosed, name)
		}
		assert.Nil(t, recovered(func() {
			s1.Cancel(nil)
			s1.Cancel(errJoin)
			s1.SetPanicGrace(time.Second)
			assert.NoError(t, s1.Wait())
			v, err := task.Wait(ctx1)
			assert.NoError(t, err, "a task that has ended is no longer waited for")
			assert.Equal(t, "v", v)
			assert.Equal(t, "v", task.Value())
		}))
		assert.Equal(t, scope.Stats{Started: 1}, s1.Stats())
	})
}
