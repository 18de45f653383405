package scope

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/ctxnode"
	"github.com/curfew-go/curfew/scope/internal/lab"
)

// ErrCleanupTimeout is matched by the error of a cleanup that did not end
// within its share of the scope's cleanup time.
var ErrCleanupTimeout = errors.New("scope: cleanup did not end in time")

type cleanup struct {
	name string
	f    func(context.Context) error
}

// Cleanup registers f to run after every task has ended, whatever ended the
// scope. Cleanups run one after the other, the last registered first, each on a
// goroutine of its own with a context that keeps the scope's values, not its
// end: a rollback works although the request is over. Together they have the
// limit's Cleanup time, one second unless it says, from the end of the last
// task; the context of each ends when its share of what is left does, which is
// at least an equal one. A cleanup that has not returned a moment later (a
// hundredth of its share, at most 10 ms) is left behind and reported, with an
// error that matches ErrCleanupTimeout, and the next one runs.
//
// Errors of cleanups stand in [Error].Cleanup. Register right after acquiring
// what is to be released, in the body, in a task or in a cleanup. An empty name
// or a nil f panics, and so does a scope that is over, with an error that
// matches ErrClosed.
func (s *Scope) Cleanup(name string, f func(context.Context) error) {
	mustBeTask("Cleanup", name, f == nil)
	c := s.c
	c.node.Mu.Lock()
	defer c.node.Mu.Unlock()
	if c.phase == closed {
		panic(fmt.Errorf("scope: Cleanup(%q) in scope %q, which is over: %w", name, c.node.Path(), ErrClosed))
	}
	own := c.ownLocked()
	own.cleanups = append(c.cleanups, cleanup{name, f})
}

// clean runs the cleanups; every task has ended.
func (c *core) clean() {
	var end time.Time
	for {
		c.node.Mu.Lock()
		left := len(c.cleanups)
		if left == 0 {
			c.phase = closed
			if c.cleaningUp != "" {
				c.cleaningUp = ""
			}
			c.node.Mu.Unlock()
			return
		}
		next := c.cleanups[left-1]
		c.cleanups[left-1] = cleanup{} // the error may be kept for long
		c.cleanups = c.cleanups[:left-1]
		c.cleaningUp = next.name
		c.node.Mu.Unlock()
		if end.IsZero() {
			end = c.cleanUntil(time.Now())
		}
		if err := c.cleanOne(next, time.Until(end)/time.Duration(left)); err != nil {
			c.node.Mu.Lock()
			c.outcome.cleanup = append(c.outcome.cleanup, &TaskError{Task: next.name, Err: err})
			c.node.Mu.Unlock()
		}
	}
}

// cleanUntil returns when the cleanups that begin now have to be over.
func (c *core) cleanUntil(now time.Time) time.Time {
	if e := c.env; e != nil && e.root != nil && c == &e.root.core {
		return now.Add(max(e.root.drainBy.Sub(now), time.Millisecond))
	}
	if kept := ctxnode.Hooks.CleanupTime(&c.node); kept > 0 {
		return now.Add(kept)
	}
	return now.Add(defaultCleanupTime)
}

// cleanOne runs one cleanup for at most share.
func (c *core) cleanOne(next cleanup, share time.Duration) error {
	// A share below a millisecond is that of a machine too busy to be on time:
	// the cleanup still gets a chance.
	share = max(share, time.Millisecond)
	limit := budget.Within(share).Named("cleanup")
	node := &ctxnode.Node{Name: next.name, Limit: &limit}
	r := &cleanupRun{core: c, f: next.f, node: node, done: make(chan error, 1)}
	node.Owner = r // before its timer runs, which asks the Owner for its path
	node.StartDetached(&c.node.View, time.Now().Add(share))
	go r.run()

	var err error
	select {
	case err = <-r.done:
	case <-node.Done():
		// One that obeys its context returns now; only a deaf one does not.
		timer := time.NewTimer(min(max(share/100, time.Millisecond), cleanupGrace))
		defer timer.Stop()
		select {
		case err = <-r.done:
		case <-timer.C:
			if r.settle(true) {
				c.reportLeftBehind(next, share)
				return fmt.Errorf("%w: left behind after %v", ErrCleanupTimeout, share)
			}
			err = <-r.done
		}
	}
	if e := node.Ending(); e != nil && err != nil && matches(err, e) {
		err = fmt.Errorf("%w: %w", ErrCleanupTimeout, err)
	}
	node.Close(scopeClosed)
	if pe, ok := err.(*PanicError); ok {
		c.node.Mu.Lock()
		own := c.ownLocked()
		own.panics = append(own.panics, pe)
		c.node.Mu.Unlock()
	}
	return err
}

func (c *core) reportLeftBehind(next cleanup, share time.Duration) {
	if t := c.trace(); t != nil && t.CleanupLeftBehind != nil {
		t.CleanupLeftBehind(c.node.Path(), next.name, share)
		return
	}
	slog.Default().Warn("scope: cleanup did not end in time", "scope", c.node.Path(), "cleanup", next.name, "after", share)
}

// A cleanupRun is one cleanup's goroutine.
type cleanupRun struct {
	core    *core
	f       func(context.Context) error
	node    *ctxnode.Node
	done    chan error // holds one
	settled bool       // whether it ended, or was left behind: the first wins; under core.node.Mu
}

// settle reports whether the cleanup was still undecided. One that is left
// behind is an orphan until it ends.
func (r *cleanupRun) settle(leftBehind bool) bool {
	c := r.core
	c.node.Mu.Lock()
	defer c.node.Mu.Unlock()
	switch {
	case r.settled && !leftBehind:
		c.orphans--
	case !r.settled && leftBehind:
		c.orphans++
	}
	was := r.settled
	r.settled = true
	return !was
}

func (r *cleanupRun) run() {
	var err error
	returned := false
	defer func() {
		if returned {
			r.end(err)
			return
		}
		v := recover()
		if v == nil {
			r.end(ErrGoexit)
			return
		}
		pe, reported := newPanicError(r.node.Path(), v)
		if !r.tellAndEnd(pe, reported) {
			panic(v) // Run has returned: nobody is left to re-raise it
		}
	}()
	if err = r.disturbed(); err == nil {
		err = r.f(&r.node.View)
	}
	returned = true
}

// tellAndEnd is end for a panic, which it reports first. The report's function,
// which is the user's, may call Goexit.
func (r *cleanupRun) tellAndEnd(pe *PanicError, reported bool) (awaited bool) {
	defer func() { awaited = r.end(pe) }()
	if !reported {
		r.core.report(pe)
	}
	return false
}

// end hands err to Run, and reports whether Run still waits for it.
func (r *cleanupRun) end(err error) bool {
	if !r.settle(false) {
		r.node.Stop()
		return false
	}
	r.done <- err
	return true
}

// disturbed lets a test do something to the cleanup before it begins.
func (r *cleanupRun) disturbed() error {
	e := r.core.env
	if e == nil || e.test == nil || e.test.At == nil {
		return nil
	}
	return e.test.At(&r.node.View, lab.Cleanup, r.core.node.Path(), r.node.Name)
}
