package plan

import "time"

// A Worst is what one call may come to for one request at the root, when
// everything takes as long as it may and every attempt but the last fails.
type Worst struct {
	Path  string
	Calls int // how many calls arrive at it
	// Waits is how long one request of its caller waits for it: all attempts,
	// each given up at its Timeout.
	Waits time.Duration
	// Runs is how long the work that one request of its caller started goes on
	// when nobody below hears that a caller gave up, as with settings that do not
	// know of each other: the attempts of each level multiply.
	Runs time.Duration
}

// WorstCase returns the worst case of each call of the tree, the root's first,
// each before what it calls. The tree need not fit or be valid. A call that
// calls nothing takes its Timeout, or the nearest Timeout above; another takes
// its own work and its calls, which add up one after another and of which the
// longest counts side by side.
//
// Where deadlines are passed on, no work goes on after the root's Timeout,
// however many attempts there are; Calls stays what it is, unless a retry
// budget bounds it.
func WorstCase(root Call) []Worst {
	_, worst := worstOf(&root, root.Name, 1, 0, nil)
	return worst
}

// worstOf appends what c and the calls below come to, and returns c's own.
func worstOf(c *Call, path string, arrive int, outer time.Duration, list []Worst) (Worst, []Worst) {
	at := len(list)
	list = append(list, Worst{Path: path, Calls: times(arrive, c.tries())})
	if c.Timeout > 0 {
		outer = c.Timeout
	}
	waits, runs := outer, outer
	if len(c.Calls) > 0 {
		waits, runs = 0, 0
	}
	for i := range c.Calls {
		var below Worst
		below, list = worstOf(&c.Calls[i], path+"/"+c.Calls[i].Name, list[at].Calls, outer, list)
		if c.Parallel {
			waits, runs = max(waits, below.Waits), max(runs, below.Runs)
		} else {
			waits, runs = plus(waits, below.Waits), plus(runs, below.Runs)
		}
	}
	if len(c.Calls) > 0 {
		own := max(c.Own, 0) // in a tree that is not valid
		waits, runs = plus(waits, own), plus(runs, own)
	}
	if c.Timeout > 0 {
		waits = c.Timeout
	}
	list[at].Waits, list[at].Runs = times(waits, c.tries()), times(runs, c.tries())
	return list[at], list
}

// InFlight returns how many requests are in flight, and so how many workers or
// connections they hold, when perSecond of them arrive each second and each is
// held for so long (Little's law, https://doi.org/10.1287/opre.9.3.383). For a
// mixture, add up its parts. With fewer workers than that, the share of the
// requests that is served is workers / InFlight.
func InFlight(perSecond float64, held time.Duration) float64 { return perSecond * held.Seconds() }
