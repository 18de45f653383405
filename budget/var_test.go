package budget_test

import (
	"context"
	"flag"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
)

var _ flag.Value = (*budget.Var)(nil)

func newVar() *budget.Var {
	return budget.NewVar("route maximum", 2*time.Second, 100*ms, 30*time.Second)
}

// A limit that was built once, at the start, follows every change; work that runs
// keeps the deadline that it has told others.
func TestAChangeHoldsForWorkEnteredFromThenOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newVar()
		limit := v.Limit().Reserve(500 * ms)
		left := func(ctx context.Context) time.Duration { d, _ := budget.Remaining(ctx); return d }
		before := enter(t, context.Background(), limit)
		assert.Equal(t, 1500*ms, left(before))

		require.NoError(t, v.Store(5*time.Second))
		widened := enter(t, context.Background(), limit)
		assert.Equal(t, 4500*ms, left(widened))
		assert.Equal(t, 1500*ms, left(before))

		require.NoError(t, v.Set("1s"))
		assert.Equal(t, 500*ms, left(enter(t, context.Background(), limit)))
		assert.Equal(t, 1500*ms, left(before))
		assert.Equal(t, time.Second, v.Duration())

		<-before.Done()
		<-widened.Done()
		assert.EqualError(t, context.Cause(before), "budget: deadline exceeded: limit route maximum 2s")
		assert.EqualError(t, context.Cause(widened), "budget: deadline exceeded: limit route maximum 5s (was 2s)",
			"a cause tells of the value that the work had, and that somebody changed it")
	})
}

func TestAChangedLimitShowsWhereverLimitsAreNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newVar()
		assert.Equal(t, "route maximum 2s", v.Limit().String())
		require.NoError(t, v.Store(3*time.Second))
		assert.Equal(t, "route maximum 3s (was 2s)", v.Limit().String())
		assert.Equal(t, "checkout 3s (was 2s)", v.Limit().Named("checkout").String())

		outer := enter(t, context.Background(), budget.Within(10*time.Second).Named("edge"))
		work := enter(t, outer, v.Limit().AtMost(time.Second, "peer header"))
		assert.EqualError(t, budget.Require(work, time.Minute),
			"budget: local budget rejected: limit peer header 1s < route maximum 3s (was 2s) < edge 10s")
		_, _, err := budget.Enter(outer, v.Limit().Require(time.Minute))
		assert.EqualError(t, err, "budget: local budget rejected: limit route maximum 3s (was 2s) < edge 10s")

		err = scope.Run(context.Background(), "order", v.Limit(), func(ctx context.Context, s *scope.Scope) error {
			s.Limit(v.Limit()).Go("payment", func(ctx context.Context) error {
				<-ctx.Done()
				return context.Cause(ctx)
			})
			return nil
		})
		assert.ErrorContains(t, err, "limit route maximum 3s (was 2s)")

		<-work.Done()
		_, _, err = budget.Enter(work, v.Limit())
		assert.ErrorContains(t, err, "budget: expired on arrival: limit peer header 1s < route maximum 3s (was 2s) < edge 10s < route maximum 3s (was 2s)")

		require.NoError(t, v.Store(2*time.Second))
		assert.Equal(t, "route maximum 2s", v.Limit().String(), "back to what it was made with")
	})
}

// What is out of bounds, or no duration, changes nothing.
func TestABadValueLeavesAVarAsItIs(t *testing.T) {
	v := newVar()
	for text, want := range map[string]string{
		"99ms":  "budget: route maximum: 99ms is not between 100ms and 30s",
		"30.1s": "budget: route maximum: 30.1s is not between 100ms and 30s",
		"0s":    "budget: route maximum: 0s is not between 100ms and 30s",
		"-1s":   "budget: route maximum: -1s is not between 100ms and 30s",
		"":      `budget: route maximum: time: invalid duration ""`,
		"5":     `budget: route maximum: time: missing unit in duration "5"`,
		"soon":  `budget: route maximum: time: invalid duration "soon"`,
	} {
		assert.EqualError(t, v.Set(text), want)
		assert.Equal(t, 2*time.Second, v.Duration())
	}
	for _, text := range []string{"100ms", "30s", "0.5s", "1m-40s30s"} {
		if d, err := time.ParseDuration(text); err == nil {
			assert.NoError(t, v.Set(text))
			assert.Equal(t, d, v.Duration())
			assert.Equal(t, d.String(), v.String())
		}
	}
}

func TestAVarIsAFlag(t *testing.T) {
	assert.Equal(t, "0s", (&budget.Var{}).String(), "package flag asks a zero one")
	v := newVar()
	flags := flag.NewFlagSet("server", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Var(v, "route-max", "the most time a request may take")
	assert.Equal(t, "2s", flags.Lookup("route-max").DefValue)
	require.NoError(t, flags.Parse([]string{"-route-max=5s"}))
	assert.Equal(t, 5*time.Second, v.Duration())
	assert.ErrorContains(t, flags.Parse([]string{"-route-max=1h"}), "budget: route maximum: 1h0m0s is not between 100ms and 30s")
	flags.PrintDefaults()
	assert.Equal(t, 5*time.Second, v.Duration())
}

// Whoever enters while others change the value gets one of the values whole: the
// deadline is the one that the cause names.
func TestEnteringRacesWithChanges(t *testing.T) {
	v := newVar()
	values := []time.Duration{2 * time.Second, 5 * time.Second, 20 * time.Second}
	limit := v.Limit().Require(time.Hour) // refused, so the cause tells at once
	var seen [3]int
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for n := range 2000 {
				if err := v.Store(values[(n+i)%3]); err != nil {
					t.Error(err)
				}
				_, _, err := budget.Enter(context.Background(), limit)
				for k, want := range []string{"limit route maximum 2s", "limit route maximum 5s (was 2s)", "limit route maximum 20s (was 2s)"} {
					if err.Error() == "budget: local budget rejected: "+want {
						mu.Lock()
						seen[k]++
						mu.Unlock()
					}
				}
			}
		})
	}
	all.Wait()
	assert.Equal(t, 4*2000, seen[0]+seen[1]+seen[2])
	for k, n := range seen {
		assert.Positive(t, n, "%v was never seen", values[k])
	}
}

func TestMistakesInAVarPanicWithTheNameOfTheArgument(t *testing.T) {
	for want, f := range map[string]func(){
		"budget: NewVar: empty name":                       func() { budget.NewVar("", 1, 1, 1) },
		"budget: NewVar: low 0s is not positive":           func() { budget.NewVar("a", 0, 0, 1) },
		"budget: NewVar: high 1ns is below low 2ns":        func() { budget.NewVar("a", 1, 2, 1) },
		"budget: NewVar: d 1ns is not between 2ns and 3ns": func() { budget.NewVar("a", 1, 2, 3) },
		"budget: NewVar: d 4ns is not between 2ns and 3ns": func() { budget.NewVar("a", 4, 2, 3) },
	} {
		assert.PanicsWithValue(t, want, f)
	}
}
