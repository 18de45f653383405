package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// workedExamples are the figures of the worked examples that time does not blur where it
// is simulated.
var workedExamples = map[string]map[string]float64{
	"inverted timeouts (simulated)": {"std": 400, "curfew": 200},
	"slow dependency (simulated)":   {"std": 1000, "curfew": 200},
	"dead backend (simulated)":      {"std": 19.6, "curfew": 100},
}

func TestEveryCaseRunsAndEveryBoundHasItsFigures(t *testing.T) {
	for _, s := range Suites() {
		for _, c := range s.Cases(Scale{Quick: true, Tiny: true}) {
			t.Run(s.Name+"/"+c.Name, func(t *testing.T) {
				r := Run(s.Name, c, Scale{Quick: true, Tiny: true})
				if why := r.leftOutAll(); why != "" {
					t.Skip(why)
				}
				for _, system := range c.Systems {
					assert.Empty(t, r.LeftOut[system.Name], system.Name)
					assert.NotEmpty(t, r.Series[system.Name], system.Name)
					assert.Empty(t, r.Series[system.Name]["ignored"], system.Name)
				}
				for system, want := range workedExamples[c.Name] {
					assert.InDelta(t, want, r.Of(system, c.Main), want/100, system)
				}
				for _, f := range r.Findings() {
					assert.False(t, math.IsNaN(f.Value), f.String())
				}
			})
		}
	}
}

func TestWhereNothingCanBeBuiltTheIncidentIsLeftOutAndHasNotFailed(t *testing.T) {
	t.Setenv("PATH", "")
	c := incidentCases(Scale{Quick: true})[0]
	r := Run("incident", c, Scale{Quick: true})
	assert.False(t, r.Failed(), r.LeftOut)
	assert.Contains(t, r.leftOutAll(), "go command")
}

func TestTasksThatIgnoreTheirCancelAreReportedAsSuch(t *testing.T) {
	deaf := func(n int, task, fail func(context.Context) error) error {
		var wg sync.WaitGroup
		for range n {
			wg.Go(func() { _ = task(context.Background()) })
		}
		err := fail(context.Background())
		wg.Wait()
		return err
	}
	assert.Equal(t, []Metric{{"ignored", 3}}, measure(3, time.Millisecond, deaf, onDone))
}

func TestACancelThatIsObeyedIsObservedBeforeTheGroupReturns(t *testing.T) {
	for name, start := range map[string]canceller{"curfew": cancelScope, "errgroup": cancelErrgroup, "conc": cancelConc, "channel": cancelChannel} {
		got := measure(5, patience, start, onDone)
		require.Len(t, got, 2, name)
		assert.Positive(t, got[0].Value, name)
		assert.GreaterOrEqual(t, got[1].Value, got[0].Value, name)
	}
}

func TestMediansAndRatiosAreTakenWithinARound(t *testing.T) {
	assert.Equal(t, 2.5, Median([]float64{4, 1, 2, 3}))
	assert.Equal(t, 2.0, Median([]float64{3, 1, 2}))
	assert.True(t, math.IsNaN(Median(nil)))
	assert.Equal(t, 99.0, Quantile([]float64{99, 1}, 1))
	assert.Equal(t, 1.0, Quantile([]float64{99, 1}, .5))
	// The machine is ten times slower in the second round, for both.
	mid, low, high := RatioOf(Series{{1}, {20}, {3}}, Series{{2}, {20}, {2}})
	assert.Equal(t, []float64{1, .5, 1.5}, []float64{mid, low, high})
	mid, _, _ = RatioOf(Series{{1}}, nil)
	assert.True(t, math.IsNaN(mid))
}

func TestAQuickRunDoesNotWaitForASlowSystemBesideAFastOne(t *testing.T) {
	fill := []int{1_000_000, 20_000, 2_000}
	assert.Equal(t, 1_000_000, Scale{}.pace().times(fill))
	assert.Equal(t, 40_000, Scale{Quick: true}.pace().times(fill))
	assert.Equal(t, 20_000, Scale{Quick: true}.pace().times(fill[1:2]))
	assert.Equal(t, 1, Scale{Quick: true}.pace().times(nil))
}

