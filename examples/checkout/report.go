package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// A report is what one run of the program has to say.
type report struct {
	Scale  float64 `json:"scale"`
	Seed   uint64  `json:"seed"`
	Before figures `json:"before"`
	Curfew figures `json:"curfew"`
	Bounds []bound `json:"bounds"`
	Page   string  `json:"page"` // the HTML file with the plots
}

func newReport(p plan, before, curfew figures, page string) report {
	return report{
		Scale: float64(p.pace), Seed: p.seed,
		Before: before, Curfew: curfew,
		Bounds: check(before, curfew, p.pace),
		Page:   page,
	}
}

// complain names each bound that was not met, and returns errBounds if there is one.
func (r report) complain(w io.Writer) (err error) {
	for _, b := range r.Bounds {
		if !b.Met {
			fmt.Fprintf(w, "%s: %s, must be %s\n", b.Name, b.Measured, b.Required)
			err = errBounds
		}
	}
	if late := time.Duration(r.Curfew.GeneratorLateP99); err != nil && late > pace(r.Scale).incident(timerFloor) {
		fmt.Fprintf(w, "The load generator itself was up to %v late (p99): this machine is too busy to measure on.\n", pace(r.Scale).real(late).Round(time.Millisecond))
	}
	return err
}

func (r report) writeJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

// rows are the incident's table: what before and curfew were measured at, beside what the article
// says that its redesign reached.
func (r report) rows() [][]string {
	b, c := r.Before, r.Curfew
	calls := func(f figures) string { return fmt.Sprintf("%d worst, %.2f mean", f.CallsWorst, f.CallsMean) }
	times := func(x float64) string { return fmt.Sprintf("%.2f×", x) }
	return [][]string{
		{"", "before", "the article's after", "curfew", "curfew must reach"},
		{"warehouse calls per checkout", calls(b), "up to 3", calls(c), "≤ 3 worst, ≤ 1.15 mean"},
		{"worst total latency", b.WorstTotal.String(), "3.0 s", c.WorstTotal.String(), "≤ 3.0 s *"},
		{"warehouse load multiplier", times(b.LoadMultiplier), "1.4×", times(c.LoadMultiplier), "≤ 1.10×"},
		{"availability while degraded", percent(b.Availability), "94%", percent(c.Availability), "≥ 94%"},
		{"  in the second half", percent(b.AvailabilitySecondHalf), "", percent(c.AvailabilitySecondHalf), "(before: < 10%)"},
		{"p99 checkout latency", b.P99.String(), "2.9 s", c.P99.String(), "≤ 2.9 s"},
		{"wasted work", percent(b.Wasted), "~0%", percent(c.Wasted), "≤ 1%"},
	}
}

// writeText prints the table and what a reader would ask next.
func (r report) writeText(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for _, row := range r.rows() {
		fmt.Fprintln(table, strings.TrimRight(strings.Join(row, "\t"), "\t"))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, `
"The article's after" is what the incident's write-up reports of its own redesign.
* + 1%%, or + %v of real time for the machine's timers, the larger: %v at scale %g.

%d checkouts met the degraded warehouse in each mode. Those that failed were told:
  before  %s
  curfew  %s
Working time cut off at the deadline while somebody still waited: before %s, curfew %s.
The load generator's own delay (p99, in the times above): before %v, curfew %v.

Plots: %s
`,
		timerFloor, seconds(withFloor(3*time.Second, pace(r.Scale))), r.Scale,
		r.Curfew.Users, listFailures(r.Before.Failures, "none failed"), listFailures(r.Curfew.Failures, "none failed"),
		percent(r.Before.CutShare), percent(r.Curfew.CutShare),
		r.Before.GeneratorLateP99, r.Curfew.GeneratorLateP99, r.Page)
	return err
}

// listFailures lists reasons with their counts, the most frequent first.
func listFailures(failures map[string]int, none string) string {
	if len(failures) == 0 {
		return none
	}
	reasons := slices.SortedFunc(maps.Keys(failures), func(a, b string) int {
		if d := failures[b] - failures[a]; d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	for i, reason := range reasons {
		reasons[i] = fmt.Sprintf("%s %d", reason, failures[reason])
	}
	return strings.Join(reasons, ", ")
}

func percent(share float64) string { return fmt.Sprintf("%.1f%%", 100*share) }

// seconds is a duration that reads as seconds, in text and in JSON.
type seconds time.Duration

func (s seconds) String() string { return fmt.Sprintf("%.2f s", time.Duration(s).Seconds()) }

func (s seconds) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, "%.3f", time.Duration(s).Seconds()), nil
}
