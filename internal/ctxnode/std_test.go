package ctxnode_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/ctxnode"
	"github.com/curfew-go/curfew/scope"
)

// Package context gives its cancel context away under a private key, which
// ctxnode learns by being asked. On a Go version where that fails the cause of
// std children is lost, and each of them behind a WithValue costs a goroutine.
func TestStdKeyIsLearned(t *testing.T) {
	require.NotNil(t, ctxnode.StdKey, "context.Cause did not ask a foreign context for its key")

	std, cancel := context.WithCancel(t.Context())
	defer cancel()
	assert.Equal(t, "*context.cancelCtx", reflect.TypeOf(std.Value(ctxnode.StdKey)).String(),
		"the learned key is not the one of the cancel context")

	ctx := enter(t, t.Context(), budget.Within(time.Hour))
	assert.Equal(t, "*context.cancelCtx", reflect.TypeOf(ctx.Value(ctxnode.StdKey)).String(),
		"our context does not answer with a std cancel context")
	assert.Same(t, ctx.Value(ctxnode.StdKey), context.WithValue(ctx, key("a"), 1).Value(ctxnode.StdKey))
}

type key string

// enter is budget.Enter for work that lasts as long as the test.
func enter(t testing.TB, parent context.Context, limit budget.Limit) context.Context {
	t.Helper()
	ctx, cancel, err := budget.Enter(parent, limit)
	require.NoError(t, err)
	t.Cleanup(cancel)
	return ctx
}

// contexts are the ways by which code comes to hold a context of ours.
var contexts = []struct {
	name string
	with func(t *testing.T, use func(context.Context))
}{
	{"budget", func(t *testing.T, use func(context.Context)) {
		use(enter(t, context.Background(), budget.Within(time.Hour)))
	}},
	{"budget under a std parent", func(t *testing.T, use func(context.Context)) {
		parent, cancel := context.WithCancel(context.Background())
		defer cancel()
		use(enter(t, parent, budget.Within(time.Hour)))
	}},
	{"budget under a budget behind WithValue", func(t *testing.T, use func(context.Context)) {
		outer := context.WithValue(enter(t, context.Background(), budget.Within(time.Hour)), key("span"), 1)
		use(enter(t, outer, budget.Inherited()))
	}},
	{"detached", func(t *testing.T, use func(context.Context)) {
		ctx, cancel := budget.Detached(context.Background(), time.Hour)
		defer cancel()
		use(ctx)
	}},
	{"scope", func(t *testing.T, use func(context.Context)) {
		runScope(t, func(ctx context.Context, s *scope.Scope) error { use(ctx); return nil })
	}},
	{"task", func(t *testing.T, use func(context.Context)) {
		runScope(t, func(ctx context.Context, s *scope.Scope) error {
			s.Go("task", func(ctx context.Context) error { use(ctx); return nil })
			return nil
		})
	}},
	{"task with a limit", func(t *testing.T, use func(context.Context)) {
		runScope(t, func(ctx context.Context, s *scope.Scope) error {
			s.Limit(budget.Within(time.Minute)).Go("task", func(ctx context.Context) error { use(ctx); return nil })
			return nil
		})
	}},
	{"task with a span", func(t *testing.T, use func(context.Context)) {
		runScope(t, func(ctx context.Context, s *scope.Scope) error {
			s.In(context.WithValue(ctx, key("span"), 1)).Go("task", func(ctx context.Context) error { use(ctx); return nil })
			return nil
		})
	}},
}

func runScope(t *testing.T, body func(context.Context, *scope.Scope) error) {
	t.Helper()
	require.NoError(t, scope.Run(context.Background(), "order", budget.Within(time.Hour), body))
}

// children are the ways by which std code derives from a context. Each ends
// told when it learns that its parent ended.
var children = []struct {
	name   string
	derive func(parent context.Context) (child context.Context, stop func())
}{
	{"WithCancel", func(p context.Context) (context.Context, func()) {
		ctx, cancel := context.WithCancel(p)
		return ctx, cancel
	}},
	{"WithCancelCause", func(p context.Context) (context.Context, func()) {
		ctx, cancel := context.WithCancelCause(p)
		return ctx, func() { cancel(nil) }
	}},
	{"WithTimeout", func(p context.Context) (context.Context, func()) {
		ctx, cancel := context.WithTimeout(p, 24*time.Hour)
		return ctx, cancel
	}},
	{"WithTimeout shorter", func(p context.Context) (context.Context, func()) {
		ctx, cancel := context.WithTimeout(p, 30*time.Second)
		return ctx, cancel
	}},
	{"WithDeadlineCause", func(p context.Context) (context.Context, func()) {
		ctx, cancel := context.WithDeadlineCause(p, time.Now().Add(30*time.Second), errors.New("theirs"))
		return ctx, cancel
	}},
	{"AfterFunc", func(p context.Context) (context.Context, func()) {
		told, tell := context.WithCancelCause(context.Background())
		stop := context.AfterFunc(p, func() { tell(context.Cause(p)) })
		return told, func() { stop() }
	}},
	{"two deep", func(p context.Context) (context.Context, func()) {
		upper, cancelUpper := context.WithCancel(p)
		lower, cancelLower := context.WithTimeout(context.WithValue(upper, key("c"), 1), 24*time.Hour)
		return lower, func() { cancelLower(); cancelUpper() }
	}},
}

