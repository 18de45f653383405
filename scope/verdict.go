package scope

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/ctxnode"
)

// An outcome collects what came back from the tasks and the body of a scope.
type outcome struct {
	trigger  *TaskError   // the failure that ended the context; nil when something else did
	failures []*TaskError // real errors up to and including the trigger, and the body's
	late     []*TaskError // real errors after it
	induced  []*TaskError // errors of tasks, or the body, that the end cut short
	wrapping error        // the body's error, when it wraps a failure already recorded
	cleanup  []*TaskError
}

// record notes an error of a task or the body. When nothing has ended the scope
// before, it is the trigger: it is recorded, and the context ended, in one step
// under the lock, so that no error it induces can come before it. own is how
// the context of a task with an end of its own ended, nil otherwise; it may
// have learnt of the scope's end on another way, with the same cause.
func (c *core) record(te *TaskError, own *ctxnode.Ending) {
	c.node.Mu.Lock()
	first := c.recordLocked(te, own)
	c.node.Mu.Unlock()
	if first {
		c.node.Release()
	}
}

func (c *core) recordLocked(te *TaskError, own *ctxnode.Ending) (first bool) {
	o := &c.outcome
	e := c.node.Ending()
	switch {
	case e == nil:
		o.trigger = te
		o.failures = append(o.failures, te)
		return c.node.EndLocked(ending(&budget.Cause{
			Kind: budget.SiblingFailed, Scope: c.node.Path(), Task: te.Task, Err: te.Err,
		}))
	case (own == nil || own.Cause == e.Cause) && matches(te.Err, e):
		te.Induced = true
		o.induced = append(o.induced, te)
	case te.Task == "" && o.trigger != nil:
		// A failure of the body stands before those of tasks, whoever was
		// faster, so that the order of two that race is always the same.
		o.failures = append([]*TaskError{te}, o.failures...)
	default:
		o.late = append(o.late, te)
	}
	return false
}

// catchUp ends the scope's context when it is due although nobody has told it
// yet: the deadline has passed, but its timer is late, or something above has
// ended, and its word is still on the way. What the end of another context
// makes a task or the body return must not be taken for what ended this one.
func (c *core) catchUp() {
	c.node.ExpireIfDue()
	for n := &c.node; n != nil && c.node.Ending() == nil; {
		if n.Detached() {
			return
		}
		parent, up := n.Parent(), n.Under
		if v := ctxnode.Find(parent); v != nil && (parent == context.Context(v) || parent.Done() == v.Done()) {
			if up == nil {
				up = v.Node()
			}
		} else if err := parent.Err(); err != nil {
			n.End(&ctxnode.Ending{Cause: ctxnode.Hooks.Foreign(n, parent), Err: err})
			up = n
		}
		if up == nil {
			return
		}
		if e := up.Ending(); e != nil {
			c.node.End(&ctxnode.Ending{Cause: up.Cause(), Err: e.Err})
		}
		n = up
	}
}

// matches reports whether err says no more than that its context had ended.
func matches(err error, e *ctxnode.Ending) bool {
	return errors.Is(err, e.Err) || errors.Is(err, e.Cause)
}

// bodyReturned records what the body came back with. An error ends the scope's
// context, unless something else has.
func (c *core) bodyReturned(err error) {
	if err != nil {
		c.catchUp()
	}
	c.node.Mu.Lock()
	c.phase = closing
	if c.waiters != nil {
		c.suspectLocked()
	}
	first := false
	if err != nil {
		first = c.recordBodyLocked(err)
	}
	c.node.Mu.Unlock()
	if first {
		c.node.Release()
	}
}

func (c *core) recordBodyLocked(err error) (first bool) {
	o := &c.outcome
	e := c.node.Ending()
	var w *Error
	passedOn := errors.As(err, &w) && w.core == c // from Scope.Wait
	for _, recorded := range [...][]*TaskError{o.failures, o.late} {
		for _, te := range recorded {
			// The cause of the body's context wraps the failure too, and so does
			// the error of a scope inside that it ended: those are induced.
			if errors.Is(err, te.Err) && (passedOn || !matches(err, e) || matches(te.Err, e)) {
				// Not a second failure: the body passes on the first one, from
				// Scope.Wait or Task.Wait, perhaps with something to add.
				if !passedOn || err != error(w) {
					o.wrapping = err
				}
				return false
			}
		}
	}
	return c.recordLocked(&TaskError{Err: err}, nil)
}

// verdict returns what Run returns, nil for success, and closes the scope's
// context in the same step: what would end it later came too late to count.
func (c *core) verdict() *Error {
	c.node.Mu.Lock()
	e := c.verdictLocked()
	if len(c.outcome.cleanup) > 0 {
		if e == nil {
			path := c.node.Path()
			e = &Error{Scope: path, Cause: &budget.Cause{Kind: budget.Failed, Scope: path}, core: c}
		}
		e.Cleanup = asErrors(nil, c.outcome.cleanup)
	}
	c.late = e == nil && c.node.Ending() != nil
	first := c.node.EndLocked(scopeClosed)
	c.node.Mu.Unlock()
	if first {
		c.node.Release()
	}
	return e
}

// verdictLocked decides by what came back and by what ended the context, and by
// nothing else: neither the clock nor who was faster to report has a say.
func (c *core) verdictLocked() *Error {
	o := &c.outcome
	if len(o.failures)+len(o.late)+len(o.induced)+c.skipped == 0 {
		return nil
	}
	e := &Error{Scope: c.node.Path(), core: c, wrapping: o.wrapping, skipped: c.skipped}
	if o.trigger != nil {
		e.Cause = &budget.Cause{Kind: budget.Failed, Scope: e.Scope, Task: o.trigger.Task, Err: o.trigger.Err}
	} else {
		cause := c.node.Cause()
		if e.Cause, _ = cause.(*budget.Cause); e.Cause == nil {
			e.Cause = &budget.Cause{Kind: budget.KindOf(cause), Scope: e.Scope, Err: cause}
		}
	}
	e.Failures = asErrors(nil, o.failures)
	e.Late = asErrors(asErrors(nil, o.late), o.induced)
	return e
}

