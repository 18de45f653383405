package budget

import (
	"fmt"
	"sync/atomic"
	"time"
)

// A Var is a named limit that can be changed while the program runs: widened or
// tightened in an incident without a redeploy. It is a flag.Value, and many
// goroutines may use and change it at once.
//
//	var routeMax = budget.NewVar("route maximum", 2*time.Second, 100*time.Millisecond, 30*time.Second)
//
//	flag.Var(routeMax, "route-max", "the most time a request may take")
//
// A change holds for work entered from then on. Work that runs keeps its
// deadline: what it told others about it must stay true. While the value is not
// the one that the Var was made with, causes say both, as in
// "route maximum 5s (was 2s)".
type Var struct {
	name             string
	first, low, high time.Duration
	present          atomic.Int64
}

// NewVar returns a Var of the value d that Set and Store keep between low and
// high, both included. The name appears in every cause. An empty name, a low of
// zero or less, a high below low, and a d that is not between them panic.
func NewVar(name string, d, low, high time.Duration) *Var {
	switch {
	case name == "":
		panic("budget: NewVar: empty name")
	case low <= 0:
		panic(fmt.Sprintf("budget: NewVar: low %v is not positive", low))
	case high < low:
		panic(fmt.Sprintf("budget: NewVar: high %v is below low %v", high, low))
	case d < low || d > high:
		panic(fmt.Sprintf("budget: NewVar: d %v is not between %v and %v", d, low, high))
	}
	v := &Var{name: name, first: d, low: low, high: high}
	v.present.Store(int64(d))
	return v
}

// Limit returns the limit of v's value at the time at which work is entered,
// named like v. Like any Limit it may be built once and used ever after.
func (v *Var) Limit() Limit {
	return Limit{form: within, who: v.name, more: &more{v: v}}
}

// Duration returns the present value.
func (v *Var) Duration() time.Duration { return time.Duration(v.present.Load()) }

// Store makes d the value. When d is not between the bounds given to NewVar,
// the value stays as it is and the error says so.
func (v *Var) Store(d time.Duration) error {
	if d < v.low || d > v.high {
		return fmt.Errorf("budget: %s: %v is not between %v and %v", v.name, d, v.low, v.high)
	}
	v.present.Store(int64(d))
	return nil
}

// Set is Store of a text as time.ParseDuration reads it, such as "2.5s". It is
// part of flag.Value.
func (v *Var) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("budget: %s: %w", v.name, err)
	}
	return v.Store(d)
}

// String returns the present value as Set reads it. It is part of flag.Value,
// and package flag asks it of a zero Var too.
func (v *Var) String() string { return v.Duration().String() }