func sample(ours float64) Result {
	c := Case{Name: "c", Parent: "none", Limit: "bare", Systems: []System{{Name: "curfew"}, {Name: "peer"}, {Name: "bare"}},
		Bounds: []Bound{{System: "curfew", Base: "peer", Limit: .5}, {System: "curfew", Base: "bare", Kind: Over, Limit: 1}, {System: "curfew", Kind: AtMost, Limit: 4}}}
	of := func(v float64) map[string]Series { return map[string]Series{"ns/op": {{v}, {v}}} }
	return Result{Suite: "s", Case: c, Rounds: 2, Series: map[string]map[string]Series{"curfew": of(ours), "peer": of(8), "bare": of(3)}}
}

func TestABoundHoldsUpToItsLimitAndNotBeyondNorUnmeasured(t *testing.T) {
	for _, f := range sample(4).Findings() {
		assert.True(t, f.Holds, f.String())
	}
	for _, f := range sample(4.1).Findings() {
		assert.False(t, f.Holds, f.String())
	}
	for _, f := range sample(math.NaN()).Findings() {
		assert.False(t, f.Holds, f.String())
	}
}

func TestTheTableHasRatiosAndVerdicts(t *testing.T) {
	var out strings.Builder
	require.NoError(t, sample(4).WriteTable(&out))
	assert.Contains(t, out.String(), "met          curfew ≤ 0.50 × peer: 0.50")
	assert.Regexp(t, `curfew +4 +0\.50 +1\.33`, out.String())
	out.Reset()
	require.NoError(t, sample(6).WriteTable(&out))
	assert.Contains(t, out.String(), "MISSED       curfew ≤ 0.50 × peer: 0.75")
}

func TestEachLineOfJSONHasTheSixFields(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, sample(4).WriteJSON(&out))
	first, _, _ := strings.Cut(out.String(), "\n")
	assert.Equal(t, `{"suite":"s","case":"c","system":"curfew","metric":"ns/op","value":4,"unit":"ns/op"}`, first)
	for line := range strings.Lines(out.String()) {
		assert.NoError(t, json.Unmarshal([]byte(line), new(Line)), line)
	}
}

func TestThePageNeedsNothingFromElsewhere(t *testing.T) {
	var out strings.Builder
	require.NoError(t, WriteHTML(&out, About{Machine: "<m>"}, []Result{sample(4)}))
	assert.Contains(t, out.String(), "<svg")
	assert.Contains(t, out.String(), "&lt;m&gt;")
	assert.NotContains(t, out.String(), "src=")
	assert.NotContains(t, out.String(), "@import")
}

// A whole run must be over in 15 minutes, a quick one in two, of which a busy machine may
// take the last 15 seconds. A case takes what its rounds may, and no more than one round
// over it, for which Takes speaks where that is long.
func TestARunFitsIntoItsTime(t *testing.T) {
	for most, scale := range map[time.Duration]Scale{15 * time.Minute: {}, 105 * time.Second: {Quick: true}} {
		var sum time.Duration
		for _, s := range Suites() {
			before := sum
			for _, c := range s.Cases(scale) {
				sum += c.most(scale)
			}
			t.Logf("%s: at most %v", s.Name, sum-before)
		}
		t.Logf("at most %v of %v", sum, most)
		assert.LessOrEqual(t, sum, most)
	}
}

func TestEveryRequirementIsOfACaseThatIsRun(t *testing.T) {
	known := map[string]Case{}
	for _, s := range Suites() {
		for _, c := range s.Cases(Scale{}) {
			known[s.Name+": "+c.Name] = c
		}
	}
	for _, q := range Requirements() {
		c, ok := known[q.Suite+": "+q.Case]
		if !assert.True(t, ok, "%s: %s", q.Suite, q.Case) {
			continue
		}
		assert.Equal(t, q.Bounds, c.Bounds)
		var systems []string
		for _, s := range c.Systems {
			systems = append(systems, s.Name)
		}
		for _, b := range q.Bounds {
			assert.Contains(t, systems, b.System, b.String())
			if b.Base != "" {
				assert.Contains(t, systems, b.Base, b.String())
			}
		}
	}
}
