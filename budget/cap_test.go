package budget_test

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
)

// Whichever of a limit, its cap and its parent is the tightest holds, and the cause
// names those that tightened, in that order.
func TestCapsAndTimeSpentInAChain(t *testing.T) {
	route := budget.Within(2 * time.Second).Named("route maximum")
	changed := budget.NewVar("route maximum", time.Second, 1, time.Hour)
	require.NoError(t, changed.Store(2*time.Second))
	for _, tt := range []struct {
		name   string
		parent time.Duration // zero: none
		limit  func() budget.Limit
		left   time.Duration
		chain  string
	}{
		{"a cap that tightens", 0, func() budget.Limit { return route.AtMost(300*ms, "peer") }, 300 * ms, "peer 300ms < route maximum 2s"},
		{"under a wider parent", 10 * time.Second, func() budget.Limit { return route.AtMost(300*ms, "peer") }, 300 * ms, "peer 300ms < route maximum 2s < edge 10s"},
		{"under a parent between the two", time.Second, func() budget.Limit { return route.AtMost(300*ms, "peer") }, 300 * ms, "peer 300ms < edge 1s"},
		{"under a tighter parent", 100 * ms, func() budget.Limit { return route.AtMost(300*ms, "peer") }, 100 * ms, "edge 100ms"},
		{"a cap that does not tighten", 0, func() budget.Limit { return route.AtMost(8*time.Hour, "peer") }, 2 * time.Second, "route maximum 2s"},
		{"a cap as wide", 0, func() budget.Limit { return route.AtMost(2*time.Second, "peer") }, 2 * time.Second, "route maximum 2s"},
		{"several caps", 0, func() budget.Limit {
			return route.AtMost(400*ms, "a").AtMost(300*ms, "b").AtMost(500*ms, "c")
		}, 300 * ms, "b 300ms < route maximum 2s"},
		{"of an instant, which is later", 0, func() budget.Limit {
			return budget.Until(time.Now().Add(2*time.Second)).Named("window").AtMost(300*ms, "peer")
		}, 300 * ms, "peer 300ms < window until 00:00:02.000"},
		{"of an instant, which is earlier", 0, func() budget.Limit {
			return budget.Until(time.Now().Add(2*time.Second)).Named("window").AtMost(3*time.Second, "peer")
		}, 2 * time.Second, "window until 00:00:02.000"},
		{"of what is inherited", 10 * time.Second, func() budget.Limit { return budget.Inherited().AtMost(300*ms, "peer") }, 300 * ms, "peer 300ms < edge 10s"},
		{"of what is inherited, and tighter", 100 * ms, func() budget.Limit { return budget.Inherited().AtMost(300*ms, "peer") }, 100 * ms, "edge 100ms"},
		{"of what is inherited from nobody", 0, func() budget.Limit { return budget.Inherited().AtMost(300*ms, "peer") }, 300 * ms, "peer 300ms"},
		{"of what is inherited by name", 10 * time.Second, func() budget.Limit { return budget.Inherited().Named("step").AtMost(300*ms, "peer") }, 300 * ms, "peer 300ms < step < edge 10s"},
		{"of a changed Var", 0, func() budget.Limit { return changed.Limit().AtMost(300*ms, "peer") }, 300 * ms, "peer 300ms < route maximum 2s (was 1s)"},
		{"of a Var that is tighter", 0, func() budget.Limit { return changed.Limit().AtMost(3*time.Second, "peer") }, 2 * time.Second, "route maximum 2s (was 1s)"},
		{"with a reserve", 0, func() budget.Limit { return route.Reserve(50*ms).Cleanup(30*ms).AtMost(300*ms, "peer") }, 220 * ms, "peer 300ms < route maximum 2s"},
		{"time spent", 0, func() budget.Limit { return route.Spent(40 * ms) }, 1960 * ms, "route maximum 2s (40ms spent)"},
		{"time spent, twice told", 0, func() budget.Limit { return route.Spent(time.Second).Spent(40 * ms) }, 1960 * ms, "route maximum 2s (40ms spent)"},
		{"no time spent", 0, func() budget.Limit { return route.Spent(0) }, 2 * time.Second, "route maximum 2s"},
		{"time spent under a parent", 1970 * ms, func() budget.Limit { return route.Spent(40 * ms) }, 1960 * ms, "route maximum 2s (40ms spent) < edge 1.97s"},
		{"time spent of a Var", 0, func() budget.Limit { return changed.Limit().Spent(40 * ms) }, 1960 * ms, "route maximum 2s (was 1s) (40ms spent)"},
		{"time spent, and a cap that tightens", 0, func() budget.Limit { return route.Spent(40*ms).AtMost(300*ms, "peer") }, 300 * ms, "peer 300ms < route maximum 2s (40ms spent)"},
		{"time spent, so that a cap does not", 0, func() budget.Limit { return route.Spent(40*ms).AtMost(1970*ms, "peer") }, 1960 * ms, "route maximum 2s (40ms spent)"},
		{"time spent does not move an instant", 0, func() budget.Limit {
			return budget.Until(time.Now().Add(2 * time.Second)).Spent(time.Second)
		}, 2 * time.Second, "until 00:00:02.000"},
		{"nor what is inherited", time.Second, func() budget.Limit { return budget.Inherited().Spent(500 * ms) }, time.Second, "edge 1s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				parent := context.Background()
				if tt.parent > 0 {
					parent = enter(t, parent, budget.Within(tt.parent).Named("edge"))
				}
				limit := tt.limit()
				_, _, err := budget.Enter(parent, limit.Require(time.Hour))
				require.IsType(t, &budget.Cause{}, err)
				assert.Equal(t, tt.chain, refusedChain(tt.chain, err), "refused")
				ctx := enter(t, parent, limit)
				left, _ := budget.Remaining(ctx)
				assert.Equal(t, tt.left, left)
				<-ctx.Done()
				assert.Equal(t, tt.chain, context.Cause(ctx).(*budget.Cause).Limit)
			})
		})
	}
}

