package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
)

// A Line is one figure as WriteJSON writes it: the median over the rounds.
type Line struct {
	Suite  string  `json:"suite"`
	Case   string  `json:"case"`
	System string  `json:"system"`
	Metric string  `json:"metric"`
	Value  float64 `json:"value"`
	Unit   string  `json:"unit"`
}

// unit is the last part of a metric's name: ns/op of cpu-ns/op, ms of p99-ms.
func unit(metric string) string {
	u := metric[strings.LastIndex(metric, "-")+1:]
	if u == "ignored" {
		return "tasks"
	}
	return u
}

// WriteJSON writes each figure of the result as a line of JSON, and one for each
// bound, whose metric is "bound: " and its text.
func (r Result) WriteJSON(w io.Writer) error {
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	for _, s := range r.Case.Systems {
		for _, m := range r.metrics() {
			v := r.Of(s.Name, m)
			if math.IsNaN(v) {
				continue
			}
			if err := out.Encode(Line{r.Suite, r.Case.Name, s.Name, m, v, unit(m)}); err != nil {
				return err
			}
		}
	}
	for _, f := range r.Findings() {
		if math.IsNaN(f.Value) {
			continue
		}
		u := "ratio"
		if f.Kind != Ratio {
			u = unit(f.metric())
		}
		if err := out.Encode(Line{r.Suite, r.Case.Name, f.System, "bound: " + f.String(), f.Value, u}); err != nil {
			return err
		}
	}
	return nil
}

// metrics are the names that any system has, the main one first.
func (r Result) metrics() []string {
	names := []string{r.Case.main()}
	for _, known := range []string{"ns/op", "cpu-ns/op", "allocs/op", "B/op", "observed-ns", "late-ns", "returned-ns", "stopped-ns",
		"p50-ms", "p99-ms", "p99.9-ms", "extra-%", "most-extra-%", "ignored"} {
		for _, s := range r.Case.Systems {
			if known != names[0] && len(r.Series[s.Name][known]) > 0 {
				names = append(names, known)
				break
			}
		}
	}
	return names
}

// bestPeer is the system with the least main figure that is neither curfew nor the
// limit, and empty without one.
func (r Result) bestPeer() string {
	best, least := "", math.Inf(1)
	for _, s := range r.Case.Systems {
		if v := r.Of(s.Name, r.Case.main()); !s.ours() && s.Name != r.Case.Limit && v < least {
			best, least = s.Name, v
		}
	}
	return best
}

// sampled says whether the case measured itself, and so has a distribution.
func (r Result) sampled() bool { return r.Case.main() != "ns/op" }

// WriteTable writes the figures of the result, their ratios to the best peer and to
// the bare limit, and whether each bound holds.
func (r Result) WriteTable(w io.Writer) error {
	fmt.Fprintf(w, "%s: %s (parent: %s)\n", r.Suite, r.Case.Name, r.Case.Parent)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	main, metrics, peer := r.Case.main(), r.metrics(), r.bestPeer()
	fmt.Fprint(t, "system\t")
	for _, m := range metrics {
		fmt.Fprint(t, m, "\t")
	}
	if r.sampled() {
		fmt.Fprint(t, "p99\tmax\t")
	}
	fmt.Fprint(t, "× best peer\t× limit\t\n")
	for _, s := range r.Case.Systems {
		fmt.Fprint(t, s.Name, "\t")
		for _, m := range metrics {
			fmt.Fprint(t, number(r.Of(s.Name, m)), "\t")
		}
		mine := r.Series[s.Name][main]
		if r.sampled() {
			fmt.Fprint(t, number(Quantile(mine.All(), .99)), "\t", number(Quantile(mine.All(), 1)), "\t")
		}
		for _, base := range []string{peer, r.Case.Limit} {
			v, _, _ := RatioOf(mine, r.Series[base][main])
			if math.IsNaN(v) {
				fmt.Fprint(t, "\t")
			} else {
				fmt.Fprintf(t, "%.2f\t", v)
			}
		}
		fmt.Fprintln(t)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, f := range r.Findings() {
		verdict := "holds"
		if !f.Holds {
			verdict = "MISSED"
		}
		fmt.Fprintf(w, "  %-6s  %s: %.2f (%.2f-%.2f)\n", verdict, f, f.Value, f.Low, f.High)
	}
	_, err := fmt.Fprintln(w)
	return err
}

func number(v float64) string {
	switch {
	case math.IsNaN(v):
		return "-"
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
