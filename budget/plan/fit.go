package plan

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/curfew-go/curfew/budget"
)

// A Plan is a tree that fits, with what each call gets. It is a copy and does not
// change; goroutines may share it.
type Plan struct {
	root  *share
	calls map[string]*share
}

// A share is what one call gets.
type share struct {
	call    *Call
	depth   int
	timeout time.Duration // of one attempt
	slush   time.Duration // of which the hop takes so much
	reserve time.Duration
	spare   time.Duration // what neither the calls nor the work need
	below   []*share
}

// An OverrunError says that a call cannot do its part in the time it gets, even
// when each part takes just what it may.
type OverrunError struct {
	Path   string        // of the call whose time is too short
	Given  time.Duration // to one attempt of it
	Needed time.Duration
	// Required is what is needed when all optional calls are left out.
	Required time.Duration
	Parts    string // what makes up Needed
}

// Error names the call, the overrun and the parts.
func (e *OverrunError) Error() string {
	text := fmt.Sprintf("plan: %s does not fit by %v: %s = %v of %v", e.Path, e.Needed-e.Given, e.Parts, e.Needed, e.Given)
	if e.Required <= e.Given {
		text += "; without its optional calls it fits"
	}
	return text
}

// Fit shares the Timeout of root out over the tree. Every call's own work,
// reserve and calls must fit into one attempt of it; calls one after another add
// up, of those side by side the longest counts, and each counts with all its
// attempts, optional or not. Calls without a Timeout share what the others
// leave, one after another evenly.
//
// slush is what the sender takes off what it passes on at each hop, and so what
// a call's own work has less than its Timeout; wire.Slush.Of fits. nil is none.
// There is no hop to root, nor to Local calls.
//
// The error is an *InvalidError, or an *OverrunError for each call that is too
// short, joined, the outermost first. With an error the Plan is nil.
func Fit(root Call, slush func(time.Duration) time.Duration) (*Plan, error) {
	if err := root.validate(root.Name, true); err != nil {
		return nil, err
	}
	if slush == nil {
		slush = func(time.Duration) time.Duration { return 0 }
	}
	f := fitting{slush: slush, plan: &Plan{calls: map[string]*share{}}}
	f.plan.root = f.fit(root.clone(), root.Name, root.Timeout, 0)
	switch len(f.overruns) {
	case 0:
		return f.plan, nil
	case 1:
		return nil, f.overruns[0]
	}
	return nil, errors.Join(f.overruns...)
}

type fitting struct {
	slush    func(time.Duration) time.Duration
	plan     *Plan
	overruns []error
}

// fit gives c one attempt of timeout, and shares that out below.
func (f *fitting) fit(c *Call, path string, timeout time.Duration, depth int) *share {
	s := &share{call: c, depth: depth, timeout: timeout}
	f.plan.calls[path] = s
	if depth > 0 && !c.Local {
		s.slush = min(max(f.slush(timeout), 0), timeout)
	}
	s.reserve = c.Reserve
	if c.Share > 0 {
		s.reserve = time.Duration(c.Share * float64(timeout-s.slush))
	}
	all, required, capped, open := c.demand()
	aside := plus(s.slush, s.reserve) // what is not for the work
	needed := plus(aside, c.work(all))
	if needed > timeout {
		f.overruns = append(f.overruns, &OverrunError{
			Path: path, Given: timeout, Needed: needed, Required: plus(aside, c.work(required)), Parts: s.parts(all),
		})
	}
	room := max(timeout-plus(aside, c.Own), 0)
	rest := room // for a call without a Timeout
	if !c.Parallel {
		rest = max(room-capped, 0) / time.Duration(max(open, 1))
	}
	if open == 0 {
		s.spare = max(timeout-needed, 0)
	}
	for i := range c.Calls {
		child := &c.Calls[i]
		one := child.Timeout
		if one == 0 {
			if need := child.needs(); need > rest {
				if needed <= timeout { // else this is the overrun above
					f.overruns = append(f.overruns, &OverrunError{
						Path: path + "/" + child.Name, Given: rest, Needed: need, Required: need,
						Parts: "what it needs of an even share",
					})
				}
				continue // nothing worth sharing out below
			}
			one = rest / time.Duration(child.tries())
		}
		s.below = append(s.below, f.fit(child, path+"/"+child.Name, one, depth+1))
	}
	return s
}

// least is what work without any other figure needs: below a millisecond no wire
// form can say what is left.
const least = time.Millisecond

// work returns what c's work needs when its calls need so much.
func (c *Call) work(calls time.Duration) time.Duration {
	if sum := max(plus(c.Own, calls), c.Floor); sum > 0 {
		return sum
	}
	return least
}

// demand returns what c's calls need together, what those need that are not
// optional, what those take that have a Timeout, and how many have none.
func (c *Call) demand() (all, required, capped time.Duration, open int) {
	join := plus[time.Duration]
	if c.Parallel {
		join = func(a, b time.Duration) time.Duration { return max(a, b) }
	}
	for i := range c.Calls {
		child := &c.Calls[i]
		all = join(all, child.needs())
		if !child.Optional {
			required = join(required, child.needs())
		}
		if child.Timeout == 0 {
			open++
		} else {
			capped = join(capped, child.needs())
		}
	}
	return all, required, capped, open
}

// parts lists what a call's time is needed for, of which all is for its calls.
func (s *share) parts(all time.Duration) string {
	var parts []string
	list := func(name string, d time.Duration) {
		if d > 0 {
			parts = append(parts, fmt.Sprintf("%s %v", name, d))
		}
	}
	list("slush", s.slush)
	list("reserve", s.reserve)
	if sum := plus(s.call.Own, all); s.call.Floor > sum {
		list("floor", s.call.Floor)
		return strings.Join(parts, " + ")
	} else if sum == 0 {
		list("any work", least)
	}
	list("own", s.call.Own)
	var calls []string
	for i := range s.call.Calls {
		child := &s.call.Calls[i]
		name, n := child.Name, child.tries()
		if child.Timeout == 0 {
			name += " at least"
		}
		if n > 1 {
			name += fmt.Sprintf(" %d ×", n)
		}
		calls = append(calls, fmt.Sprintf("%s %v", name, child.needs()/time.Duration(n)))
	}
	if s.call.Parallel && len(calls) > 1 {
		calls = []string{"the longest of (" + strings.Join(calls, ", ") + ")"}
	}
	return strings.Join(append(parts, calls...), " + ")
}

// Limit returns what the work of the call at path is to be entered with, where
// that work is done: named after the call, with its timeout, reserve and floor.
// A path that is not in the tree panics.
func (p *Plan) Limit(path string) budget.Limit {
	s := p.at("Limit", path)
	l := budget.Within(s.timeout).Named(s.call.Name).Require(s.call.Floor)
	if s.call.Share > 0 {
		return l.ReserveShare(s.call.Share, 0, s.timeout)
	}
	return l.Reserve(s.call.Reserve)
}

// Timeout returns what the caller gives one attempt of the call at path; from
// that the call's Limit keeps its reserve. A path that is not in the tree
// panics.
func (p *Plan) Timeout(path string) time.Duration { return p.at("Timeout", path).timeout }

func (p *Plan) at(method, path string) *share {
	s, ok := p.calls[path]
	if !ok {
		panic(fmt.Sprintf("plan: %s: no call %q", method, path))
	}
	return s
}
