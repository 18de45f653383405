package bench

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// Documents hold tables that are made from a record, each between two lines:
//
//	<!-- curfewbench: bounds -->
//	<!-- end of curfewbench -->
//
// with the table's name in the first.
const (
	tableBegin = "<!-- curfewbench: "
	tableEnd   = "<!-- end of curfewbench -->"
)

// tables make the tables, by name. One for each suite is there besides, called by its name.
var tables = map[string]func(Record) string{
	"run":      Record.runLine,
	"bounds":   func(r Record) string { return r.boundsTable(nil) },
	"missed":   func(r Record) string { return r.boundsTable(func(f Finding) bool { return !f.Holds }) },
	"met":      func(r Record) string { return r.boundsTable(func(f Finding) bool { return f.Holds }) },
	"slower":   Record.slowerTable,
	"headline": Record.headlineTable,
	"checkout": Record.checkoutTable,
}

// Fill returns a document with each table made anew from the record. A document without
// any, with one of an unknown name and with one that does not end is an error.
func (rec Record) Fill(document []byte) ([]byte, error) {
	var out bytes.Buffer
	found := 0
	for rest := document; ; found++ {
		begin := bytes.Index(rest, []byte(tableBegin))
		if begin < 0 {
			if found == 0 {
				return nil, fmt.Errorf("bench: there is no line %q in it", tableBegin+"… -->")
			}
			out.Write(rest)
			return out.Bytes(), nil
		}
		head, body, ok := bytes.Cut(rest[begin+len(tableBegin):], []byte(" -->\n"))
		end := bytes.Index(body, []byte(tableEnd))
		if !ok || end < 0 {
			return nil, fmt.Errorf("bench: the table after %q does not end", rest[begin:min(len(rest), begin+60)])
		}
		name := string(head)
		table := tables[name]
		if table == nil && slices.ContainsFunc(Suites(), func(s Suite) bool { return s.Name == name }) {
			table = func(rec Record) string { return rec.suiteTable(name) }
		}
		if table == nil {
			return nil, fmt.Errorf("bench: no table %q; there are %s, and one for each suite", name, strings.Join(slices.Sorted(maps.Keys(tables)), ", "))
		}
		out.Write(rest[:begin])
		fmt.Fprintf(&out, "%s%s -->\n%s%s", tableBegin, name, table(rec), tableEnd)
		rest = body[end+len(tableEnd):]
	}
}

// runLine says what was measured, and on what.
func (rec Record) runLine() string {
	a := rec.About
	commit, changes, changed := strings.Cut(a.Commit, " ")
	if changed {
		changes = " " + changes
	}
	text := fmt.Sprintf("Measured in one run of `go run ./bench/cmd/curfewbench` on %s, %s, commit %.12s%s, %.10s.\n", a.Machine, a.Go, commit, changes, a.Date)
	if a.Load != "" {
		text += "The machine's load average was " + a.Load + " as it began.\n"
	}
	if a.Quick {
		text += "**These are figures of `-quick`**, of a few short rounds: they say what is far from its bound and what is near,\nand do not settle what is near.\n"
	}
	return text
}

// markdown is a table.
type markdown struct{ strings.Builder }

func newMarkdown(heads ...string) *markdown {
	m := &markdown{}
	m.row(heads...)
	m.WriteString("|" + strings.Repeat("---|", len(heads)) + "\n")
	return m
}

func (m *markdown) row(cells ...string) { m.WriteString("| " + strings.Join(cells, " | ") + " |\n") }

// boundsTable lists the bounds that are wanted; nil is all.
func (rec Record) boundsTable(want func(Finding) bool) string {
	heads := []string{"suite", "case", "bound", "measured", ""}
	if want != nil {
		heads = heads[:4]
	}
	m := newMarkdown(heads...)
	for _, q := range requirements {
		for _, f := range rec.findings(q) {
			measured := !math.IsNaN(f.Value)
			if want != nil && (!measured || !want(f)) {
				continue
			}
			m.row([]string{q.Suite, q.Case, f.String(), f.figure(), f.verdict()}[:len(heads)]...)
		}
	}
	return m.String()
}

// key is a case.
type key struct{ suite, name string }

// cases are those of the record, in order.
func (rec Record) cases() []key {
	var all []key
	for _, l := range rec.Lines {
		if k := (key{l.Suite, l.Case}); !slices.Contains(all, k) {
			all = append(all, k)
		}
	}
	return all
}

