package scope_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
)

// TestWhoeverKeepsAnErrorDoesNotKeepWhatTheFunctionsOfTheScopeUsed: an error may stand in
// a list of the last ones for hours.
func TestWhoeverKeepsAnErrorDoesNotKeepWhatTheFunctionsOfTheScopeUsed(t *testing.T) {
	boom := errors.New("boom")
	for name, fail := range map[string]func(ctx context.Context, used *[1 << 10]int) error{
		"All": func(ctx context.Context, used *[1 << 10]int) error {
			_, err := scope.All(ctx, "all",
				func(context.Context) (*[1 << 10]int, error) { used[0]++; return used, nil },
				func(context.Context) (*[1 << 10]int, error) { used[1]++; return nil, boom })
			return err
		},
		"Each": func(ctx context.Context, used *[1 << 10]int) error {
			return scope.Each(ctx, "each", 2, []int{0, 1, 2}, func(_ context.Context, i int) error { used[i]++; return boom })
		},
		"Run": func(ctx context.Context, used *[1 << 10]int) error {
			return scope.Run(ctx, "run", budget.Inherited(), func(_ context.Context, s *scope.Scope) error {
				s.Go("works", func(context.Context) error { used[0]++; return nil })
				s.Go("obeys", func(ctx context.Context) error { <-ctx.Done(); used[1]++; return ctx.Err() })
				s.Go("fails", func(context.Context) error { used[2]++; return boom })
				return s.Wait()
			})
		},
		"Cleanup": func(ctx context.Context, used *[1 << 10]int) error {
			return scope.Run(ctx, "run", budget.Inherited(), func(_ context.Context, s *scope.Scope) error {
				s.Cleanup("release", func(context.Context) error { used[0]++; return nil })
				return boom
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel, _ := budget.Enter(context.Background(), budget.Within(time.Hour))
			defer cancel()
			var used weak.Pointer[[1 << 10]int]
			kept := func() error {
				u := new([1 << 10]int)
				used = weak.Make(u)
				return fail(ctx, u)
			}()
			assert.ErrorIs(t, kept, boom)
			assert.Eventually(t, func() bool {
				runtime.GC()
				return used.Value() == nil
			}, 10*time.Second, time.Millisecond)
			runtime.KeepAlive(kept)
		})
	}
}
