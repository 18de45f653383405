package bench

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
)

// About describes a run: where it took place and of what.
type About struct {
	Machine string `json:"machine"`
	Go      string `json:"go"`
	Commit  string `json:"commit"`
	Date    string `json:"date"`
	Quick   bool   `json:"quick"`
	// Load is the load average of the last minute as the run began, where it is known:
	// near zero on a machine that did nothing else.
	Load string `json:"load,omitempty"`
}

// A Line is one figure as WriteJSON writes it: the median over the rounds.
type Line struct {
	Suite  string  `json:"suite"`
	Case   string  `json:"case"`
	System string  `json:"system"`
	Metric string  `json:"metric"`
	Value  float64 `json:"value"`
	Unit   string  `json:"unit"`
}

// What the metrics of lines begin with that are not figures of a system alone.
const (
	ofBound = "bound: " // and the bound's text: what it was measured to be
	ofLow   = "low: "   // its least in any round
	ofHigh  = "high: "  // its greatest
	ofP99   = "p99 of " // and a metric
	ofMax   = "max of "
	ofRatio = "÷ " // and a system: the ratio to that system's main figure
)

// WriteJSON writes the description as a line of JSON, the first of a run.
func (a About) WriteJSON(w io.Writer) error { return encoder(w).Encode(a) }

func encoder(w io.Writer) *json.Encoder {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e
}

// WriteJSON writes each figure of the result as a line of JSON, and some for each ratio
// and bound. What was not measured has no line.
func (r Result) WriteJSON(w io.Writer) error {
	out := encoder(w)
	for _, l := range r.lines() {
		if math.IsNaN(l.Value) || math.IsInf(l.Value, 0) {
			continue
		}
		if err := out.Encode(l); err != nil {
			return err
		}
	}
	return nil
}

func (r Result) lines() []Line {
	var lines []Line
	add := func(system, metric string, v float64, unit string) {
		lines = append(lines, Line{r.Suite, r.Case.Name, system, metric, v, unit})
	}
	main := r.Case.main()
	for _, s := range r.Case.Systems {
		for _, m := range r.metrics() {
			add(s.Name, m, r.Of(s.Name, m), unit(m))
		}
		mine := r.Series[s.Name][main]
		for _, m := range r.spread() {
			all := r.Series[s.Name][m].All()
			add(s.Name, ofP99+m, Quantile(all, .99), unit(m))
			add(s.Name, ofMax+m, Quantile(all, 1), unit(m))
		}
		for _, b := range r.ratios() {
			if b[1] != s.Name {
				v, _, _ := RatioOf(mine, r.Series[b[1]][main])
				add(s.Name, ofRatio+b[1], v, "ratio")
			}
		}
	}
	for _, f := range r.Findings() {
		u := "ratio"
		if f.Kind != Ratio {
			u = unit(f.metric())
		}
		add(f.System, ofBound+f.String(), f.Value, u)
		add(f.System, ofLow+f.String(), f.Low, u)
		add(f.System, ofHigh+f.String(), f.High, u)
	}
	return lines
}

// A Record is a run that was written as lines of JSON.
type Record struct {
	About About
	Lines []Line
}

// ReadRecord reads what a run wrote with -json or -save.
func ReadRecord(from io.Reader) (Record, error) {
	var rec Record
	lines := bufio.NewScanner(from)
	for n := 1; lines.Scan(); n++ {
		var into any = &rec.About
		if n > 1 {
			rec.Lines = append(rec.Lines, Line{})
			into = &rec.Lines[len(rec.Lines)-1]
		}
		if err := json.Unmarshal(lines.Bytes(), into); err != nil {
			return Record{}, fmt.Errorf("bench: line %d of a record: %w", n, err)
		}
		// A record is one run: its description must not be said of another's figures.
		if n > 1 && rec.Lines[len(rec.Lines)-1].Suite == "" {
			return Record{}, fmt.Errorf("bench: line %d of a record is no figure: is it of two runs?", n)
		}
	}
	if err := lines.Err(); err != nil {
		return Record{}, fmt.Errorf("bench: reading a record: %w", err)
	}
	if rec.About.Machine == "" {
		return Record{}, fmt.Errorf("bench: a record's first line must describe the run")
	}
	return rec, nil
}

// Of returns a figure, and NaN where the record has none.
func (rec Record) Of(suite, name, system, metric string) float64 {
	for _, l := range rec.Lines {
		if l.Suite == suite && l.Case == name && l.System == system && l.Metric == metric {
			return l.Value
		}
	}
	return math.NaN()
}

// Missing names the cases of which the record has no figure: those that were not asked
// for, that came after a run ended early, or that could not be measured where it took
// place. A record without any is of a whole run.
func (rec Record) Missing() []string {
	var missing []string
	have := rec.cases()
	for _, s := range Suites() {
		for _, c := range s.Cases(Scale{Quick: rec.About.Quick}) {
			if !slices.Contains(have, key{s.Name, c.Name}) {
				missing = append(missing, s.Name+": "+c.Name)
			}
		}
	}
	return missing
}

// findings are what the bounds of a requirement were measured to be.
func (rec Record) findings(q Requirement) []Finding {
	var fs []Finding
	for _, b := range q.Bounds {
		f := Finding{Bound: b}
		f.Value = rec.Of(q.Suite, q.Case, b.System, ofBound+b.String())
		f.Low = rec.Of(q.Suite, q.Case, b.System, ofLow+b.String())
		f.High = rec.Of(q.Suite, q.Case, b.System, ofHigh+b.String())
		f.Holds = b.allows(f.Value)
		fs = append(fs, f)
	}
	return fs
}