// slowerTable lists where curfew is slower than a peer that no bound compares it with.
func (rec Record) slowerTable() string {
	m := newMarkdown("suite", "case", "system", "÷ the best peer", "peer")
	for _, k := range rec.cases() {
		c := rec.definition(k)
		asked := map[[2]string]bool{}
		for _, b := range boundsOf(k.suite, k.name) {
			asked[[2]string{b.System, b.Base}] = true
		}
		for _, l := range rec.Lines {
			peer, isRatio := strings.CutPrefix(l.Metric, ofRatio)
			if l.Suite != k.suite || l.Case != k.name || !isRatio || !isOurs(l.System) || peer == c.Limit || asked[[2]string{l.System, peer}] {
				continue
			}
			if !c.More && l.Value > 1.05 || c.More && l.Value < .95 {
				m.row(k.suite, k.name, l.System, number(l.Value), peer)
			}
		}
	}
	return m.String()
}

// definition is the case itself, of which the record has the figures.
func (rec Record) definition(k key) Case {
	for _, s := range Suites() {
		if s.Name != k.suite {
			continue
		}
		for _, c := range s.Cases(Scale{Quick: rec.About.Quick}) {
			if c.Name == k.name {
				return c
			}
		}
	}
	return Case{}
}

// suiteTable is a line for each system of each case of a suite: its main figure and the
// others, and its ratios.
func (rec Record) suiteTable(suite string) string {
	m := newMarkdown("case", "system", "figures", "÷ best peer", "÷ limit")
	for _, k := range rec.cases() {
		if k.suite != suite {
			continue
		}
		c := rec.definition(k)
		name := k.name
		for _, system := range rec.systems(k) {
			var figures []string
			ratios := [2]string{}
			for _, l := range rec.Lines {
				if l.Suite != k.suite || l.Case != k.name || l.System != system {
					continue
				}
				base, isRatio := strings.CutPrefix(l.Metric, ofRatio)
				switch {
				case isRatio && base == c.Limit:
					ratios[1] = number(l.Value)
				case isRatio:
					ratios[0] = number(l.Value) + " (" + base + ")"
				case strings.HasPrefix(l.Metric, ofBound), strings.HasPrefix(l.Metric, ofLow), strings.HasPrefix(l.Metric, ofHigh),
					l.Metric == "cpu-ns/op", l.Metric == "B/op", strings.HasPrefix(l.Metric, ofP99), strings.HasPrefix(l.Metric, ofMax):
				case len(c.Spread) > 0:
					figures = append(figures, withUnit(l)+rec.badEnd(l))
				default:
					figures = append(figures, withUnit(l))
				}
			}
			m.row(name, system, strings.Join(figures, ", "), ratios[0], ratios[1])
			name = ""
		}
	}
	return m.String()
}

// badEnd is the p99 and the maximum of a figure that is a median, in brackets.
func (rec Record) badEnd(l Line) string {
	var ends []string
	for _, of := range []string{ofP99, ofMax} {
		if v := rec.Of(l.Suite, l.Case, l.System, of+l.Metric); !math.IsNaN(v) {
			ends = append(ends, strings.TrimSuffix(of, " of ")+" "+withUnit(Line{Metric: l.Unit, Value: v, Unit: l.Unit}))
		}
	}
	if len(ends) == 0 {
		return ""
	}
	return " (" + strings.Join(ends, ", ") + ")"
}

func (rec Record) systems(k key) []string {
	var all []string
	for _, l := range rec.Lines {
		if l.Suite == k.suite && l.Case == k.name && !slices.Contains(all, l.System) {
			all = append(all, l.System)
		}
	}
	return all
}

// withUnit is a figure as people read it.
func withUnit(l Line) string {
	name := strings.TrimSuffix(strings.TrimSuffix(l.Metric, l.Unit), "-")
	if name != "" {
		name += " "
	}
	switch l.Unit {
	case "ns/op", "ns":
		return name + nanoseconds(l.Value)
	case "allocs/op":
		return name + number(l.Value) + " allocs"
	case "1", "requests", "multiplier":
		return l.Metric + " " + number(l.Value)
	case "%":
		return name + number(l.Value) + "%"
	case "calls/s":
		return name + number(l.Value) + "/s"
	}
	return name + number(l.Value) + " " + l.Unit
}

func nanoseconds(v float64) string {
	switch {
	case v >= 1e9:
		return number(v/1e9) + " s"
	case v >= 1e6:
		return number(v/1e6) + " ms"
	case v >= 1e3:
		return number(v/1e3) + " µs"
	}
	return number(v) + " ns"
}