// refusedChain is the chain of a refusal, which also names a limit that the parent's
// deadline made no difference to, after what did.
func refusedChain(want string, err error) string {
	got := err.(*budget.Cause).Limit
	if len(got) > len(want) && got[:len(want)] == want {
		return want
	}
	return got
}

func TestNoTimeLeftByACapOrInAQueueIsExpired(t *testing.T) {
	route := budget.Within(2 * time.Second).Named("route maximum")
	for want, limit := range map[string]budget.Limit{
		"limit peer 0s < route maximum 2s":                                        route.AtMost(0, "peer"),
		"limit peer -1ns < route maximum 2s":                                      route.AtMost(-1, "peer"),
		"limit route maximum 2s (2s spent)":                                       route.Spent(2 * time.Second),
		"limit route maximum 2s (1h0m0s spent)":                                   route.Spent(time.Hour),
		"limit peer 0s":                                                           budget.Inherited().AtMost(0, "peer"),
		"limit within -2562047h47m16.854775808s (2562047h47m16.854775807s spent)": budget.Within(math.MinInt64).Spent(math.MaxInt64),
	} {
		_, _, err := budget.Enter(context.Background(), limit)
		assert.EqualError(t, err, "budget: expired on arrival: "+want)
	}
	_, _, err := budget.Enter(context.Background(), budget.Inherited().Spent(time.Second))
	assert.Same(t, budget.ErrNoDeadline, err)
}

// A limit is a value: what is made of it leaves it, and its other offspring, alone.
// As instant has it: what is spent of a negative limit does not make it a long one.
func TestACapOfALimitThatIsOverIsNotNamed(t *testing.T) {
	l := budget.Within(math.MinInt64).Spent(1).AtMost(5, "peer header")
	assert.NotContains(t, l.String(), "peer header")
	_, _, err := budget.Enter(context.Background(), l)
	assert.EqualError(t, err, "budget: expired on arrival: limit "+l.String())
}

func TestCapsDoNotChangeTheLimitTheyAreMadeOf(t *testing.T) {
	route := budget.Within(2 * time.Second).Named("route maximum").Spent(ms)
	a, b := route.AtMost(300*ms, "a"), route.AtMost(200*ms, "b")
	c := a.Spent(5 * ms)
	assert.Equal(t, "route maximum 2s (1ms spent)", route.String())
	assert.Equal(t, "a 300ms < route maximum 2s (1ms spent)", a.String())
	assert.Equal(t, "b 200ms < route maximum 2s (1ms spent)", b.String())
	assert.Equal(t, "a 300ms < route maximum 2s (5ms spent)", c.String())
	assert.Equal(t, "route maximum 2s (1ms spent)", route.AtMost(2*time.Second, "c").String(), "a cap that has no effect is not shown")
	assert.Equal(t, "a 1s", budget.Inherited().AtMost(time.Second, "a").String())
}

func TestMistakesInACapPanicWithTheNameOfTheArgument(t *testing.T) {
	assert.PanicsWithValue(t, "budget: AtMost: empty who", func() { budget.Within(1).AtMost(1, "") })
	assert.PanicsWithValue(t, "budget: Spent: negative duration -1ns", func() { budget.Within(1).Spent(-1) })
}
