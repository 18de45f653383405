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
	"github.com/curfew-go/curfew/scope"
)

// What contexts are asked for in these tests.
type (
	spanKey  struct{}
	childKey struct{}
)

// TestInGivesTheTaskTheContextsValues holds S19: a task started in a derived
// context sees its values, at every depth, and is of the scope all the same.
func TestInGivesTheTaskTheContextsValues(t *testing.T) {
	for name, derive := range map[string]func(context.Context) (context.Context, context.CancelFunc){
		"a value": func(ctx context.Context) (context.Context, context.CancelFunc) { return ctx, func() {} },
		"a cancel": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithCancel(ctx)
		},
		"a timeout": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Minute)
		},
		"a shield": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithoutCancel(ctx), func() {}
		},
		"a budget": func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel, _ := budget.Enter(ctx, budget.Within(time.Minute))
			return ctx, cancel
		},
		"a detached block": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return budget.Detached(ctx, time.Minute)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				err := scope.Run(t.Context(), "shop", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
					span, cancel := derive(context.WithValue(ctx, spanKey{}, "span"))
					defer cancel()
					for _, h := range []*scope.Scope{s.In(span), s.In(span).Limit(budget.Within(time.Second)), s.Limit(budget.Within(time.Second)).In(span)} {
						h.Go("task", func(ctx context.Context) error {
							assert.Equal(t, "span", ctx.Value(spanKey{}))
							assert.NotEqual(t, "child", ctx.Value(childKey{}))
							// From the task's own context, the scope can be handed on.
							s.In(context.WithValue(ctx, childKey{}, "child")).Go("child", func(ctx context.Context) error {
								assert.Equal(t, "span", ctx.Value(spanKey{}))
								assert.Equal(t, "child", ctx.Value(childKey{}))
								return nil
							})
							return nil
						})
					}
					s.Go("plain", func(ctx context.Context) error {
						assert.Nil(t, ctx.Value(spanKey{}), "a handle changes nothing for others")
						return nil
					})
					return s.Wait()
				})
				assert.NoError(t, err)
			})
		})
	}
}

// TestInTakesTheTighterEnd: of the derived context and the scope, whichever
// ends first ends the task, and the cause says which.
func TestInTakesTheTighterEnd(t *testing.T) {
	for name, c := range map[string]struct {
		span  func(ctx context.Context) (context.Context, context.CancelFunc)
		limit budget.Limit // of the handle
		after time.Duration
		kind  budget.Kind
		scope bool // whether it was the scope's end
	}{
		"the span's timeout": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Second)
		}, budget.Inherited(), time.Second, budget.DeadlineExceeded, false},
		"the scope's deadline": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Hour)
		}, budget.Inherited(), time.Minute, budget.DeadlineExceeded, true},
		"the scope's deadline, through a shield": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithoutCancel(ctx), func() {}
		}, budget.Inherited(), time.Minute, budget.DeadlineExceeded, true},
		"the scope's deadline, through a shield with a timeout": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(context.WithoutCancel(ctx), time.Hour)
		}, budget.Inherited(), time.Minute, budget.DeadlineExceeded, true},
		"the shield's own timeout": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		}, budget.Inherited(), time.Second, budget.DeadlineExceeded, false},
		"the handle's limit": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Hour)
		}, budget.Within(time.Second), time.Second, budget.DeadlineExceeded, false},
		"the handle's limit cannot extend": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return ctx, func() {}
		}, budget.Within(time.Hour), time.Minute, budget.DeadlineExceeded, true},
		"the span's cancel": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(time.Second, cancel)
			return ctx, cancel
		}, budget.Inherited(), time.Second, budget.ParentCancelled, false},
		"a detached block's bound": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return budget.Detached(ctx, time.Second)
		}, budget.Inherited(), time.Second, budget.DeadlineExceeded, false},
		"the scope's deadline, through a detached block": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return budget.Detached(ctx, time.Hour)
		}, budget.Inherited(), time.Minute, budget.DeadlineExceeded, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				err := scope.Run(t.Context(), "shop", budget.Within(time.Minute), func(ctx context.Context, s *scope.Scope) error {
					span, cancel := c.span(ctx)
					defer cancel()
					task := scope.Fork(s.In(span).Limit(c.limit), "task", func(ctx context.Context) (int, error) {
						deadline, ok := ctx.Deadline()
						assert.True(t, ok)
						if c.kind == budget.DeadlineExceeded {
							assert.Equal(t, start.Add(c.after), deadline)
						}
						return 0, obedient(ctx)
					})
					_, err := task.Wait(context.Background())
					assert.Equal(t, c.after, time.Since(start))
					assert.Equal(t, c.kind, budget.KindOf(err), "%v", err)
					assert.Equal(t, c.scope, err == context.Cause(ctx), "one event, one cause: %v, %v", err, context.Cause(ctx))
					return nil
				})
				var e *scope.Error
				require.ErrorAs(t, err, &e)
				if c.scope {
					assert.Equal(t, budget.DeadlineExceeded, e.Cause.Kind)
					assert.Empty(t, e.Failures, "the task was cut, it did not fail")
				} else {
					assert.Equal(t, budget.Failed, e.Cause.Kind, "the scope had not ended: the task failed it")
					assert.Equal(t, []string{"task"}, namesOf(e.Failures))
				}
			})
		})
	}
}

