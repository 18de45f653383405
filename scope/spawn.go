package scope

import (
	"context"
	"fmt"
	"time"

	"github.com/curfew-go/curfew/internal/ctxnode"
)

// Go starts f in the scope, on a goroutine of its own, with a context of its
// own that must not be used after f returned. An error from f fails the scope.
//
// In a scope whose context has ended f is not started, and counted as skipped; the
// same goes for what an abandoned task starts later. In one that is over Go
// otherwise panics with an error that matches ErrClosed. Go blocks
// only in a tree with slots, see SetSlots. An empty name or a nil f panics.
func (s *Scope) Go(name string, f func(context.Context) error) {
	mustBeTask("Go", name, f == nil)
	s.spawn(&task{name: name, work: plainWork(f)}, "Go")
}

func mustBeTask(verb, name string, nilFunc bool) {
	if name == "" {
		panic("scope: " + verb + ": empty name")
	}
	if nilFunc {
		panic(fmt.Sprintf("scope: %s(%q): nil function", verb, name))
	}
}

// spawn starts t on a goroutine of its own, unless the scope has ended.
func (s *Scope) spawn(t *task, verb string) {
	c := s.c
	t.core, t.mode = c, s.mode
	if s.restart != nil {
		t.work = &restarter{work: t.work, task: t, backoff: *s.restart}
	}
	if s.in != nil {
		t.extra().values = s.in
	}
	t.view.Init(&c.node, t)
	if hooks && c.env != nil {
		t.watchBegin(c.env.spawnSite())
	}
	if s.mode&optional != 0 {
		t.extra().began = time.Now()
	}
	if s.mode&service != 0 {
		t.enterService(s)
	}
	var back func()
	if c.needsSlot(t) {
		back = c.takeSlot(t, s.in)
	}
	if c.admit(t, verb) {
		if err := t.enter(s); err != nil {
			t.refused(err)
		} else {
			go t.run()
		}
	}
	if back != nil {
		back()
	}
}

// admit counts t as live and reports whether it may begin. In a scope that is
// over it panics, unless an abandoned task calls.
func (c *core) admit(t *task, verb string) bool {
	c.node.Mu.Lock()
	if c.phase >= cleaning || c.node.Ending() != nil {
		c.turnAwayLocked(t, verb)
		return false
	}
	c.startedLocked(t)
	c.node.Mu.Unlock()
	return true
}

// turnAwayLocked is admit for a task that may not begin. It lets go of the lock.
//
//go:noinline
func (c *core) turnAwayLocked(t *task, verb string) {
	if c.phase >= cleaning {
		c.node.Mu.Unlock()
		t.letGo()
		t.close()
		if c.leftCaller() {
			// It does not know that Run has returned, and a moment before it
			// would have been told the same.
			c.node.Mu.Lock()
			cause := c.node.Cause()
			t.doneLocked(cause)
			c.ownLocked().skipped++ // not cut: the verdict has been given
			c.node.Mu.Unlock()
			t.tellSkipped(cause)
			return
		}
		panic(fmt.Errorf("scope: %s(%q) in scope %q, which is over: %w", verb, t.name, c.node.Path(), ErrClosed))
	}
	c.numberLocked(t)
	cause := c.node.Cause()
	t.doneLocked(cause)
	c.skippedLocked(t, cause)
	c.node.Mu.Unlock()
	t.letGo()
	t.close()
	t.tellSkipped(cause)
}

// leftCaller reports whether the calling goroutine runs a task that c has abandoned,
// or something inside it.
func (c *core) leftCaller() bool {
	for _, u := range tasksOnStack() {
		for ; u != nil; u = taskOf(u.core.node.Above()) {
			if u.core != c {
				continue
			}
			c.node.Mu.Lock()
			left := u.abandoned
			c.node.Mu.Unlock()
			if left {
				return true
			}
		}
	}
	return false
}

func (c *core) startedLocked(t *task) {
	t.profiles = shared.count.Load()
	c.numberLocked(t)
	if t.mode&service == 0 {
		c.countLocked(1)
	} else {
		c.ownLocked().services++
		if c.phase != open {
			c.node.Idle.Wake() // who joins tells it to end
		}
	}
	c.linkLocked(t)
	if c.sequence%sweepEvery == 0 && c.node.Ending() == nil {
		c.sweepLocked()
	}
}

// skippedLocked counts a task that was not begun. An optional one is missing; any
// other makes the scope's work less than it was asked to be.
func (c *core) skippedLocked(t *task, cause error) {
	own := c.ownLocked()
	own.skipped++
	own.unbegun++
	if t.mode&optional != 0 {
		own.missing = append(own.missing, missing{t.seq, Missing{Task: t.name, Err: cause}})
		return
	}
	own.cut++
}

// refused takes back a task whose context could not be made: because the scope
// has ended meanwhile, or because there is no time for it.
func (t *task) refused(err error) {
	c := t.core
	if c.node.CatchUp(); c.node.Ending() == nil {
		t.end(err)
		return
	}
	if !t.settle() {
		t.orphanEnded(err)
		return
	}
	cause := c.node.Cause()
	c.node.Mu.Lock()
	t.leaveLocked(cause)
	c.skippedLocked(t, cause)
	c.node.Mu.Unlock()
	t.tellSkipped(cause)
}

func (t *task) tellSkipped(cause error) {
	if tr := t.core.trace(); tr != nil && tr.TaskSkipped != nil {
		tr.TaskSkipped(t.core.node.Path(), t.name, cause)
	}
}

// enter makes the context of a task that does not share its scope's, counting the
// task as live already, so that the scope cannot close meanwhile.
func (t *task) enter(s *Scope) error {
	c := t.core
	if t.mode&service != 0 || !s.limited && (s.in == nil || s.in.Done() == c.node.Done()) {
		return nil
	}
	node := &ctxnode.Node{View: ctxnode.View{Owner: t}, Name: t.name}
	node.PutUnder(&c.node)
	parent := s.in
	if parent == nil {
		parent = &c.node.View
	}
	limit := s.limit // Inherited unless the handle has one
	if err := ctxnode.Hooks.Enter(node, parent, &limit, time.Time{}); err != nil {
		return err
	}
	c.node.Mu.Lock()
	t.node = node // others find t already
	c.node.Mu.Unlock()
	return nil
}
