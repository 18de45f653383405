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
	return run(ctx, nil, name, &limit, itself, body)
}

// RunValue is Run for a body that brings a value back. The value is returned
// whenever body returned one, also beside an error, so that nothing it acquired
// is lost.
func RunValue[T any](ctx context.Context, name string, limit budget.Limit, body func(context.Context, *Scope) (T, error)) (T, error) {
	if body == nil {
		panic("scope: RunValue: nil body")
	}
	var v T
	err := run(ctx, nil, name, &limit, entryOf(body), func(ctx context.Context, s *Scope) (err error) {
		v, err = body(ctx, s)
		return err
	})
	return v, err
}

// What run is told of a body that does not call the caller's one function.
const (
	itself uintptr = iota // body is that function
	ours                  // there is none: nobody wants to read of body
)

// run is Run. in is the scope to open where it inherits, of which nobody knows yet, nil
// for a new one. origin is where the caller's function begins that body calls, or one
// of the above.
//
// A task that opens a scope does so on a stack of 2 KiB, of which 1.1 can be used: one
// that does not suffice is copied, which costs more than all else about the scope. So
// what stands on the stack while body runs is little, what begins and ends the scope
// are functions of their own, and
// TestStack_ATaskThatOpensAScopeKeepsToTheFirstTwoKiB looks after it.
func run(ctx context.Context, in *core, name string, limit *budget.Limit, origin uintptr, body func(context.Context, *Scope) error) error {
	if body == nil {
		panic("scope: Run: nil body")
	}
	if origin == itself {
		origin = entryOf(body)
	}
	var o opened
	if refusal := o.open(ctx, in, name, limit, origin); refusal != nil {
		return refusal
	}
	defer o.leave()
	err := body(&o.node.View, &o.handle)
	if err == nil {
		if rest, verdict, over := o.endsAtOnce(); over {
			o.node.Finish(rest) // from here, high on the stack
			o.settled = true
			if verdict == nil {
				return nil
			}
			return verdict
		}
	}
	pe, verdict := o.end(err)
	o.settled = true
	if pe != nil {
		panic(pe)
	}
	return verdict
}

// An opened is a scope as its Run has it on the stack.
type opened struct {
	*core
	untrace func() // ends its task of runtime/trace; nil: there is none
	settled bool   // it is over, and Run returns
}

// open begins the scope. The error, an *Error, says that there is no time for it.
//
//go:noinline
func (o *opened) open(ctx context.Context, in *core, name string, limit *budget.Limit, origin uintptr) error {
	if ctx == nil {
		panic("scope: Run: nil context")
	}
	if name == "" {
		panic("scope: Run: empty name")
	}
	c, resolved := in, &asCalled // limit itself stays on the stack
	inherits := *limit == asCalled
	switch {
	case !inherits:
		l := &limited{limit: *limit}
		c, resolved = &l.core, &l.limit
	case c == nil:
		c = &core{}
	}
	o.core = c
	if c.unusual = &nothingUnusual; origin != ours {
		c.body = origin
	}
	c.handle = Scope{c, &plain}
	c.node.Name, c.node.Owner, c.node.Quiet = name, c, true
	if hooks {
		if c.env = envAbove(ctx); c.env == nil && trace.IsEnabled() {
			c.env = &nobody
		}
		if c.env != nil {
			ctx, o.untrace = withTraceTask(ctx, name)
		}
	}
	// What Enter does first where a limit is inherited is done from here, for the stack.
	if c.node.Limit = resolved; !inherits || !c.node.Adopt(ctx, time.Time{}) {
		if err := ctxnode.Hooks.Enter(&c.node, ctx, resolved, time.Time{}); err != nil {
			return o.refused(ctx, name, err)
		}
	}
	if above := c.node.Above(); above != nil {
		c.inheritSlots(above)
	}
	if hooks && c.env != nil && c.env.root != nil {
		c.joinTree()
	}
	return nil
}

// leave is what Run does last. When it has not settled the body panicked or called
// Goexit: its goroutine unwinds through here with its own stack.
func (o *opened) leave() {
	if hooks && o.env != nil {
		defer o.unwatch()
	}
	if o.settled {
		return
	}
	// Nothing is recovered unless the tasks do not end in time, when the panic must
	// not wait for them.
	c := o.core
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
}

// unwatch tells those who look on that the scope is over.
func (o *opened) unwatch() {
	if o.untrace != nil {
		defer o.untrace()
	}
	o.leaveTree()
}

// end ends a scope that has not ended at once, whose body has returned err. It returns
// the panic that Run raises, or what Run returns.
//
//go:noinline
func (c *core) end(err error) (*PanicError, error) {
	if err != nil {
		if cut := c.endsCut(err); cut != nil {
			return nil, cut
		}
		c.bodyFailed(err)
		c.join()
	}
	endedBefore := c.node.Ending() != nil
	c.clean()
	verdict := c.verdict(endedBefore)
	c.node.Close(scopeClosed)
	pe := c.releaseParked()
	if verdict == nil {
		return pe, nil
	}
	return pe, verdict
}

// endsAtOnce joins the tasks once the body has returned nil, and closes a scope that
// has no cleanups and no panic to raise, in one step. It reports whether it did, with
// the verdict; the caller must call Finish of the node with the rest then.
func (c *core) endsAtOnce() (rest ctxnode.Rest, verdict *Error, over bool) {
	c.node.Mu.Lock()
	c.bodyOverLocked()
	c.joinLocked()
	if len(c.cleanups) > 0 || len(c.panics) > 0 {
		c.node.Mu.Unlock()
		return 0, nil, false
	}
	if c.unusual != &nothingUnusual || c.node.Ending() != nil {
		verdict = c.verdictLocked()
		c.late = verdict == nil && c.node.Ending() != nil
	}
	c.phase, c.tasks = closed, nil
	rest = c.node.FinishLocked(scopeClosed)
	c.node.Mu.Unlock()
	return rest, verdict, true
}

// endsCut is endsAtOnce for a body that returned what its ended context answers, which
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
	return c.cutVerdict(err)
}

// cutVerdict is the verdict of a scope in which nothing came back but err, from a body
// that was cut. It stands by itself: the goroutine's stack need not grow for it.
//
//go:noinline
func (c *core) cutVerdict(err error) *Error {
	v := &struct { // one piece of memory
		Error
		fate fate
		late [1]error // its own: callers filter and sort such a list in place
	}{}
	v.late[0] = bodyCut(err)
	e := &v.Error
	e.Scope, e.Cause, e.Late = c.node.Path(), c.causeOfEnd(), v.late[:]
	e.core, e.cut = c, &v.fate
	v.fate.err = e
	return e
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
func (o *opened) refused(ctx context.Context, name string, err error) error {
	if o.untrace != nil {
		o.untrace()
	}
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
