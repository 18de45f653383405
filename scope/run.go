package scope

import (
	"context"
	"runtime/trace"
	"time"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/ctxnode"
)

// Run opens a scope, runs body in it, and returns when body, every task and
// every cleanup has ended. The name, which must not be empty, stands in causes
// and paths.
//
// body runs on the caller's goroutine, with a context that ends at the limit's
// deadline, when ctx ends, when a task fails, or when the scope is cancelled.
// A body that returns nil waits for the tasks; one that returns an error, that
// panics or that calls runtime.Goexit cancels them first.
//
// The error is nil or an [*Error]. It is nil when nothing failed and nothing was
// cut, even when body and tasks ended past the deadline: see [Stats].Late. When
// there is no time to begin, body does not run: the error's Cause is the one
// [budget.Enter] gives, and a limit of Inherited under a ctx without a deadline
// gives [budget.ErrNoDeadline].
func Run(ctx context.Context, name string, limit budget.Limit, body func(context.Context, *Scope) error) error {
	if body == nil {
		panic("scope: Run: nil body")
	}
	return run(ctx, name, limit, entryOf(body), body)
}

// RunValue is Run for a body that brings a value back. The value is returned
// whenever body returned one, also beside an error, so that nothing it acquired
// is lost.
func RunValue[T any](ctx context.Context, name string, limit budget.Limit, body func(context.Context, *Scope) (T, error)) (T, error) {
	if body == nil {
		panic("scope: RunValue: nil body")
	}
	var v T
	err := run(ctx, name, limit, entryOf(body), func(ctx context.Context, s *Scope) (err error) {
		v, err = body(ctx, s)
		return err
	})
	return v, err
}

// run is Run; origin is where the caller's function begins that body is or calls,
// 0 when body is ours.
func run(ctx context.Context, name string, limit budget.Limit, origin uintptr, body func(context.Context, *Scope) error) error {
	if ctx == nil {
		panic("scope: Run: nil context")
	}
	if name == "" {
		panic("scope: Run: empty name")
	}
	var c *core
	resolved := &asCalled
	if limit == asCalled {
		c = &core{}
	} else {
		l := &limited{limit: limit}
		c, resolved = &l.core, &l.limit
	}
	c.body, c.unusual = origin, &nothingUnusual
	c.handle = Scope{c, &plain}
	c.node.Name, c.node.Owner, c.node.Quiet = name, c, true
	if hooks {
		if c.env = envAbove(ctx); c.env == nil && trace.IsEnabled() {
			c.env = &nobody
		}
		if c.env != nil {
			traced, end := withTraceTask(ctx, name)
			ctx = traced
			defer end()
		}
	}
	if err := ctxnode.Hooks.Enter(&c.node, ctx, resolved, time.Time{}); err != nil {
		return refused(ctx, name, err)
	}
	if above := c.node.Above(); above != nil {
		c.inheritSlots(above)
	}
	if hooks && c.env != nil && c.env.root != nil {
		c.joinTree()
		defer c.leaveTree()
	}

	settled := false
	defer func() {
		if settled {
			return
		}
		// The body panicked or called Goexit. Its goroutine unwinds through
		// here with its own stack; nothing is recovered unless the tasks do
		// not end in time, when the panic must not wait for them.
		c.abandonBody()
		if !c.joinWithin() {
			if v := recover(); v != nil {
				c.leaveTasksBehind()
				panic(v)
			}
			c.join()
		}
		c.clean()
		c.node.Close(scopeClosed)
		if pe := c.releaseParked(); pe != nil {
			if v := recover(); v != nil {
				panic(v) // the body's own panic; the task's was reported when it happened
			}
			panic(pe)
		}
	}()
	if err := body(&c.node.View, &c.handle); err != nil {
		if cut := c.endsCut(err); cut != nil {
			settled = true
			return cut
		}
		c.bodyFailed(err)
		c.join()
	} else if c.endsPlainly() {
		settled = true
		return nil
	}
	endedBefore := c.node.Ending() != nil
	c.clean()
	verdict := c.verdict(endedBefore)
	c.node.Close(scopeClosed)
	pe := c.releaseParked()
	settled = true
	if pe != nil {
		panic(pe)
	}
	if verdict == nil {
		return nil
	}
	return verdict
}

// endsPlainly joins the tasks once the body has returned nil, and closes a scope that
// has nothing else to do, in one step. It reports whether it did.
func (c *core) endsPlainly() bool {
	c.node.Mu.Lock()
	c.bodyOverLocked()
	c.joinLocked()
	if c.unusual != &nothingUnusual || c.node.Ending() != nil {
		c.node.Mu.Unlock()
		return false
	}
	c.phase, c.tasks = closed, nil
	rest := c.node.FinishLocked(scopeClosed)
	c.node.Mu.Unlock()
	c.node.Finish(rest)
	return true
}

// endsCut is endsPlainly for a body that returned what its ended context answers, which
// is what the scopes inside do when a scope with very many of them ends. It returns the
// verdict, nil when there is more to be done.
func (c *core) endsCut(err error) *Error {
	if e := c.node.Ending(); e == nil || echoOf(err, e) == running {
		return nil
	}
	c.node.Mu.Lock()
	if c.unusual != &nothingUnusual || c.tasks != nil || c.liveLocked() > 0 || c.helpers > 0 || c.waiters != nil {
		c.node.Mu.Unlock()
		return nil
	}
	c.phase = closed
	rest := c.node.FinishLocked(scopeClosed)
	c.node.Mu.Unlock()
	c.node.Finish(rest)
	v := &struct { // one piece of memory
		Error
		body TaskError
		late [1]error
	}{body: TaskError{Err: err, Induced: true}}
	v.late[0] = &v.body
	v.Error = Error{Scope: c.node.Path(), Cause: c.causeOfEnd(), Late: v.late[:], core: c, cut: true}
	return &v.Error
}

// envAbove returns who looks on at a scope opened under ctx. The scope or the
// task of which ctx is the very context knows it.
func envAbove(ctx context.Context) *env {
	if v, ok := ctx.(*ctxnode.View); ok {
		switch o := v.Owner.(type) {
		case *core:
			return o.env
		case *task:
			if v == &o.view && o.Values() == nil {
				return o.core.env
			}
		}
	}
	return envOf(ctx)
}

// nobody stands for an env while runtime/trace takes a trace.
var nobody env

// inheritSlots makes c's tasks need the slots of the scope it was opened in. What
// a cleanup opens needs none, as the cleanup itself: it has a bound, which it would
// spend on waiting for slots that its own opener, or other work, holds.
func (c *core) inheritSlots(above *ctxnode.View) {
	for v := above; v != nil; v = v.Node().Above() {
		var up *core
		switch o := v.Owner.(type) {
		case *cleanupRun:
			return
		case *task:
			up = o.core
		case *core:
			up = o
		default:
			continue
		}
		if s := up.slots.Load(); s != nil {
			c.node.Mu.Lock()
			c.putSlotsLocked(s)
			c.node.Mu.Unlock()
		}
		return
	}
}

// refused is the error of a scope whose body did not run.
func refused(ctx context.Context, name string, err error) *Error {
	path := name
	if v := ctxnode.Find(ctx); v != nil && v.Path() != "" {
		path = v.Path() + "/" + name
	}
	cause, ok := err.(*budget.Cause)
	if !ok {
		cause = &budget.Cause{Kind: budget.Failed, Scope: path, Err: err}
	}
	return &Error{Scope: path, Cause: cause}
}