// headline are the rows of the README's table: one figure of curfew beside a peer's.
var headline = []struct{ text, suite, name, ours, theirs, metric string }{
	{"4 tasks under a deadline", "fanout", "4 tasks", "curfew", "errgroup", "ns/op"},
	{"the same, as one call of `All`", "fanout", "4 tasks", "curfew/all", "errgroup", "ns/op"},
	{"16 tasks", "fanout", "16 tasks", "curfew", "errgroup", "ns/op"},
	{"10,000 items, 16 at a time", "fanout", "each of 10000, width 16", "curfew", "errgroup", "ns/op"},
	{"a level of nesting, deadline inherited", "nested", "1 deep", "curfew/inline", "errgroup", "ns/op"},
	{"cancel 1,000 parked tasks, until all are home", "cancel", "1000 on their ctx", "curfew", "errgroup", "returned-ns"},
	{"cancel 100,000, each in a scope of its own", "cancel", "100000 in sub-scopes", "curfew", "errgroup", "returned-ns"},
	{"a hedge that is armed and not needed", "hedge", "armed", "curfew/inline", "failsafe", "ns/op"},
	{"a call that succeeds, under a retry budget", "retry", "success", "curfew", "failsafe", "ns/op"},
	{"a cancellation point in a loop", "checkpoint", "turn", "curfew", "std/Err", "ns/op"},
	{"a request's deadline, over loopback", "http", "loopback", "curfew", "std/WithTimeout", "ns/op"},
	{"a PostgreSQL statement that the server itself limits", "sql", "PostgreSQL, cached statement", "curfew", "std/SET", "ns/op"},
	{"client gone, until MariaDB has stopped; std: until the statement's own limit of 1 s", "cancel", "client leaves, MariaDB", "curfew", "std", "stopped-ms"},
	{"p99 of 20 callers with stragglers, hedged", "tail", "lognormal (simulated)", "curfew", "unhedged", "p99-ms"},
	{"load of 1000 processes, half of it failing (1 is none)", "storm", "fleet of 1000, 100 calls/s, 50% failing", "curfew", "three retries", "load"},
	{"answers in time at twice the capacity", "overload", "2 × capacity", "curfew", "std", "goodput-%"},
}

func (rec Record) headlineTable() string {
	m := newMarkdown("what", "curfew", "another way", "suite, case")
	for _, h := range headline {
		ours, theirs := rec.Of(h.suite, h.name, h.ours, h.metric), rec.Of(h.suite, h.name, h.theirs, h.metric)
		if math.IsNaN(ours) || math.IsNaN(theirs) {
			continue
		}
		say := func(v float64) string {
			text := withUnit(Line{Metric: h.metric, Value: v, Unit: unit(h.metric)})
			for _, redundant := range []string{"returned ", "stopped ", "p99 ", "load ", "goodput "} {
				text = strings.TrimPrefix(text, redundant)
			}
			return text
		}
		m.row(h.text, say(ours), h.theirs+" "+say(theirs), h.suite+", "+h.name)
	}
	return m.String()
}

// checkoutTable is the incident's table, of both modes.
func (rec Record) checkoutTable() string {
	of := func(system, metric string) float64 { return rec.Of("incident", "checkout", system, metric) }
	m := newMarkdown(fmt.Sprintf("%.0f checkouts against the slow warehouse", of("curfew", "checkouts")), "before", "curfew")
	row := func(what string, say func(system string) string) { m.row(what, say("before"), say("curfew")) }
	row("warehouse calls per checkout", func(s string) string {
		return fmt.Sprintf("%.0f worst, %.2f mean", of(s, "calls-worst"), of(s, "calls-mean"))
	})
	row("load on the warehouse, healthy = 1", func(s string) string { return fmt.Sprintf("%.2f", of(s, "load-multiplier")) })
	row("checkouts that succeed", func(s string) string { return fmt.Sprintf("%.1f%%", of(s, "availability-%")) })
	row("in the second half", func(s string) string { return fmt.Sprintf("%.1f%%", of(s, "second-half-%")) })
	row("p99 latency", func(s string) string { return fmt.Sprintf("%.2f s", of(s, "p99-s")) })
	row("last work for a user, since the click", func(s string) string { return fmt.Sprintf("%.2f s", of(s, "last-work-s")) })
	row("warehouse work that nobody waited for", func(s string) string { return fmt.Sprintf("%.1f%%", of(s, "wasted-%")) })
	if !math.IsNaN(of("curfew", "generator-late-s")) {
		row("the load generator's own delay, p99", func(s string) string { return fmt.Sprintf("%.2f s", of(s, "generator-late-s")) })
	}
	if rec.About.Quick {
		m.WriteString("\nA quick run replays this 15 times as fast, not ten: mode before then overloads a small\n" +
			"machine as well, which is in its figures, such as a p99 beyond the 5 s after which users give up.\n")
	}
	return m.String()
}
