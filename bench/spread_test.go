package bench

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// spreading is a result that has two latencies of each sample.
func spreading() Result {
	c := Case{Name: "c", Parent: "none", Main: "returned-ns", Spread: []string{"observed-ns"}, Systems: []System{{Name: "curfew"}}}
	of := map[string]Series{"returned-ns": {{5, 6, 7}}, "observed-ns": {{1, 2, 3}}, "other-ns": {{8}}}
	return Result{Suite: "s", Case: c, Rounds: 1, Series: map[string]map[string]Series{"curfew": of}}
}

func TestWhatACaseSpreadsHasItsBadEndToo(t *testing.T) {
	r := spreading()
	rec := recorded(t, About{Machine: "m"}, r)
	for metric, want := range map[string]float64{
		"returned-ns": 6, "p99 of returned-ns": 7, "max of returned-ns": 7,
		"observed-ns": 2, "p99 of observed-ns": 3, "max of observed-ns": 3,
	} {
		assert.Equal(t, want, rec.Of("s", "c", "curfew", metric), metric)
	}
	var out strings.Builder
	require.NoError(t, r.WriteTable(&out))
	assert.Regexp(t, `p99 of returned-ns +max +p99 of observed-ns +max`, out.String())
	assert.Regexp(t, `curfew +6 +2 +8 +7 +7 +3 +3`, out.String())
	assert.NotContains(t, out.String(), "of other-ns")
}

func TestTheDocumentsHaveTheBadEndBesideTheMedian(t *testing.T) {
	rec := Record{Lines: []Line{
		{"cancel", "10 on their ctx", "curfew", "returned-ns", 4000, "ns"},
		{"cancel", "10 on their ctx", "curfew", "p99 of returned-ns", 60_000, "ns"},
		{"cancel", "10 on their ctx", "curfew", "max of returned-ns", 7e6, "ns"},
		{"cancel", "10 on their ctx", "curfew", "observed-ns", 3000, "ns"},
	}}
	assert.Contains(t, rec.suiteTable("cancel"),
		"| 10 on their ctx | curfew | returned 4 µs (p99 60 µs, max 7 ms), observed 3 µs |")
}

func TestWhereMoreIsBetterNothingHasABadEnd(t *testing.T) {
	r := spreading()
	r.Case.More = true
	var out strings.Builder
	require.NoError(t, r.WriteTable(&out))
	for _, l := range r.lines() {
		assert.NotContains(t, l.Metric, " of ")
	}
	assert.NotContains(t, out.String(), "max")
}