// Tracing wraps every context in WithValue, so this is how std children are
// derived in real programs.
func TestStdChildrenBehindWithValueCostNoGoroutine(t *testing.T) {
	const many = 1000
	for _, c := range contexts {
		for _, wraps := range []int{0, 1, 3} {
			for _, child := range children {
				t.Run(fmt.Sprintf("%s/%d values/%s", c.name, wraps, child.name), func(t *testing.T) {
					c.with(t, func(ctx context.Context) {
						for i := range wraps {
							ctx = context.WithValue(ctx, key(fmt.Sprint(i)), i)
						}
						before := runtime.NumGoroutine()
						stops := make([]func(), many)
						for i := range stops {
							_, stops[i] = child.derive(ctx)
						}
						assert.Less(t, runtime.NumGoroutine(), before+many/10, "but for those that are none of ours")
						for _, stop := range stops {
							stop()
						}
					})
				})
			}
		}
	}
}

// The same for contexts of ours below std ones: a bridge is a callback.
func TestContextsBelowStdParentsCostNoGoroutine(t *testing.T) {
	parent, cancel := context.WithCancel(context.Background())
	defer cancel()
	timed, cancelTimed := context.WithTimeout(enter(t, parent, budget.Within(time.Hour)), time.Minute)
	defer cancelTimed()
	for name, p := range map[string]context.Context{
		"std": parent, "value": context.WithValue(parent, key("a"), 1), "std below ours": timed,
		"value below std below ours": context.WithValue(timed, key("a"), 1),
	} {
		before := runtime.NumGoroutine()
		for range 1000 {
			enter(t, p, budget.Within(time.Second*10))
		}
		assert.Less(t, runtime.NumGoroutine(), before+100, "%s: but for those that are none of ours", name)
	}
}

func TestEndingManyStdChildrenAtOnceTellsEachOfThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel, err := budget.Enter(context.Background(), budget.Within(time.Second).Named("route maximum"))
		require.NoError(t, err)
		defer cancel()
		span := context.WithValue(ctx, key("span"), 1)
		var derived []context.Context
		for range 200 {
			for _, child := range children {
				c, stop := child.derive(span)
				defer stop()
				derived = append(derived, c)
			}
		}
		time.Sleep(time.Second)
		synctest.Wait()
		for i, c := range derived {
			name := children[i%len(children)].name
			require.Error(t, c.Err(), name)
			require.Same(t, context.Cause(ctx), context.Cause(c), name)
			if name != "AfterFunc" { // whose child is a context of the test's own
				require.Equal(t, context.DeadlineExceeded, c.Err(), name)
			}
		}
	})
}

// Values of ours and of others are found from everywhere below.
func TestValuesAreFoundThroughAllLayers(t *testing.T) {
	root := context.WithValue(context.Background(), key("root"), "r")
	outer := enter(t, root, budget.Within(time.Hour))
	span := context.WithValue(outer, key("span"), "s")
	std, cancel := context.WithCancel(span)
	defer cancel()
	inner := enter(t, std, budget.Inherited())
	for k, want := range map[any]any{key("root"): "r", key("span"): "s", key("none"): nil, "string": nil, struct{}{}: nil, nil: nil} {
		assert.Equal(t, want, inner.Value(k), "%v", k)
	}
	assert.Nil(t, outer.Value(key("span")), "a value of a child is no value of its parent")
	assert.NotPanics(t, func() { inner.Value([]int{1}) }, "a key that cannot be compared")
	require.NoError(t, scope.Run(inner, "s", budget.Inherited(), func(ctx context.Context, s *scope.Scope) error {
		assert.Equal(t, "r", ctx.Value(key("root")))
		s.In(context.WithValue(ctx, key("task"), "t")).Go("task", func(ctx context.Context) error {
			assert.Equal(t, "t", ctx.Value(key("task")))
			assert.Equal(t, "s", ctx.Value(key("span")))
			return nil
		})
		return nil
	}))
}

// The text of a std context names its ancestors; ours must not make it panic,
// nor drown it.
func TestContextsHaveAName(t *testing.T) {
	runScope(t, func(ctx context.Context, s *scope.Scope) error {
		child, cancel := context.WithCancel(ctx)
		defer cancel()
		assert.Equal(t, "curfew(order).WithCancel", fmt.Sprint(child))
		s.Go("load", func(ctx context.Context) error {
			assert.Equal(t, "curfew(order/load)", fmt.Sprint(ctx))
			return nil
		})
		return nil
	})
	std := ctxText(enter(t, context.Background(), budget.Within(time.Hour)))
	assert.True(t, strings.HasPrefix(std, "curfew("), std)
}

func ctxText(ctx context.Context) string { return fmt.Sprint(ctx) }
