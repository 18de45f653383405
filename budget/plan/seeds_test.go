package plan_test

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
	"github.com/curfew-go/curfew/budget/plan"
	"github.com/curfew-go/curfew/budget/wire"
)

const ms = time.Millisecond

// seeds are the vectors of the project, as far as they are about plans.
type seeds struct {
	Slush struct {
		PerHopMs  []int64 `json:"per_hop_ms"`
		Hops      int
		RemovedMs []int64 `json:"removed_ms"`
	}
	Plans []struct {
		Name string
		Fits bool

		SLO, Budget, Own int64
		ClientAndNetwork int64 `json:"client_and_network"`
		Parallel         []map[string]json.RawMessage

		Headroom     int64
		SerialAuth   int64 `json:"serial_auth"`
		MergeReserve int64 `json:"merge_reserve"`
		EachParallel int64 `json:"each_of_three_parallel"`
		Remaining    int64
		Reserve      int64
		Critical     int64
		Optional     int64
		Variance     int64
	}
	WorstCases []struct {
		Name           string
		Attempts       []int
		Calls, Wasted  int
		TimeoutS       int64 `json:"timeout_s"`
		LeafTimeoutS   int64 `json:"leaf_timeout_s"`
		LeafCalls      int   `json:"leaf_calls"`
		Seconds        int64
		SecondsByLevel []int64 `json:"seconds_by_level"`
		Hops           int
	} `json:"worst_cases"`
	Inverted []struct {
		TimeoutsS []int64 `json:"timeouts_s"`
		Outlives  bool    `json:"callee_outlives_caller"`
	}
	Occupancy []struct {
		Name             string
		ArrivalPerS      float64 `json:"arrival_per_s"`
		HeldS            float64 `json:"held_s"`
		InFlight         float64 `json:"in_flight"`
		HeldWithDeadline float64 `json:"held_with_deadline_s"`
		WithDeadline     float64 `json:"in_flight_with_deadline"`
		FromMs           float64 `json:"from_ms"`
		ToS              float64 `json:"to_s"`
		Factor           float64 `json:"occupancy_factor"`
		Threads          float64
		LatencyMs        float64 `json:"latency_ms"`
		DeadShare        float64 `json:"dead_share"`
		DeadlineS        float64 `json:"deadline_s"`
		ServedShare      float64 `json:"served_share"`
	}
	UsefulMinimum []struct {
		Remaining, Minimum int64
		Outcome            string
	} `json:"useful_minimum"`
}

