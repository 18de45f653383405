package scopetest

import (
	"context"
	"path"
	"strings"
	"time"

	"github.com/curfew-go/curfew/scope/internal/lab"
)

// few is how many leaks a failure lists before it counts the rest.
const few = 20

// finish is the end of the test: it waits for what still runs, and reports what
// does not end and which faults nobody met.
func (c *tester) finish() {
	c.t.Helper()
	leaks := c.wait()
	for i, l := range leaks {
		if i == few {
			c.t.Errorf("scopetest: and %d more still run", len(leaks)-few)
			break
		}
		c.t.Errorf("scopetest: %s", describe(l))
	}
	c.mu.Lock()
	faults := c.faults
	c.mu.Unlock()
	for _, f := range faults {
		if f.Hits() == 0 {
			c.t.Errorf("scopetest: nothing met the fault %v, injected at %s", f, *f.injected.Load())
		}
	}
}

// wait gives what runs the grace to end, and returns what has not.
//
// It asks again and again, each time a little later: a scope that told when it was
// the last to end would cost those who do not test.
func (c *tester) wait() []lab.Left {
	end := time.Now().Add(c.grace)
	c.mu.Lock()
	roots := c.roots
	c.mu.Unlock()
	for _, r := range roots {
		ctx, cancel := context.WithDeadline(context.Background(), end)
		cancel() // not the time for a soft stop
		_ = r.Drain(ctx)
	}
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		leaks := c.leaks()
		left := time.Until(end)
		if len(leaks) == 0 || left <= 0 {
			return leaks
		}
		<-time.After(min(pause, left))
	}
}

// leaks returns what runs now and may not.
func (c *tester) leaks() []lab.Left {
	all := lab.Living(c.tree)
	c.mu.Lock()
	for _, r := range c.roots {
		all = append(all, lab.Living(r)...)
	}
	c.mu.Unlock()

	var orphans []string // the allowed ones
	var found []lab.Left
	for _, l := range all {
		if l.State == "orphan" && c.allows(l.Path) {
			orphans = append(orphans, l.Path+"/")
			continue
		}
		inOne := false
		for _, o := range orphans { // a task is listed before what it opened
			inOne = inOne || strings.HasPrefix(l.Path, o)
		}
		if !inOne {
			found = append(found, l)
		}
	}
	return found
}

func (c *tester) allows(p string) bool {
	for _, pattern := range c.allowed {
		if ok, _ := path.Match(pattern, p); ok {
			return true
		}
	}
	return false
}
