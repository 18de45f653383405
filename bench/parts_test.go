package bench

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestASystemThatPanicsOrCannotRunIsLeftOutAndTheOthersGoOn(t *testing.T) {
	closed := 0
	c := Case{Name: "c", Systems: []System{
		{"panics", func() Work { return Work{Op: func(int) { panic("boom") }, Close: func() { closed++ }} }},
		{"missing", func() Work { return Work{Skip: "no server"} }},
		op("works", func() {}),
	}, Bounds: []Bound{atMost("ns/op", "missing", 1)}}
	r := Run("s", c, Scale{Tiny: true})
	assert.Equal(t, map[string]string{"panics": "failed: boom", "missing": "no server"}, r.LeftOut)
	assert.True(t, r.Failed())
	assert.Equal(t, 1, closed)
	assert.NotEmpty(t, r.Series["works"]["ns/op"])
	assert.Equal(t, "not measured", r.Findings()[0].verdict())
}

func TestRoundsEndWithTheTimeOfTheCase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pace := Scale{}.pace()
		for takes, rounds := range map[time.Duration]int{
			2 * pace.allowance: pace.least, pace.allowance / 10: 10, time.Millisecond: pace.most,
		} {
			slow := System{"slow", func() Work {
				return Work{Sample: func() []Metric {
					time.Sleep(takes)
					return []Metric{{"x", 1}}
				}}
			}}
			r := Run("s", Case{Name: "c", Main: "x", Systems: []System{slow}}, Scale{})
			assert.Equal(t, rounds, r.Rounds, takes)
			assert.Len(t, r.Series["slow"]["x"], rounds)
		}
	})
}

func TestAFineCaseHasMoreAndShorterTurnsInTheSameTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		step := System{"step", func() Work {
			return Work{Sample: func() []Metric {
				time.Sleep(5 * time.Millisecond)
				return []Metric{{"x", 1}}
			}}
		}}
		plain := Case{Name: "c", Main: "x", Systems: []System{step}}
		fine := plain
		fine.Fine = true
		few, many := Run("s", plain, Scale{}), Run("s", fine, Scale{})
		assert.Equal(t, 41, few.Rounds)
		assert.Len(t, few.Series["step"]["x"][0], 4, "20 ms")
		assert.Equal(t, 410, many.Rounds)
		assert.Len(t, many.Series["step"]["x"][0], 1, "5 ms")
	})
}

func TestNobodyAlwaysComesAfterTheSame(t *testing.T) {
	for n := 2; n <= 7; n++ {
		after := map[[2]int]int{}
		begins := map[int]int{}
		for round := range 2 * n {
			seen := map[int]bool{}
			for k := range n {
				i := turnOf(round, k, n)
				assert.False(t, seen[i], "each has one turn in a round")
				seen[i] = true
				if k > 0 {
					after[[2]int{i, turnOf(round, k-1, n)}]++
				}
			}
			begins[turnOf(round, 0, n)]++
		}
		assert.Len(t, begins, n, "each begins as often")
		for i := range n {
			assert.Equal(t, 2, begins[i])
			next, before := (i+1)%n, (i+n-1)%n
			assert.Equal(t, after[[2]int{i, next}] > 0, after[[2]int{i, before}] > 0, "comes after both of its neighbours")
		}
	}
}

func TestWhatCheckoutSaysIsReadAndWhatItLeavesOutIsFoundOut(t *testing.T) {
	const figures = `{"users": 10, "warehouse_calls_mean": 1.5, "warehouse_calls_worst": 3, "worst_total_seconds": 2.9, "load_multiplier": 1.1,
		"availability": 0.95, "availability_second_half": 0.9, "p50_seconds": 2, "p99_seconds": 2.8, "wasted_share": 0.01, "generator_late_p99_seconds": 0.02}`
	before, curfew, err := readCheckout([]byte(`{"before": ` + figures + `, "curfew": ` + figures + `, "bounds": [{"name": "a", "met": true}, {"name": "b"}]}`))
	require.NoError(t, err)
	assert.Contains(t, before, Metric{"availability-%", 95})
	assert.NotContains(t, before, Metric{"bounds-missed", 1})
	assert.Contains(t, curfew, Metric{"bounds-missed", 1})
	for text, want := range map[string]string{
		`{"before": ` + figures + `, "curfew": {"users": 1}, "bounds": [{}]}`: "does not report calls-worst",
		`{"curfew": ` + figures + `, "bounds": [{}]}`:                         "both modes",
		`{"before": ` + figures + `, "curfew": ` + figures + `}`:              "does not report bounds",
		`no`: "what checkout says",
	} {
		_, _, err := readCheckout([]byte(text))
		assert.ErrorContains(t, err, want)
	}
}

func TestTheWorstSecondIsFoundBetweenTheClocksSeconds(t *testing.T) {
	var ended, hedged []time.Duration
	for at := time.Duration(0); at < 10*time.Second; at += 10 * time.Millisecond {
		ended = append(ended, at)
		if at >= 4500*time.Millisecond && at < 5*time.Second {
			hedged = append(hedged, at)
		}
	}
	calls := func(n float64) float64 { return n }
	assert.InDelta(t, .5, most(ended, hedged, 3*time.Second, 10*time.Second, calls), .001)
	assert.InDelta(t, .25, most(ended, hedged, 3*time.Second, 10*time.Second, func(n float64) float64 { return n + 100 }), .001)
	assert.InDelta(t, .49, most(ended, hedged, 4010*time.Millisecond, 5*time.Second+10*time.Millisecond, calls), .011)
	assert.Zero(t, most(ended, hedged, 6*time.Second, 10*time.Second, calls))
}

// The table of the simulator's own runs, for a tenth and half of the attempts failing.
func TestTheStormsOfOneClassAreThoseOfTheSimulator(t *testing.T) {
	for kind, want := range map[string][][2]float64{
		"three":   {{1, 1.109}, {.936, 1.889}},
		"bucket":  {{.989, 1.107}, {.579, 1.142}},
		"breaker": {{.931, 1.034}, {.498, 1}},
	} {
		for i, failing := range []float64{.1, .5} {
			r := simulateStorm(storm{Kind: kind, Failing: failing, Lasts: 10 * time.Second, Seed: 1})
			assert.InDelta(t, want[i][0], float64(r.Successes)/float64(r.Calls), .02, "%s: success at %g", kind, failing)
			assert.InDelta(t, want[i][1], float64(r.Attempts)/float64(r.Calls), .03, "%s: load at %g", kind, failing)
		}
	}
}
