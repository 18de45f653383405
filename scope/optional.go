package scope

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/curfew-go/curfew/budget"
)

// A Missing is an optional task that the scope has to do without.
type Missing struct {
	Task  string
	Err   error         // what it failed with, or why it was not begun
	After time.Duration // how long it was tried; 0 when it was not begun
}

// String tells of the task, its error and the time, in one line.
func (m Missing) String() string {
	return fmt.Sprintf("%s, after %v: %s", m.Task, m.After.Round(time.Millisecond), text(m.Err))
}

// Optional returns a handle onto s for tasks that the scope can do without, under
// a limit of their own: what is optional must not take all of the time. A failure
// of such a task, a panic excepted, does not end the scope and does not count in
// its verdict. It becomes a [Missing], and [Task.Or] answers the fallback.
func (s *Scope) Optional(limit budget.Limit) *Scope {
	h := s.Limit(limit)
	h.mode |= optional
	return h
}

// Missing returns the optional tasks that have failed or were skipped so far, in
// the order in which they were started, so that a reply can say how complete it
// is. The slice is the caller's, and empty when nothing is missing.
func (s *Scope) Missing() []Missing {
	c := s.c
	c.node.Mu.Lock()
	found := slices.Clone(c.missing)
	c.node.Mu.Unlock()
	slices.SortFunc(found, func(a, b missing) int { return cmp.Compare(a.seq, b.seq) })
	all := make([]Missing, len(found))
	for i, m := range found {
		all[i] = m.Missing
	}
	return all
}

// A missing is a Missing with its place in the order.
type missing struct {
	seq uint64
	Missing
}

// miss notes that the optional task t failed.
func (c *core) miss(t *task, te *TaskError) {
	m := Missing{Task: t.name, Err: te.Err, After: time.Since(t.more.began)}
	c.node.Mu.Lock()
	own := c.ownLocked()
	own.missing = append(own.missing, missing{t.seq, m})
	c.node.Mu.Unlock()
}

// SetKeepGoing makes the scope go on when a task fails: the others are not
// cancelled, and the error tells of all failures at the end. What fails the body,
// the deadline, the parent and Cancel still end the scope, and so does a panic.
// It is for the first lines of the body.
func (s *Scope) SetKeepGoing() {
	s.c.node.Mu.Lock()
	defer s.c.node.Mu.Unlock()
	s.c.keepGoing = true
}
