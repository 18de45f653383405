package bench

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
)

// unit is the last part of a metric's name: ns/op of cpu-ns/op, ms of p99-ms. A name of
// one part, such as "load" or "factor", is a plain number.
func unit(metric string) string {
	switch u := metric[strings.LastIndex(metric, "-")+1:]; u {
	case "ignored":
		return "tasks"
	case "flight":
		return "requests"
	case "worst", "mean", "missed":
		return "1"
	case metric:
		if !strings.Contains(metric, "/") {
			return "1"
		}
		return u
	default:
		return u
	}
}

// metrics are the names that any system has: the main one first, then in the order in
// which the first system reports them, which for cases that time themselves is by name.
func (r Result) metrics() []string {
	names := []string{r.Case.main()}
	for _, known := range []string{"ns/op", "cpu-ns/op", "allocs/op", "B/op"} {
		names = r.add(names, known)
	}
	for _, s := range r.Case.Systems {
		for _, m := range slices.Sorted(maps.Keys(r.Series[s.Name])) {
			names = r.add(names, m)
		}
	}
	return names
}

// add appends a metric that some system has and that is not there yet.
func (r Result) add(names []string, metric string) []string {
	for _, s := range r.Case.Systems {
		if len(r.Series[s.Name][metric]) > 0 && !slices.Contains(names, metric) {
			return append(names, metric)
		}
	}
	return names
}

// bestPeer is the system with the best main figure that is neither curfew nor the
// limit, and empty without one.
func (r Result) bestPeer() string {
	best, least := "", math.Inf(1)
	for _, s := range r.Case.Systems {
		v := r.Of(s.Name, r.Case.main())
		if r.Case.More {
			v = -v
		}
		if !isOurs(s.Name) && s.Name != r.Case.Limit && v < least {
			best, least = s.Name, v
		}
	}
	return best
}

// spread are the metrics that have a distribution with a bad end: those of a case that
// measured itself several times. Where more is better, p99 and max are the good one.
func (r Result) spread() []string {
	if main := r.Case.main(); main != "ns/op" && r.Case.Rounds != 1 && !r.Case.More {
		return append([]string{main}, r.Case.Spread...)
	}
	return nil
}

// ratios are the bases that the systems of the case are compared with, by the heads of
// their columns.
func (r Result) ratios() [][2]string {
	var bases [][2]string
	if peer := r.bestPeer(); peer != "" && !r.Case.Alone {
		bases = append(bases, [2]string{"÷ best peer", peer})
	}
	if r.Case.Limit != "" && !r.Case.Alone {
		bases = append(bases, [2]string{"÷ limit", r.Case.Limit})
	}
	return bases
}

// WriteTable writes the figures of the result, their ratios to the best peer and to
// the bare limit, and whether each bound is met.
func (r Result) WriteTable(w io.Writer) error {
	fmt.Fprintf(w, "%s: %s (parent: %s; %d rounds in %.1f s)\n", r.Suite, r.Case.Name, r.Case.Parent, r.Rounds, r.Took.Seconds())
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	main, metrics, bases := r.Case.main(), r.metrics(), r.ratios()
	fmt.Fprint(t, "system\t", strings.Join(metrics, "\t"), "\t")
	for _, m := range r.spread() {
		fmt.Fprintf(t, "p99 of %s\tmax\t", m)
	}
	for _, b := range bases {
		fmt.Fprintf(t, "%s (%s)\t", b[0], b[1])
	}
	fmt.Fprintln(t)
	for _, s := range r.Case.Systems {
		if r.LeftOut[s.Name] != "" {
			continue
		}
		fmt.Fprint(t, s.Name, "\t")
		for _, m := range metrics {
			fmt.Fprint(t, number(r.Of(s.Name, m)), "\t")
		}
		for _, m := range r.spread() {
			all := r.Series[s.Name][m].All()
			fmt.Fprint(t, number(Quantile(all, .99)), "\t", number(Quantile(all, 1)), "\t")
		}
		mine := r.Series[s.Name][main]
		for _, b := range bases {
			v, _, _ := RatioOf(mine, r.Series[b[1]][main])
			fmt.Fprint(t, number(v), "\t")
		}
		fmt.Fprintln(t)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, s := range r.Case.Systems {
		if why := r.LeftOut[s.Name]; why != "" {
			fmt.Fprintf(w, "  left out: %s: %s\n", s.Name, why)
		}
	}
	for _, f := range r.Findings() {
		fmt.Fprintf(w, "  %-12s %s: %s\n", f.verdict(), f, f.figure())
	}
	_, err := fmt.Fprintln(w)
	return err
}

// verdict says in a word or two what came of the bound.
func (f Finding) verdict() string {
	switch {
	case math.IsNaN(f.Value):
		return "not measured"
	case f.Holds:
		return "met"
	}
	return "MISSED"
}

// figure is what was measured, with the range over the rounds where it is one.
func (f Finding) figure() string {
	switch {
	case math.IsNaN(f.Value):
		return "-"
	case f.Low == f.High:
		return number(f.Value)
	}
	return fmt.Sprintf("%s (%s to %s)", number(f.Value), number(f.Low), number(f.High))
}

// A bounded is a bound of a result and what it was measured to be.
type bounded struct {
	Result
	Finding
}

// boundsOfAll are the bounds of the results, in the order of Requirements.
func boundsOfAll(results []Result) (all []bounded) {
	for _, q := range requirements {
		for _, r := range results {
			if r.Suite != q.Suite || r.Case.Name != q.Case {
				continue
			}
			for _, f := range r.Findings() {
				all = append(all, bounded{r, f})
			}
		}
	}
	return all
}

// sumOf counts verdicts, and says so in a line.
func sumOf(all []bounded) (missed, unmeasured int, line string) {
	met := 0
	for _, b := range all {
		switch {
		case math.IsNaN(b.Value):
			unmeasured++
		case b.Holds:
			met++
		default:
			missed++
		}
	}
	return missed, unmeasured, fmt.Sprintf("%d bounds met, %d missed, %d not measured", met, missed, unmeasured)
}

// WriteBounds writes one line for each bound of the results, in the order of
// Requirements, and returns how many were missed and how many not measured.
func WriteBounds(w io.Writer, results []Result) (missed, unmeasured int, err error) {
	all := boundsOfAll(results)
	if len(all) == 0 {
		return 0, 0, nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "suite\tcase\tbound\tmeasured\t")
	for _, b := range all {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", b.Suite, b.Case.Name, b.Finding, b.figure(), b.verdict())
	}
	missed, unmeasured, line := sumOf(all)
	if err := t.Flush(); err != nil {
		return missed, unmeasured, err
	}
	_, err = fmt.Fprintf(w, "\n%s\n", line)
	return missed, unmeasured, err
}

func number(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v):
		return "-"
	case a >= 100:
		return fmt.Sprintf("%.0f", v)
	case a >= 10 && v != math.Trunc(v):
		return fmt.Sprintf("%.1f", v)
	case v == math.Trunc(v):
		return fmt.Sprintf("%g", v)
	}
	return fmt.Sprintf("%.2f", v)
}
