package bench

import (
	"fmt"
	"slices"
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
	// Quick leaves a case fewer rounds and shorter ones.
	Quick bool
	// Tiny also cuts the number of tasks to at most 16, for tests.
	Tiny bool
}

// size is n, or at most 16 where counts are to be tiny.
func (s Scale) size(n int) int {
	if s.Tiny {
		return min(n, 16)
	}
	return n
}

// A Case is one piece of work and the ways of doing it.
type Case struct {
	Name string
	// Parent is the kind of context that the work is done under: "background",
	// "std" for a cancellable one of package context, "scope", or "none".
	Parent  string
	Systems []System
	Bounds  []Bound
	// Limit names the system that does only what no other could leave out, so
	// that its figure is the least that can be reached. It may be empty.
	Limit string
	// Main is the metric that tables compare; empty is "ns/op".
	Main string
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

// ours says whether the system is curfew, in any of its variants.
func (s System) ours() bool { return isOurs(s.Name) }

func isOurs(name string) bool { return name == "curfew" || len(name) > 7 && name[:7] == "curfew/" }

// Work is a prepared system: either Op or Sample is set.
type Work struct {
	// Op does the work n times. The runner measures it.
	Op func(n int)
	// Before, where set, is called ahead of each Op and not measured.
	Before func(n int)
	// Sample does the work once and measures it itself.
	Sample func() []Metric
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
	Ratio  Kind = iota // the system's figure divided by that of the base
	Over               // the system's figure minus that of the base
	AtMost             // the figure itself; there is no base
)

// A Bound is what one row of the requirements asks of a system.
type Bound struct {
	System, Base string
	Metric       string // empty is "ns/op"
	Kind         Kind
	Max          float64
}

func (b Bound) metric() string {
	if b.Metric == "" {
		return "ns/op"
	}
	return b.Metric
}

// String is the bound as a table shows it, such as "curfew ≤ 0.80 × errgroup".
func (b Bound) String() string {
	switch b.Kind {
	case Over:
		return fmt.Sprintf("%s ≤ %s + %g %s", b.System, b.Base, b.Max, b.metric())
	case AtMost:
		return fmt.Sprintf("%s ≤ %g %s", b.System, b.Max, b.metric())
	}
	s := fmt.Sprintf("%s ≤ %.2f × %s", b.System, b.Max, b.Base)
	if b.metric() != "ns/op" {
		s += " (" + b.metric() + ")"
	}
	return s
}

var suites []Suite

func register(s Suite) struct{} {
	suites = append(suites, s)
	return struct{}{}
}

// Suites returns all suites, sorted by name.
func Suites() []Suite {
	all := slices.Clone(suites)
	slices.SortFunc(all, func(a, b Suite) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return all
}