func read(t testing.TB) (s seeds) {
	text, err := os.ReadFile("testdata/seeds.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &s))
	return s
}

func millis(n int64) time.Duration    { return time.Duration(n) * ms }
func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// callOf builds a call from {"name": ms, "serial": [calls], "optional": true}.
func callOf(t testing.TB, m map[string]json.RawMessage) (c plan.Call) {
	for key, value := range m {
		switch key {
		case "optional":
			require.NoError(t, json.Unmarshal(value, &c.Optional))
		case "serial":
			var calls []map[string]json.RawMessage
			require.NoError(t, json.Unmarshal(value, &calls))
			for _, child := range calls {
				c.Calls = append(c.Calls, callOf(t, child))
			}
		default:
			var n int64
			require.NoError(t, json.Unmarshal(value, &n))
			c.Name, c.Timeout = key, millis(n)
		}
	}
	return c
}

// Each plan of the vectors fits as it stands, and no longer when any one of
// what it adds up is raised by what it has to spare and a little more.
func TestPlansOfTheVectors(t *testing.T) {
	ran := 0
	for _, v := range read(t).Plans {
		t.Run(v.Name, func(t *testing.T) {
			ran++
			switch v.Name {
			case "gateway":
				gateway := plan.Call{Name: "gateway", Timeout: millis(v.Budget), Own: millis(v.Own), Parallel: true}
				for _, m := range v.Parallel {
					gateway.Calls = append(gateway.Calls, callOf(t, m))
				}
				client := plan.Call{Name: "client", Timeout: millis(v.SLO), Own: millis(v.ClientAndNetwork), Calls: []plan.Call{gateway}}
				for name, slush := range map[string]func(time.Duration) time.Duration{"none": nil, "default": wire.Slush{}.Of} {
					p, err := plan.Fit(client, slush)
					require.Equal(t, v.Fits, err == nil, "slush %s: %v", name, err)
					assert.Equal(t, 850*ms, p.Timeout("client/gateway"))
					assert.Equal(t, 250*ms, p.Timeout("client/gateway/product/db"))
				}
				client.Own += ms
				_, err := plan.Fit(client, nil)
				assert.EqualError(t, err, "plan: client does not fit by 1ms: own 151ms + gateway 850ms = 1.001s of 1s")
			case "fan-out after auth":
				tree := plan.Call{Name: "page", Timeout: millis(v.SLO), Own: millis(v.Headroom), Reserve: millis(v.MergeReserve), Calls: []plan.Call{
					{Name: "auth", Timeout: millis(v.SerialAuth)},
					{Name: "fan-out", Local: true, Parallel: true, Calls: []plan.Call{{Name: "a"}, {Name: "b"}, {Name: "c"}}},
				}}
				p, err := plan.Fit(tree, wire.Slush{}.Of)
				require.Equal(t, v.Fits, err == nil, "%v", err)
				for _, name := range []string{"a", "b", "c"} {
					assert.Equal(t, millis(v.EachParallel), p.Timeout("page/fan-out/"+name))
				}
				tree.Calls[1].Calls[2].Timeout = millis(v.EachParallel) + 1
				tree.Calls[1].Timeout = tree.Calls[1].Calls[2].Timeout
				_, err = plan.Fit(tree, nil)
				assert.Error(t, err)
			case "dashboard":
				tree := plan.Call{Name: "dashboard", Timeout: millis(v.Remaining), Reserve: millis(v.Reserve), Own: millis(v.Variance), Calls: []plan.Call{
					{Name: "critical", Timeout: millis(v.Critical)},
					{Name: "optional", Timeout: millis(v.Optional), Optional: true},
				}}
				p, err := plan.Fit(tree, nil)
				require.Equal(t, v.Fits, err == nil, "%v", err)
				assert.NotContains(t, p.String(), "spare")
				tree.Calls[1].Timeout++
				_, err = plan.Fit(tree, nil)
				var over *plan.OverrunError
				require.ErrorAs(t, err, &over)
				assert.Equal(t, time.Duration(1), over.Needed-over.Given)
			default:
				t.Fatal("a plan that no test knows")
			}
		})
	}
	assert.Equal(t, 3, ran)
}

// chain is one call below another, each tried so often; the first is what
// the root calls.
func chain(timeout time.Duration, attempts ...int) plan.Call {
	c := plan.Call{Name: "call", Timeout: timeout, Attempts: attempts[0]}
	if len(attempts) > 1 {
		c.Calls = []plan.Call{chain(timeout, attempts[1:]...)}
	}
	return c
}

func TestWorstCasesOfTheVectors(t *testing.T) {
	cases := read(t).WorstCases
	require.Len(t, cases, 6)
	for _, v := range cases {
		t.Run(v.Name, func(t *testing.T) {
			if v.Hops > 0 {
				tree := plan.Call{Name: "chain"}
				for i := range v.Hops {
					tree.Calls = append(tree.Calls, plan.Call{Name: string(rune('a' + i)), Timeout: seconds(float64(v.TimeoutS))})
				}
				assert.Equal(t, seconds(float64(v.Seconds)), plan.WorstCase(tree)[0].Waits)
				assert.Equal(t, seconds(float64(v.Seconds)), plan.WorstCase(tree)[0].Runs)
				return
			}
			timeout := seconds(float64(max(v.TimeoutS, v.LeafTimeoutS)))
			worst := plan.WorstCase(plan.Call{Name: "root", Calls: []plan.Call{chain(timeout, v.Attempts...)}})
			require.Len(t, worst, 1+len(v.Attempts))
			leaf := worst[len(worst)-1]
			if calls := max(v.Calls, v.LeafCalls); calls > 0 {
				assert.Equal(t, calls, leaf.Calls)
			}
			if v.Wasted > 0 {
				assert.Equal(t, v.Wasted, leaf.Calls-1)
			}
			if v.Seconds > 0 {
				assert.Equal(t, seconds(float64(v.Seconds)), worst[1].Runs)
			}
			for i, s := range v.SecondsByLevel { // the innermost first
				assert.Equal(t, seconds(float64(s)), worst[len(worst)-1-i].Runs)
			}
		})
	}
}

func TestInvertedTimeoutsOfTheVectors(t *testing.T) {
	for _, v := range read(t).Inverted {
		tree := plan.Call{Name: "0", Timeout: seconds(float64(v.TimeoutsS[0]))}
		at := &tree
		for i, s := range v.TimeoutsS[1:] {
			at.Calls = []plan.Call{{Name: string(rune('1' + i)), Timeout: seconds(float64(s))}}
			at = &at.Calls[0]
		}
		var problems []string
		for _, f := range plan.Check(tree) {
			problems = append(problems, f.Path+" "+f.Problem)
		}
		require.True(t, v.Outlives)
		assert.Equal(t, []string{"0/1 inverted", "0/1/2 inverted"}, problems)
		_, err := plan.Fit(tree, nil)
		assert.ErrorContains(t, err, "plan: 0 does not fit by 1s: 1 3s = 3s of 2s\nplan: 0/1 does not fit by 2s: 2 5s = 5s of 3s")
	}
}

func TestOccupancyOfTheVectors(t *testing.T) {
	cases := read(t).Occupancy
	require.Len(t, cases, 3)
	for _, v := range cases {
		t.Run(v.Name, func(t *testing.T) {
			latency := seconds(v.LatencyMs / 1000)
			switch {
			case v.InFlight > 0:
				assert.Equal(t, v.InFlight, plan.InFlight(v.ArrivalPerS, seconds(v.HeldS)))
				assert.Equal(t, v.WithDeadline, plan.InFlight(v.ArrivalPerS, seconds(v.HeldWithDeadline)))
			case v.Factor > 0:
				assert.InEpsilon(t, v.Factor, plan.InFlight(7, seconds(v.ToS))/plan.InFlight(7, seconds(v.FromMs/1000)), 1e-9)
			default:
				dead := plan.InFlight(v.ArrivalPerS*v.DeadShare, seconds(v.DeadlineS))
				healthy := plan.InFlight(v.ArrivalPerS*(1-v.DeadShare), latency)
				assert.InDelta(t, v.ServedShare, v.Threads/(dead+healthy), 0.0005)
				assert.Less(t, healthy, v.Threads, "without the dead backend all are served")
			}
		})
	}
}

// What so many hops take off, at so much each, is what Slush adds up to.
func TestSlushOfTheVectors(t *testing.T) {
	v := read(t).Slush
	for i, perHop := range v.PerHopMs {
		tree := chain(0, make([]int, v.Hops+1)...)
		tree.Timeout = 500 * ms
		p, err := plan.Fit(tree, wire.Slush{Floor: millis(perHop), Cap: millis(perHop)}.Of)
		require.NoError(t, err)
		var sum time.Duration
		levels := p.Slush()
		require.Len(t, levels, v.Hops+1)
		assert.Zero(t, levels[0], "there is no hop to the root")
		for _, s := range levels {
			sum += s
		}
		assert.Equal(t, millis(v.RemovedMs[i]), sum)
	}
}

// A Floor becomes the limit's useful minimum.
func TestUsefulMinimumOfTheVectors(t *testing.T) {
	cases := read(t).UsefulMinimum
	require.Len(t, cases, 3)
	for _, v := range cases {
		synctest.Test(t, func(t *testing.T) {
			p, err := plan.Fit(plan.Call{Name: "call", Timeout: time.Second, Floor: millis(v.Minimum)}, nil)
			require.NoError(t, err)
			parent, cancel, err := budget.Enter(context.Background(), budget.Within(millis(v.Remaining)))
			require.NoError(t, err)
			defer cancel()
			_, cancel, err = budget.Enter(parent, p.Limit("call"))
			defer cancel()
			want := map[string]budget.Kind{"run": budget.None, "local_budget_rejected": budget.LocalBudgetRejected}[v.Outcome]
			assert.Equal(t, want, budget.KindOf(err))
		})
	}
}