// TestNoHandleOutlivesTheScopesEnd: whatever context a task was started in, a
// failure reaches it at once, with the scope's cause.
func TestNoHandleOutlivesTheScopesEnd(t *testing.T) {
	type derive = func(context.Context) (context.Context, context.CancelFunc)
	plain := func(ctx context.Context) (context.Context, context.CancelFunc) { return ctx, func() {} }
	for name, derive := range map[string]derive{
		"plain": plain,
		"a value": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return plain(context.WithValue(ctx, spanKey{}, 1))
		},
		"a std child": context.WithCancel,
		"a shield": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return plain(context.WithoutCancel(ctx))
		},
		"a shield, cancellable": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithCancel(context.WithoutCancel(ctx))
		},
		"a detached block": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return budget.Detached(ctx, time.Hour)
		},
	} {
		for _, limit := range []budget.Limit{budget.Inherited(), budget.Within(30 * time.Minute)} {
			t.Run(fmt.Sprint(name, ", ", limit), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					boom := errors.New("boom")
					start := time.Now()
					var cancel context.CancelFunc
					defer func() { cancel() }() // not in the body, where it would come before the failure
					err := scope.Run(t.Context(), "shop", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
						var span context.Context
						span, cancel = derive(ctx)
						s.In(span).Limit(limit).Go("task", func(ctx context.Context) error {
							<-ctx.Done()
							cause := context.Cause(ctx)
							assert.ErrorIs(t, cause, boom)
							assert.Equal(t, budget.SiblingFailed, budget.KindOf(cause))
							return cause
						})
						time.Sleep(time.Second)
						return boom
					})
					assert.Equal(t, time.Second, time.Since(start))
					assert.NotErrorIs(t, err, context.Canceled)
					var e *scope.Error
					require.ErrorAs(t, err, &e)
					assert.Equal(t, []string{""}, namesOf(e.Failures))
					assert.Equal(t, []string{"task"}, namesOf(e.Late))
				})
			})
		}
	}
}

// TestInPanicsForAForeignContext: only a context of the scope, or of what runs
// in it, will do.
func TestInPanicsForAForeignContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent := context.WithValue(t.Context(), spanKey{}, 1)
		err := scope.Run(parent, "outer", budget.Within(time.Hour), func(outer context.Context, o *scope.Scope) error {
			var sibling context.Context
			o.Go("sibling", func(ctx context.Context) error { sibling = ctx; return nil })
			require.NoError(t, o.Wait())
			return scope.Run(outer, "shop", budget.Inherited(), func(ctx context.Context, s *scope.Scope) error {
				for name, foreign := range map[string]context.Context{
					"the background":                    context.Background(),
					"the parent's":                      parent,
					"the outer scope's":                 outer,
					"an outer task's":                   sibling,
					"an outer scope's, derived":         context.WithValue(outer, spanKey{}, 2),
					"one made to look like the scope's": context.WithValue(parent, spanKey{}, ctx),
				} {
					v := fmt.Sprint(recovered(func() { s.In(foreign) }))
					assert.Contains(t, v, "outer/shop", name)
					assert.Contains(t, v, "In", name)
				}
				assert.Nil(t, recovered(func() {
					s.In(ctx)
					o.In(ctx) // the inner scope runs in the outer one
					o.In(sibling)
				}))
				return nil
			})
		})
		assert.NoError(t, err)
	})
}
