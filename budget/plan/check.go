package plan

import (
	"fmt"
	"time"
)

// A Finding is something doubtful about one call.
type Finding struct {
	Path string
	// Problem is "inverted", "uncapped", "cap" or "floor", as Check says.
	Problem string
	Text    string // what it is, with figures
}

// String returns the path and the text.
func (f Finding) String() string { return f.Path + ": " + f.Text }

// Check looks for what goes wrong with settings made one by one, in a tree that
// need not fit. It returns, in the order of the tree:
//
//   - inverted: the call, with all its attempts, may take longer than one
//     attempt of what called it, and so works on for a caller that gave up;
//   - uncapped: a call before others has no Timeout, and can use up what was
//     meant for those;
//   - cap: the Timeout is below the observed median, and so cuts off most
//     attempts, or above the observed p99.9, and so bounds nothing;
//   - floor: the Floor is below the observed median, and so starts what is
//     likely to be cut off, or above the observed p99.9, and so refuses what
//     would have been answered.
//
// A quantile that is not known is not compared with.
func Check(root Call) []Finding {
	return check(&root, root.Name, 0, nil)
}

// check adds to found what is doubtful about c and below. outer is the nearest
// Timeout above, 0 when there is none.
func check(c *Call, path string, outer time.Duration, found []Finding) []Finding {
	report := func(path, problem, format string, args ...any) {
		found = append(found, Finding{path, problem, fmt.Sprintf(format, args...)})
	}
	if all := times(c.Timeout, c.tries()); outer > 0 && all > outer {
		if c.tries() > 1 {
			report(path, "inverted", "%d attempts of %v outlive their caller, which gives up after %v", c.tries(), c.Timeout, outer)
		} else {
			report(path, "inverted", "a timeout of %v outlives the caller, which gives up after %v", c.Timeout, outer)
		}
	}
	if c.Observed != nil {
		if text := left("a timeout", c.Timeout, c.Observed, "it cuts off most attempts", "it bounds nothing"); text != "" {
			report(path, "cap", "%s", text)
		}
		if text := left("a floor", c.Floor, c.Observed, "it starts what is likely to be cut off", "it refuses what would be answered"); text != "" {
			report(path, "floor", "%s", text)
		}
	}
	if c.Timeout > 0 {
		outer = c.Timeout
	}
	for i := range c.Calls {
		child := &c.Calls[i]
		if child.Timeout == 0 && !c.Parallel && i < len(c.Calls)-1 {
			report(path+"/"+child.Name, "uncapped", "no timeout, and %d after it: it can use up their time", len(c.Calls)-1-i)
		}
		found = check(child, path+"/"+child.Name, outer, found)
	}
	return found
}

// left says how a setting has left the observed range, or "".
func left(what string, d time.Duration, seen Observed, below, above string) string {
	if d == 0 {
		return ""
	}
	if p50, ok := seen.Quantile(0.5); ok && d < p50 {
		return fmt.Sprintf("%s of %v is below the observed median of %v: %s", what, d, p50, below)
	}
	if p999, ok := seen.Quantile(0.999); ok && d > p999 {
		return fmt.Sprintf("%s of %v is above the observed p99.9 of %v: %s", what, d, p999, above)
	}
	return ""
}