func asErrors(errs []error, tes []*TaskError) []error {
	for _, te := range tes {
		errs = append(errs, te)
	}
	return errs
}

// An Error is why a scope did not succeed. Run returns it when something failed
// or something was cut: a task was skipped, or a task or the body returned an
// error that matches its own ended context. When nothing failed and nothing was
// cut Run returns nil, even past the deadline.
//
// errors.Is and errors.As search all of it. Errors that tasks returned because
// they were cancelled do not match context.Canceled or context.DeadlineExceeded,
// though: those two are answered by Cause, and by failures that match them by
// themselves.
type Error struct {
	// Scope is the path of the scope.
	Scope string
	// Cause is what ended the scope's context first: the first failure, with
	// kind Failed, the deadline, the parent, or a Cancel. It is never nil.
	Cause *budget.Cause
	// Failures are the real errors up to and including the one that ended the
	// scope, each a *TaskError. The body's own failure always stands first.
	// It is empty when no failure ended the scope.
	Failures []error
	// Late is what came back after the scope had ended, each a *TaskError: real
	// errors first, then those of tasks that were cut short.
	Late []error
	// Cleanup are the errors of cleanups, each a *TaskError. They never replace
	// the verdict; when nothing else went wrong Cause has kind Failed.
	Cleanup []error

	core     *core // whose verdict it is
	wrapping error // what the body made of a failure; nil when nothing
	skipped  int
}

// Error returns the cause in one line, then whatever else went wrong.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "scope: %s: ", e.Scope)
	var told error // the failure that the headline is about
	switch {
	case e.wrapping != nil:
		b.WriteString(text(e.wrapping))
	case e.Cause.Kind != budget.Failed:
		cause := *e.Cause
		if cause.Scope == e.Scope {
			cause.Scope = "" // said already
		}
		b.WriteString(strings.TrimPrefix(cause.Error(), "budget: "))
	case len(e.Failures) > 0:
		for _, f := range e.Failures {
			if te := f.(*TaskError); te.Task == e.Cause.Task {
				told = f
			}
		}
		b.WriteString(text(told))
	case e.Cause.Err != nil:
		b.WriteString(text(e.Cause.Err))
	default:
		b.WriteString("cleanup failed")
	}
	var cut []string
	for _, f := range append(e.Failures[:len(e.Failures):len(e.Failures)], e.Late...) {
		te, ok := f.(*TaskError)
		switch {
		case f == told:
		case ok && e.wrapping != nil && errors.Is(e.wrapping, te.Err):
		case ok && te.Induced:
			cut = append(cut, te.name())
		default:
			b.WriteString("; also " + text(f))
		}
	}
	if len(cut) > 0 {
		fmt.Fprintf(&b, "; cut short: %s", summary(cut))
	}
	if e.skipped > 0 {
		fmt.Fprintf(&b, "; not begun: %d", e.skipped)
	}
	for _, f := range e.Cleanup {
		if te, ok := f.(*TaskError); ok {
			fmt.Fprintf(&b, "; cleanup %q: %s", te.Task, text(te.Err))
		}
	}
	return b.String()
}

// summary lists a few names and counts the rest.
func summary(names []string) string {
	const few = 5
	if len(names) <= few {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), len(names)-few)
}

// text is err's text, without the stack that a panic's has.
func text(err error) string {
	if pe, ok := err.(*PanicError); ok {
		return pe.headline()
	}
	return err.Error()
}

// Unwrap returns everything that errors.Is and errors.As search, the cause first.
func (e *Error) Unwrap() []error {
	all := make([]error, 0, 2+len(e.Failures)+len(e.Late)+len(e.Cleanup))
	all = append(all, e.Cause)
	all = append(all, e.Failures...)
	all = append(all, e.Late...)
	all = append(all, e.Cleanup...)
	if e.wrapping != nil {
		// Induced, because what the body adds may be its own context's error.
		all = append(all, &TaskError{Err: e.wrapping, Induced: true})
	}
	return all
}

// A TaskError is the error that one task, the body or one cleanup brought back.
type TaskError struct {
	Task    string // its name; empty for the body
	Err     error  // what it returned; a *PanicError when it panicked, ErrGoexit after a Goexit
	Induced bool   // it was cut short: Err only says that the scope had ended
}

// Error names the task and its error.
func (e *TaskError) Error() string { return e.name() + ": " + text(e.Err) }

func (e *TaskError) name() string {
	if e.Task == "" {
		return "body"
	}
	return fmt.Sprintf("task %q", e.Task)
}

// Unwrap returns Err, or nil when the error was induced: see Is.
func (e *TaskError) Unwrap() error {
	if e.Induced {
		return nil
	}
	return e.Err
}

// Is answers for an induced error, which must not make the verdict look like a
// cancellation or a timeout when something else ended the scope.
func (e *TaskError) Is(target error) bool {
	if !e.Induced || target == budget.Cancelled.Sentinel() || target == budget.DeadlineExceeded.Sentinel() {
		return false
	}
	return errors.Is(e.Err, target)
}

// As answers for an induced error, as Is does.
func (e *TaskError) As(target any) bool { return e.Induced && errors.As(e.Err, target) }
