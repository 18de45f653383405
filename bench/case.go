package bench

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Suite is the cases about one subject. Its name is what -suite takes.
type Suite struct {
	Name string
	// About says in a sentence what is measured and on which terms.
	About string
	Cases func(Scale) []Case
}

// A Scale says how much of a suite is run.
type Scale struct {
	// Quick leaves a case less time.
	Quick bool
	// Tiny runs each system once and cuts the number of tasks to at most 16, for tests.
	Tiny bool
}

// size is n, or at most 16 where counts are to be tiny.
func (s Scale) size(n int) int {
	if s.Tiny {
		return min(n, 16)
	}
	return n
}

// pick is one of two values, by whether the run is a quick one.
func pick[T any](s Scale, full, quick T) T {
	if s.Quick || s.Tiny {
		return quick
	}
	return full
}

// A Case is one piece of work and the ways of doing it.
type Case struct {
	Name string
	// Parent is the kind of context that the work is done under: "background",
	// "std" for a cancellable one of package context, "scope", or "none".
	Parent  string
	Systems []System
	// Bounds is set by Suites, from the table of requirements.
	Bounds []Bound
	// Limit names the system that does only what no other could leave out, so
	// that its figure is the least that can be reached. It may be empty.
	Limit string
	// Main is the metric that tables compare; empty is "ns/op".
	Main string
	// Spread names what besides the main metric is measured of each sample, so that tables
	// have its p99 and its greatest figure, too.
	Spread []string
	// More says that a greater main figure is the better one.
	More bool
	// Alone says that the systems are no rivals, or that the main figure is no cost:
	// tables then have no ratios.
	Alone bool
	// Rounds is how many there are at most; zero leaves it to the Scale.
	Rounds int
	// Fine says that a bound is too near to 1 for the rounds of the Scale, such as 1.03 of
	// what a server takes, which swings by a half: there are more of them, and shorter ones.
	Fine bool
	// Takes is about how long the case takes where it is longer than the Scale has
	// it, because one round is.
	Takes time.Duration
}

func (c Case) main() string {
	if c.Main == "" {
		return "ns/op"
	}
	return c.Main
}

// A System is one way of doing the work of a case. Names are those of the
// libraries; what a variant does differently follows after a slash.
type System struct {
	Name string
	// Make prepares the system. It is called once for each run of the case.
	Make func() Work
}

// isOurs says whether the system is curfew, in any of its variants.
func isOurs(name string) bool { return name == "curfew" || strings.HasPrefix(name, "curfew/") }

// Work is a prepared system: one of Op, Sample and Skip is set.
type Work struct {
	// Op does the work n times. The runner measures it.
	Op func(n int)
	// Before, where set, is called ahead of each Op and not measured.
	Before func(n int)
	// Sample does the work once and measures it itself.
	Sample func() []Metric
	// Skip says why the system cannot be measured here.
	Skip string
	// Close, where set, is called at the end.
	Close func()
}

// A Metric is one figure, in the unit that its name ends in, such as "ns/op".
type Metric struct {
	Name  string
	Value float64
}

// A Kind says how a Bound compares.
type Kind int

const (
	Ratio   Kind = iota // the system's figure divided by that of the base, at most
	Over                // the system's figure minus that of the base, at most
	AtMost              // the figure itself; there is no base
	AtLeast             // the same, but not less
)

// A Bound is what one row of the requirements asks of a system.
type Bound struct {
	System, Base string
	Metric       string // empty is "ns/op"
	Kind         Kind
	Limit        float64
}

func (b Bound) metric() string {
	if b.Metric == "" {
		return "ns/op"
	}
	return b.Metric
}

// allows says whether a figure keeps to the bound. NaN does not.
func (b Bound) allows(v float64) bool {
	if b.Kind == AtLeast {
		return v >= b.Limit
	}
	return v <= b.Limit
}

// String is the bound as a table shows it, such as "curfew ≤ 0.80 × errgroup".
func (b Bound) String() string {
	switch b.Kind {
	case Over:
		return fmt.Sprintf("%s ≤ %s + %g %s", b.System, b.Base, b.Limit, b.metric())
	case AtMost:
		return fmt.Sprintf("%s ≤ %g %s", b.System, b.Limit, b.metric())
	case AtLeast:
		return fmt.Sprintf("%s ≥ %g %s", b.System, b.Limit, b.metric())
	}
	s := fmt.Sprintf("%s ≤ %.2f × %s", b.System, b.Limit, b.Base)
	if b.metric() != "ns/op" {
		s += " (" + b.metric() + ")"
	}
	return s
}

var suites []Suite

func register(s Suite) struct{} {
	cases := s.Cases
	s.Cases = func(scale Scale) []Case {
		all := cases(scale)
		for i := range all {
			all[i].Bounds = boundsOf(s.Name, all[i].Name)
		}
		return all
	}
	suites = append(suites, s)
	return struct{}{}
}

// Suites returns all suites, sorted by name.
func Suites() []Suite {
	return slices.SortedFunc(slices.Values(suites), func(a, b Suite) int { return strings.Compare(a.Name, b.Name) })
}

// most is how long the case may take: its rounds, or what it says itself.
func (c Case) most(s Scale) time.Duration {
	p := s.paceOf(c)
	return max(c.Takes, min(p.allowance, time.Duration(p.most)*p.turn*time.Duration(len(c.Systems))))
}
