package scope

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/sourcegraph/conc/panics"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/ctxnode"
)

// A PanicError is a panic of a task or a cleanup, as Run re-raises it on the
// goroutine of its caller.
type PanicError struct {
	Task  string // path of the task, such as "dashboard/profile"
	Value any    // what it panicked with
	Stack []byte // its goroutine's stack at the panic

	ours bool // a scope made and reported it; it is raised again, not by hand
}

// newPanicError makes the error of a panic, called from the deferred function
// that recovered v. A panic that comes from a scope inside the task stays what
// it is, and was reported there: its stack, not ours, shows the place.
func newPanicError(task string, v any) (pe *PanicError, reported bool) {
	if pe, ok := v.(*PanicError); ok && pe != nil && pe.ours {
		return pe, true
	}
	return &PanicError{Task: task, Value: v, Stack: panics.NewRecovered(1, v).Stack, ours: true}, false
}

// Error returns the value and the stack, because it is what a dying process
// prints.
func (e *PanicError) Error() string { return fmt.Sprintf("%s\n\n%s", e.headline(), e.Stack) }

func (e *PanicError) headline() string {
	return fmt.Sprintf("scope: task %s panicked: %v", e.Task, e.Value)
}

// Unwrap returns the value the task panicked with when it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// report tells of a panic when it happens: whoever re-raises it comes later.
func (c *core) report(pe *PanicError) {
	if t := c.trace(); t != nil && t.TaskPanicked != nil {
		t.TaskPanicked(pe)
		return
	}
	slog.Default().Error("scope: task panicked", "task", pe.Task, "value", fmt.Sprint(pe.Value), "stack", string(pe.Stack))
}

// panicked ends a task whose function panicked with v, and holds its goroutine,
// whose stack still shows the place, until Run is about to re-raise the panic.
//
// When the owner does not get there the panic is raised here, from the task's
// own goroutine, and the process dies with the stack that tells why. Carrying
// every panic to the owner was refused: an owner that is blocked on what the
// task would have done would hide the panic for ever.
func (t *task) panicked(v any) {
	c := t.core
	if t.mode&unlisted != 0 {
		t.enlist()
	}
	pe, reported := newPanicError(t.context().Path(), v)
	if t.mode&background != 0 || !t.settle() {
		// Nobody is left to raise it: the Root's work has no caller, and an
		// abandoned task's Run has returned.
		if !reported {
			c.report(pe)
		}
		panic(v)
	}
	clock := c.panicClock()
	t.reportAndPark(pe, reported)
	if !clock.wait(c.unwound) {
		panic(v)
	}
	c.node.Mu.Lock()
	c.parked--
	if t.helped {
		c.helpers++ // until the goroutine has ended
	}
	c.node.Idle.Wake()
	c.node.Mu.Unlock()
}

// reportAndPark records and reports the panic, and stops counting the task as live,
// whatever the functions of the Trace do: one that calls Goexit ends the goroutine
// here.
func (t *task) reportAndPark(pe *PanicError, reported bool) {
	c := t.core
	returned := false
	defer func() {
		c.node.Mu.Lock()
		defer c.node.Mu.Unlock()
		own := c.ownLocked()
		own.panics = append(own.panics, pe)
		t.panicking = true
		if returned {
			own.parked++
			if t.helped {
				c.helpers-- // it is among the parked ones now
			}
		}
		if own.unwound == nil {
			own.unwound = make(chan struct{})
		}
		t.leaveLocked(pe)
	}()
	t.record(pe, true) // siblings are cancelled before anybody is told
	if !reported {
		c.report(pe)
	}
	returned = true
}

// A panicClock bounds how long a panic may wait for the scope's owner. It
// stands still during cleanups and Detached blocks, which have bounds of their
// own.
type panicClock struct {
	node    *ctxnode.Node
	forever bool
	due     time.Time
	paused  time.Duration // before it started
}

func (c *core) panicClock() panicClock {
	now := time.Now()
	c.node.Mu.Lock()
	defer c.node.Mu.Unlock()
	clock := panicClock{node: &c.node, forever: c.panicGrace < 0, due: now.Add(c.panicGrace), paused: c.node.PausedLocked(now)}
	if d, ok := c.node.Deadline(); ok && d.Add(stragglerGrace).After(clock.due) {
		clock.due = d.Add(stragglerGrace)
	}
	return clock
}

// leftLocked returns how long the clock still runs, zero or less when it has
// run out. While it stands still it does not answer less than pausedCheck.
func (k *panicClock) leftLocked() time.Duration {
	const pausedCheck = 10 * time.Millisecond
	now := time.Now()
	left := k.due.Sub(now) + k.node.PausedLocked(now) - k.paused
	if left > 0 {
		left = max(left, pausedCheck)
	}
	return left
}

// wait reports whether unwound was closed before the clock ran out.
func (k *panicClock) wait(unwound <-chan struct{}) bool {
	if k.forever {
		<-unwound
		return true
	}
	timer := time.NewTimer(time.Until(k.due))
	defer timer.Stop()
	for {
		select {
		case <-unwound:
			return true
		case <-timer.C:
		}
		k.node.Mu.Lock()
		left := k.leftLocked()
		k.node.Mu.Unlock()
		if left <= 0 {
			select {
			case <-unwound: // in the same instant
				return true
			default:
				return false
			}
		}
		timer.Reset(left)
	}
}

// releaseParked lets the goroutines of panicked tasks end, waits for them, and
// returns the panic to raise, nil when there is none.
func (c *core) releaseParked() *PanicError {
	c.node.Mu.Lock()
	defer c.node.Mu.Unlock()
	if len(c.panics) == 0 {
		return nil
	}
	if c.unwound != nil {
		close(c.unwound)
	}
	for c.parked > 0 {
		c.node.Idle.Wait(&c.node.Mu)
	}
	for _, pe := range c.panics {
		// The one that ended the scope, where one did: two that race may have
		// been listed the other way round.
		if t := c.outcome.trigger; t != nil && t.Err == error(pe) {
			return pe
		}
	}
	return c.panics[0]
}

// leaveTasksBehind counts and reports the tasks that keep a panicking body from
// unwinding. The caller of Run may recover the panic and go on, so the scope
// still ends properly once they do.
func (c *core) leaveTasksBehind() {
	c.node.Mu.Lock()
	live := c.everyLocked(func(t *task) bool { return !t.overLocked() })
	left := len(live)
	c.ownLocked().orphans += left
	var names []string
	for _, t := range live[:min(left, few)] {
		names = append(names, t.title())
	}
	c.node.Mu.Unlock()
	slog.Default().Warn("scope: body panicked over tasks that do not end", "scope", c.node.Path(), "tasks", names, "count", left)
	go func() {
		c.join()
		c.node.Mu.Lock()
		c.orphans -= left
		c.node.Mu.Unlock()
		c.clean()
		c.node.Close(scopeClosed)
		c.releaseParked()
		c.leaveTree()
	}()
}

var errBodyUnwound = errors.New("scope: the body panicked or called runtime.Goexit")

// abandonBody cancels the tasks of a scope whose body will not return.
func (c *core) abandonBody() {
	c.node.Mu.Lock()
	c.phase = closing
	c.suspectLocked()
	first := c.node.EndLocked(&ctxnode.Ending{
		Cause: &budget.Cause{Kind: budget.SiblingFailed, Scope: c.node.Path(), Err: errBodyUnwound},
		Err:   context.Canceled,
		At:    time.Now(),
	})
	c.node.Mu.Unlock()
	if first {
		c.node.Release()
	}
}
