package scope_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
)

// TestAServiceMayWaitForTheScope: nobody waits for a service before the others have
// ended, so it does not wait for itself.
func TestAServiceMayWaitForTheScope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var after time.Duration
		assert.NoError(t, scope.Run(t.Context(), "x", budget.Within(time.Minute), func(_ context.Context, s *scope.Scope) error {
			s.Go("work", func(context.Context) error { time.Sleep(time.Second); return nil })
			s.Service().Go("last", func(context.Context) error {
				err := s.Wait()
				after = time.Since(start)
				return err
			})
			return s.Wait()
		}))
		assert.Equal(t, time.Second, after)
	})
}

// TestATaskThatWaitsForItsScopeWhileItIsBeingStartedPanics: the body waits in Start
// for a task that waits for itself.
func TestATaskThatWaitsForItsScopeWhileItIsBeingStartedPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		ctx := scope.WithTrace(t.Context(), &scope.Trace{TaskPanicked: func(*scope.PanicError) {}})
		assert.PanicsWithError(t, `scope: Wait: task "server" waits for its own scope "x"`, func() {
			defer func() {
				if pe, ok := recover().(*scope.PanicError); ok {
					panic(errors.New(pe.Value.(string)))
				}
			}()
			scope.Run(ctx, "x", budget.Within(time.Hour), func(_ context.Context, s *scope.Scope) error {
				_, err := scope.Start(s, "server", func(_ context.Context, ready func(int)) error {
					s.Wait()
					ready(1)
					return nil
				})
				return err
			})
		})
		assert.Zero(t, time.Since(start))
	})
}

func TestTheLongestBackoffDoesNotOverflow(t *testing.T) {
	for name, b := range map[string]scope.Backoff{
		"first":   {First: math.MaxInt64},
		"doubled": {First: math.MaxInt64/2 + 1, Max: math.MaxInt64},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var waits []time.Duration
				ctx := scope.WithTrace(t.Context(), &scope.Trace{TaskRestarted: func(_, _ string, _ error, wait time.Duration) { waits = append(waits, wait) }})
				scope.Run(ctx, "x", budget.Within(time.Hour), func(_ context.Context, s *scope.Scope) error {
					s.Restart(b).Go("fails", func(context.Context) error { return errors.New("boom") })
					return nil
				})
				assert.NotEmpty(t, waits)
				for _, wait := range waits {
					assert.GreaterOrEqual(t, wait, time.Duration(0))
				}
			})
		})
	}
}
