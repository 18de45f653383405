package scope_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
)

// TestDrainFromItsOwnWorkPanics: it would wait for itself, for most of the time that
// it was given, and then name itself as what was left.
func TestDrainFromItsOwnWorkPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := scope.NewRoot("shop")
		drain := func(ctx context.Context, name string) {
			assert.PanicsWithValue(t, fmt.Sprintf("scope: Root.Drain: task %q waits for itself", name), func() {
				ctx, cancel := context.WithTimeout(ctx, time.Minute)
				defer cancel()
				root.Drain(ctx)
			})
		}
		require.NoError(t, root.Serve("signals", func(ctx context.Context) error {
			drain(ctx, "signals")
			return nil
		}))
		require.NoError(t, root.Go(t.Context(), "mail", budget.Within(time.Hour), func(ctx context.Context) error {
			return scope.Run(ctx, "send", budget.Inherited(), func(_ context.Context, s *scope.Scope) error {
				s.Go("one", func(ctx context.Context) error { drain(ctx, "one"); return nil })
				return nil
			})
		}))
		synctest.Wait()
		require.NoError(t, root.Go(t.Context(), "after", budget.Within(time.Hour), func(context.Context) error { return nil }), "nothing has begun to drain")
		request, cancel := context.WithCancel(root.Context())
		defer cancel()
		require.NoError(t, scope.Run(request, "request", budget.Within(time.Hour), func(_ context.Context, s *scope.Scope) error {
			s.Go("task", func(ctx context.Context) error { drain(ctx, "task"); return nil })
			return nil
		}))
		require.NoError(t, drainWithin(t, root, time.Minute))
	})
}

// TestAServerThatEndsWithItsContextHasNotFailed: whether it returns the cause or, as
// most code does, ctx.Err(). Work that was to be done and is not is another matter.
func TestAServerThatEndsWithItsContextHasNotFailed(t *testing.T) {
	for name, f := range map[string]func(ctx context.Context) error{
		"err":   func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"cause": func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) },
		"run": func(ctx context.Context) error {
			return scope.Run(ctx, "unit", budget.Within(time.Hour), func(ctx context.Context, _ *scope.Scope) error {
				<-ctx.Done()
				return ctx.Err()
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				root := scope.NewRoot("shop")
				var failed []string
				root.SetTrace(&scope.Trace{TaskFailed: func(_, task string, _ error) { failed = append(failed, task) }})
				require.NoError(t, root.Serve("server", f))
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				assert.NoError(t, root.DrainAfter(ctx, 10*time.Second))
				assert.Empty(t, failed)

				root = scope.NewRoot("shop")
				root.SetTrace(&scope.Trace{TaskFailed: func(_, task string, _ error) { failed = append(failed, task) }})
				require.NoError(t, root.Go(t.Context(), "mail", budget.Within(time.Hour), f))
				var e *scope.DrainError
				require.ErrorAs(t, root.DrainAfter(ctx, 10*time.Second), &e)
				assert.Len(t, e.Cut, 1)
				assert.Equal(t, []string{"mail"}, failed)
			})
		})
	}
}

func TestANilContextPanicsWithTheNameOfTheFunction(t *testing.T) {
	root := scope.NewRoot("shop")
	var none context.Context
	for name, call := range map[string]func(){
		"Root.Drain": func() { root.Drain(none) },
		"DrainAfter": func() { root.DrainAfter(none, time.Second) },
		"WithTrace":  func() { scope.WithTrace(none, &scope.Trace{}) },
		"Stopping":   func() { scope.Stopping(none) },
	} {
		assert.PanicsWithValue(t, "scope: "+name+": nil context", call)
	}
}

// A broken error panics when it is asked for its text, as many do through a nil pointer.
type broken struct{ text string }

func (e *broken) Error() string { return e.text }

// An asking error asks its scope.
type asking struct{ s *scope.Scope }

func (e *asking) Error() string { return fmt.Sprintf("one of %d", e.s.Stats().Started) }

// TestTheTreeAsksErrorsForTheirTextsWithoutALock: what they do is not ours.
func TestTheTreeAsksErrorsForTheirTextsWithoutALock(t *testing.T) {
	for name, c := range map[string]struct {
		err  func(*scope.Scope) error
		want string
	}{
		"panics":     {func(*scope.Scope) error { return (*broken)(nil) }, "PANIC"},
		"calls back": {func(s *scope.Scope) error { return &asking{s} }, "one of 2"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				root := scope.NewRoot("shop")
				root.SetTrace(&scope.Trace{Straggler: func(scope.Straggler) {}})
				scope.Run(root.Context(), "x", budget.Within(time.Minute), func(ctx context.Context, s *scope.Scope) error {
					s.Go("slow", func(ctx context.Context) error { <-ctx.Done(); time.Sleep(time.Second); return nil })
					s.Go("bad", func(context.Context) error { return c.err(s) })
					<-ctx.Done()
					synctest.Wait()
					var text strings.Builder
					assert.NoError(t, root.WriteText(&text))
					assert.Equal(t, 2, strings.Count(text.String(), c.want), "for the scope and for its task: %s", &text)
					assert.NoError(t, root.WriteJSON(io.Discard))
					return nil
				})
			})
		})
	}
}
