package plan

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// A Call is one node of a tree of calls: what it may take, and what it calls.
// Only Name is needed, and a Timeout at the root and for optional calls.
type Call struct {
	// Name is unique among the calls of one parent and holds no "/". A path
	// joins names by "/", from the root: "gateway/product/db".
	Name string
	// Timeout is how long one attempt may take, seen by the caller. 0 is
	// whatever its parent has left for it.
	Timeout time.Duration
	// Attempts is how often it is tried at most, one after another; 0 is once.
	// Time is kept for all of them: a retry without time for it is none. Two
	// attempts side by side, as hedges are, take the time of one.
	Attempts int
	// Own is what the call's own work takes besides its calls.
	Own time.Duration
	// Reserve is kept for the call's caller after its work returned, as
	// budget.Limit.Reserve does: to merge what came, to answer, to degrade.
	Reserve time.Duration
	// Share is a reserve as a share of what the work has, from 0 up to, but not
	// including, 1. A call has a Reserve or a Share, not both.
	Share float64
	// Floor is the least time worth starting with; with less the call is
	// refused, as budget.Limit.Require does. It is at most Timeout.
	Floor time.Duration
	// Optional marks a call that its parent can do without. It needs a Timeout.
	Optional bool
	// Local marks a part of its parent's process: there is no hop to it.
	Local bool
	// Calls are what the call calls, one after another or, with Parallel, side
	// by side. For a mixture, put some into a Local call of their own.
	Calls    []Call
	Parallel bool
	// Observed is what was measured of the call, for Check; nil when nothing was.
	Observed Observed `json:"-"`
}

// Observed is how Check asks for measured latencies: the time within which a
// share q of the attempts is answered, and whether it is known. A
// *latency.Observed and a *latency.Snapshot fit.
type Observed interface {
	Quantile(q float64) (d time.Duration, ok bool)
}

// An InvalidError says what no tree may hold.
type InvalidError struct {
	Path string // of the call; empty for a root without a name
	Why  string
}

// Error names the call and what is wrong with it.
func (e *InvalidError) Error() string { return fmt.Sprintf("plan: invalid call %q: %s", e.Path, e.Why) }

// validate returns the first mistake in c and below.
func (c *Call) validate(path string, root bool) error {
	why := ""
	switch {
	case c.Name == "":
		why = "no name"
	case strings.Contains(c.Name, "/"):
		why = "a name must not hold a slash"
	case root && c.Timeout == 0:
		why = "the root needs a Timeout: it is what is shared out"
	case c.Optional && c.Timeout == 0:
		why = "an optional call needs a Timeout"
	case c.Timeout < 0, c.Own < 0, c.Reserve < 0, c.Floor < 0:
		why = "a negative duration"
	case c.Attempts < 0:
		why = "negative Attempts"
	case !(c.Share >= 0 && c.Share < 1):
		why = fmt.Sprintf("share %v is not in [0, 1)", c.Share)
	case c.Share > 0 && c.Reserve > 0:
		why = "both a Reserve and a Share"
	case c.Timeout > 0 && c.Floor > c.Timeout:
		why = fmt.Sprintf("its Floor %v is above its Timeout %v: it could never start", c.Floor, c.Timeout)
	}
	if why != "" {
		return &InvalidError{Path: path, Why: why}
	}
	seen := map[string]bool{}
	for i := range c.Calls {
		child := &c.Calls[i]
		at := path + "/" + child.Name
		if seen[child.Name] {
			return &InvalidError{Path: at, Why: "a second call of this name"}
		}
		seen[child.Name] = true
		if err := child.validate(at, false); err != nil {
			return err
		}
	}
	return nil
}

// clone returns a copy of c that shares nothing with it but what was observed.
func (c Call) clone() *Call {
	c.Calls = slices.Clone(c.Calls)
	for i := range c.Calls {
		c.Calls[i] = *c.Calls[i].clone()
	}
	return &c
}

// tries returns how often c is tried at most.
func (c *Call) tries() int { return max(c.Attempts, 1) }

// needs returns what c takes of its parent's time when every attempt takes as
// long as it may. A call without a Timeout takes what is left, and needs the
// least that is worth a call.
func (c *Call) needs() time.Duration {
	one := c.Timeout
	if one == 0 {
		one = max(c.Floor, least)
	}
	return times(one, c.tries())
}

// plus and times stay at the maximum instead of overflowing. Nothing here is
// negative.
func plus[T ~int | ~int64](a, b T) T {
	if sum := a + b; sum >= a {
		return sum
	}
	return T(math.MaxInt64)
}

func times[T ~int | ~int64](a T, n int) T {
	if n != 0 && a > T(math.MaxInt64)/T(n) {
		return T(math.MaxInt64)
	}
	return a * T(n)
}
