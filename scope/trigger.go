package scope

import (
	"time"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/ctxnode"
)

// A failure is what the first one of a scope needs, in one piece of memory: its record,
// and how it ends the context.
type failure struct {
	record TaskError
	ending ctxnode.Ending
	cause  budget.Cause
}

// failureLocked returns a new failure. A scope in which nothing unusual has happened
// gets its unusual with it.
func (c *core) failureLocked() *failure {
	if c.unusual != &nothingUnusual {
		return &failure{}
	}
	f := &struct {
		failure
		unusual
	}{unusual: nothingUnusual}
	c.unusual = &f.unusual
	return &f.failure
}

// failsFirst is the first half of end for what ends most scopes that fail: a task of
// theirs, when nobody looks on, and nothing has ended them before. When it answers true
// it has recorded err and ended the scope's node, and failed is the second half. No
// function that is not ours is called in either.
//
//go:noinline
func (t *task) failsFirst(err error) bool {
	c := t.core
	if err == nil || t.mode != 0 || t.node != nil || c.node.Ending() != nil || hooks && c.env != nil {
		return false
	}
	now := time.Now()
	c.node.CatchUpAt(now)
	c.node.Mu.Lock()
	defer c.node.Mu.Unlock()
	if c.node.Ending() != nil || c.keepGoing || c.slots.Load() != nil || !t.advance(settling) {
		return false
	}
	f := c.failureLocked()
	f.record = TaskError{Task: t.title(), Err: err}
	c.triggeredLocked(&f.record, &f.cause)
	f.ending = ctxnode.Ending{Cause: &f.cause, Err: f.cause.Kind.Sentinel(), At: now}
	return c.node.EndLocked(&f.ending)
}

// failed is the second half of failsFirst, once those who wait for Done are awake.
//
//go:noinline
func (t *task) failed(err error) {
	c := t.core
	c.node.Mu.Lock()
	if !c.node.LeafLocked() {
		c.node.Mu.Unlock()
		c.node.EndBelow(true)
		c.node.Mu.Lock()
	}
	e := c.node.Ending()
	t.leaveLocked(err)
	c.watchEndLocked(e.At)
	c.node.Mu.Unlock()
}
