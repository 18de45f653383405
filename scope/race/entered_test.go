package race_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/ctxnode"
	"github.com/curfew-go/curfew/scope"
	"github.com/curfew-go/curfew/scope/race"
)

// The first attempt of a hedge enters the race by itself. What is made for others later
// is as if it had been there from the beginning.

// TestAHedgeIsUnderTheLimitAsOfTheBeginning: a Var that is changed while the race is
// on counts for the next one.
func TestAHedgeIsUnderTheLimitAsOfTheBeginning(t *testing.T) {
	for name, c := range map[string]struct {
		then  time.Duration
		limit func(budget.Limit) budget.Limit
	}{
		"widened":   {10 * time.Second, func(l budget.Limit) budget.Limit { return l }},
		"tightened": {10 * time.Millisecond, func(l budget.Limit) budget.Limit { return l.Require(50 * time.Millisecond) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				routeMax := budget.NewVar("route maximum", 100*time.Millisecond, time.Millisecond, time.Minute)
				err := scope.Run(t.Context(), "shop", budget.Within(time.Hour), func(ctx context.Context, _ *scope.Scope) error {
					began := time.Now()
					hedges := race.Config[int]{Limit: c.limit(routeMax.Limit()), After: func() time.Duration { return time.Hour }}
					_, err := hedges.Hedge(ctx, "price", func(ctx context.Context) (int, error) {
						if race.Attempt(ctx) == 0 {
							assert.NoError(t, routeMax.Store(c.then))
							return 0, errors.New("first")
						}
						<-ctx.Done()
						return 0, context.Cause(ctx)
					})
					assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err))
					assert.Equal(t, 100*time.Millisecond, time.Since(began))
					assert.Contains(t, err.Error(), "route maximum 100ms")
					return nil
				})
				require.NoError(t, err)
			})
		})
	}
}

// TestAnInlinePanicLeavesNothingBelowItsScope: also when a hedge was about to begin.
func TestAnInlinePanicLeavesNothingBelowItsScope(t *testing.T) {
	err := scope.Run(t.Context(), "shop", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
		for i := range 5000 {
			assert.Panics(t, func() {
				hedges := race.Config[int]{Limit: budget.Within(time.Minute), Inline: true, After: func() time.Duration { return 0 }}
				_, _ = hedges.Hedge(ctx, "price", func(ctx context.Context) (int, error) {
					if race.Attempt(ctx) > 0 {
						return 1, nil
					}
					for range i % 3 {
						runtime.Gosched()
					}
					panic("down")
				})
			})
		}
		assert.NoError(t, s.Wait())
		assert.Eventually(t, func() bool { return len(ctxnode.Find(ctx).Node().Children()) == 0 }, 10*time.Second, time.Millisecond)
		return nil
	})
	require.NoError(t, err)
}
