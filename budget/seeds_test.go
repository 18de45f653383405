package budget_test

import (
	"context"
	"encoding/json"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
)

// The worked numbers of the problem that this project solves.
func TestSeeds(t *testing.T) {
	var seeds struct {
		Hops []struct {
			Name         string
			Arrive       []int64
			Spent        json.RawMessage // a list, or a number
			Next         int64
			Needs        int64
			Outcome      string
			FreshTimeout int64 `json:"fresh_timeout"`
			WithDeadline int64 `json:"with_deadline"`
			RunsUntil    int64 `json:"runs_until"`
		}
		UsefulMinimum []struct {
			Remaining, Minimum int64
			Outcome            string
		} `json:"useful_minimum"`
		SkewMs []int64 `json:"skew_ms"`
	}
	text, err := os.ReadFile("testdata/seeds.json") // of the project's vectors, what is about budgets
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &seeds))
	millis := func(n int64) time.Duration { return time.Duration(n) * ms }

	require.Len(t, seeds.Hops, 5)
	for _, hop := range seeds.Hops {
		t.Run(hop.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var arrive []time.Duration
				for _, n := range hop.Arrive {
					arrive = append(arrive, millis(n))
				}
				if hop.Next > 0 {
					arrive = append(arrive, millis(hop.Next))
				}
				if hop.FreshTimeout > 0 { // the fault: a hop that takes a timeout of its own, where a deadline holds
					var spent int64
					require.NoError(t, json.Unmarshal(hop.Spent, &spent))
					ctx := enter(t, context.Background(), budget.Within(millis(hop.WithDeadline)))
					start := time.Now()
					time.Sleep(millis(spent))
					<-enter(t, ctx, budget.Within(millis(hop.FreshTimeout))).Done()
					assert.Equal(t, millis(hop.WithDeadline), time.Since(start))
					assert.Less(t, hop.WithDeadline, hop.RunsUntil)
					return
				}
				// Every hop asks for a minute of its own; what it gets is what is left.
				ctx := enter(t, context.Background(), budget.Within(arrive[0]).Named("edge"))
				for i, want := range arrive {
					left, _ := budget.Remaining(ctx)
					assert.Equal(t, want, left, "hop %d", i)
					if i+1 < len(arrive) {
						time.Sleep(want - arrive[i+1])
						ctx = enter(t, ctx, budget.Within(time.Minute))
					}
				}
				if hop.Needs > 0 {
					_, _, err := budget.Enter(ctx, budget.Inherited().Require(millis(hop.Needs)))
					require.Equal(t, "local_budget_rejected before any work", hop.Outcome)
					assert.Equal(t, budget.LocalBudgetRejected, budget.KindOf(err))
				}
			})
		})
	}

	require.Len(t, seeds.UsefulMinimum, 3)
	for _, tt := range seeds.UsefulMinimum {
		synctest.Test(t, func(t *testing.T) {
			want := map[string]budget.Kind{"run": budget.None, "local_budget_rejected": budget.LocalBudgetRejected}[tt.Outcome]
			ctx := enter(t, context.Background(), budget.Within(millis(tt.Remaining)))
			assert.Equal(t, want, budget.KindOf(budget.Require(ctx, millis(tt.Minimum))))
			inner, cancel, err := budget.Enter(ctx, budget.Within(time.Minute).Require(millis(tt.Minimum)))
			defer cancel()
			assert.Equal(t, want, budget.KindOf(err))
			if err == nil {
				left, _ := budget.Remaining(inner)
				assert.Equal(t, millis(tt.Remaining), left, "a useful minimum never raises what is left")
			}
		})
	}

	require.NotEmpty(t, seeds.SkewMs)
	for _, skew := range seeds.SkewMs {
		moved := jumped(t, time.Now(), millis(skew).Truncate(time.Second))
		inMinutes(t, 10, enter(t, context.Background(), budget.Until(moved.Add(10*time.Minute))))
	}
}
