package scope

import (
	"context"
	"errors"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/ctxnode"
)

// An outcome collects what came back from the tasks and the body of a scope.
type outcome struct {
	trigger  *TaskError    // the failure that ended the context; nil when something else did
	failures []*TaskError  // real errors up to and including the trigger, and the body's
	one      [1]*TaskError // where failures begin: mostly there is one
	late     []*TaskError  // real errors after it
	induced  []*TaskError  // errors of tasks, or the body, that the end cut short
	wrapping error         // the body's error, when it wraps a failure already recorded
	cleanup  []*TaskError
}

// record notes an error of a task or the body. When nothing has ended the scope
// before, it is the trigger: it is recorded, and the context ended, in one step
// under the lock, so that no error it induces can come before it. own is how
// the context of a task with an end of its own ended, nil otherwise; it may
// have learnt of the scope's end on another way, with the same cause.
func (c *core) record(te *TaskError, own *ctxnode.Ending) {
	if c.note(te, own) {
		c.node.Release()
	}
}

// note is record for a caller that releases the node when it answers true.
func (c *core) note(te *TaskError, own *ctxnode.Ending) (first bool) {
	for {
		e := c.node.Ending()
		// Not under the lock: what an error's Is does is not ours.
		cut := e != nil && (own == nil || own.Cause == e.Cause) && matches(te.Err, e)
		c.node.Mu.Lock()
		if e == nil && c.node.Ending() != nil {
			c.node.Mu.Unlock()
			continue // it has ended since we looked
		}
		first = c.recordLocked(te, cut)
		c.node.Mu.Unlock()
		return first
	}
}

func (c *core) recordLocked(te *TaskError, cut bool) (first bool) {
	o := &c.ownLocked().outcome
	switch {
	case c.node.Ending() == nil && c.keepGoing && te.mayGoOn():
		o.failures = append(o.failures, te)
	case c.node.Ending() == nil:
		var cause budget.Cause
		c.triggeredLocked(te, &cause)
		return c.node.EndLocked(ending(cause))
	case cut:
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

// triggeredLocked records te as the failure that ends the scope, which has an unusual of
// its own, and writes down what that makes the cause.
func (c *core) triggeredLocked(te *TaskError, cause *budget.Cause) {
	o := &c.outcome
	o.trigger = te
	if te.Task == "" {
		o.failures = append([]*TaskError{te}, o.failures...)
	} else {
		if o.failures == nil {
			o.failures = o.one[:0]
		}
		o.failures = append(o.failures, te)
	}
	*cause = budget.Cause{Kind: budget.SiblingFailed, Scope: c.node.Path(), Task: te.Task, Err: te.Err, Limit: te.limit()}
}

// mayGoOn reports whether a scope that keeps going goes on after e.
func (e *TaskError) mayGoOn() bool {
	_, panicked := e.Err.(*PanicError)
	return e.Task != "" && !panicked
}

// matches reports whether err says no more than that its context had ended.
func matches(err error, e *ctxnode.Ending) bool { return is(err, e.Err) || is(err, e.Cause) }

// is is errors.Is for errors of which we know nothing: a method of theirs that
// panics, or a comparison that does, is no match. A scope asks when it records
// what came back, where a panic would keep it from ending.
func is(err, target error) (yes bool) {
	defer func() {
		if recover() != nil {
			yes = false
		}
	}()
	return errors.Is(err, target)
}

// bodyOverLocked notes that the body has returned: those who wait for the scope, if
// any, are its tasks.
func (c *core) bodyOverLocked() {
	c.phase = closing
	if c.waiters != nil {
		c.suspectLocked()
	}
}

// bodyFailed records the body's error. It ends the scope's context, unless something
// else has.
func (c *core) bodyFailed(err error) {
	c.node.CatchUp()
	c.node.Mu.Lock()
	c.bodyOverLocked()
	c.node.Mu.Unlock()
	switch {
	case !c.passesOn(err):
		c.record(&TaskError{Err: err}, nil)
	case c.node.Ending() == nil: // a scope that keeps going ends with its body
		c.endKeptGoing(err)
	}
}

// endKeptGoing ends the context of a scope that went on after a failure, because
// its body returned err, which passes that failure on.
func (c *core) endKeptGoing(err error) {
	c.node.Mu.Lock()
	first := c.node.EndLocked(ending(budget.Cause{Kind: budget.SiblingFailed, Scope: c.node.Path(), Err: err}))
	if first {
		c.outcome.trigger = c.outcome.failures[0]
	}
	c.node.Mu.Unlock()
	if first {
		c.node.Release()
	}
}

// passesOn reports whether err, from the body, is a failure already recorded,
// from Scope.Wait or Task.Wait, perhaps with something to add.
func (c *core) passesOn(err error) bool {
	c.node.Mu.Lock()
	recorded := append(c.outcome.failures[:len(c.outcome.failures):len(c.outcome.failures)], c.outcome.late...)
	e := c.node.Ending()
	c.node.Mu.Unlock()
	w := c.verdictIn(err)
	waited := w != nil
	for _, te := range recorded {
		// The cause of the body's context wraps the failure too, and so does
		// the error of a scope inside that it ended: those are induced.
		if is(err, te.Err) && (waited || e == nil || !matches(err, e) || matches(te.Err, e)) {
			// What is nothing but the failure, from Task.Wait, adds nothing to it.
			if (!waited || err != error(w)) && !identical(err, te.Err) {
				c.node.Mu.Lock()
				c.outcome.wrapping = err
				c.node.Mu.Unlock()
			}
			return true
		}
	}
	return false
}

// verdictIn returns the verdict of c that err wraps, nil when there is none.
func (c *core) verdictIn(err error) (w *Error) {
	defer func() {
		if recover() != nil {
			w = nil
		}
	}()
	if errors.As(err, &w) && w != nil && w.core == c {
		return w
	}
	return nil
}

// verdict returns what Run returns, nil for success, and closes the scope's
// context in the same step: what would end it later came too late to count.
//
// endedBefore says whether the context had ended when the last task had: what
// happens during cleanups makes nothing late.
func (c *core) verdict(endedBefore bool) *Error {
	c.node.Mu.Lock()
	e := c.verdictLocked()
	c.tasks = nil // the error may be kept for long
	if len(c.outcome.cleanup) > 0 {
		if e == nil {
			path := c.node.Path()
			e = &Error{Scope: path, Cause: &budget.Cause{Kind: budget.Failed, Scope: path}, core: c}
		}
		e.Cleanup = asErrors(nil, c.outcome.cleanup)
	}
	c.late = e == nil && endedBefore
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
	echoes := c.echoesLocked()
	if len(o.failures)+len(o.late)+len(o.induced)+len(echoes)+c.cut == 0 {
		return nil
	}
	v := &struct { // one piece of memory
		Error
		cause budget.Cause
		one   [1]error
	}{}
	v.Error = Error{Scope: c.node.Path(), core: c, wrapping: o.wrapping, skipped: c.cut}
	e := &v.Error
	trigger := o.trigger
	if trigger == nil && len(o.failures) > 0 && c.node.Ending() == nil {
		trigger = o.failures[0] // of a scope that keeps going
	}
	if trigger != nil {
		v.cause = budget.Cause{Kind: budget.Failed, Scope: e.Scope, Task: trigger.Task, Err: trigger.Err, Limit: trigger.limit()}
		e.Cause = &v.cause
	} else {
		e.Cause = c.causeOfEnd()
	}
	if len(o.failures) > 0 {
		e.Failures = asErrors(v.one[:0], o.failures)
	}
	if e.Late = echoes; len(o.late)+len(o.induced) > 0 {
		e.Late = append(asErrors(asErrors(nil, o.late), o.induced), echoes...)
	}
	return e
}

// causeOfEnd returns why the context of c ended.
func (c *core) causeOfEnd() *budget.Cause {
	cause := c.node.Cause()
	if own, ok := cause.(*budget.Cause); ok && own != nil {
		return own
	}
	return &budget.Cause{Kind: budget.KindOf(cause), Scope: c.node.Path(), Err: cause}
}

// echoesLocked returns the errors of tasks that were cut short and ended alone.
// When a scope with very many tasks ends, all of them return at once: what they say
// is put into words by who asks, and once for all that follow each other and say the same,
// as the workers of one name do.
func (c *core) echoesLocked() (errs []error) {
	if c.node.Ending() == nil {
		return nil
	}
	var words []TaskError // the last piece of memory for them; those before lead elsewhere
	var last *TaskError
	for t := c.tasks; t != nil; t = t.next {
		if t.stage.Load() <= endedAlone {
			continue
		}
		if errs == nil {
			errs = make([]error, 0, c.listedLocked())
		}
		title, err := t.title(), t.errLocked()
		if last == nil || title != last.Task || err != last.Err {
			if len(words) == cap(words) {
				words = make([]TaskError, 0, min(max(2*cap(words), 2), cap(errs)-len(errs)))
			}
			words = append(words, TaskError{Task: title, Err: err, Induced: true})
			last = &words[len(words)-1]
		}
		errs = append(errs, last)
	}
	return errs
}

// bodyCut returns what a verdict lists when the body returned err because its context had
// ended, and nothing else came back. Nearly always err is one of two, and what there is
// to say of it the same for all scopes, which share it, but not the list it stands in.
func bodyCut(err error) error {
	switch err {
	case context.Canceled:
		return bodyCanceled
	case context.DeadlineExceeded:
		return bodyOverdue
	}
	return &TaskError{Err: err, Induced: true}
}

var (
	bodyCanceled = &TaskError{Err: context.Canceled, Induced: true}
	bodyOverdue  = &TaskError{Err: context.DeadlineExceeded, Induced: true}
)

func asErrors(errs []error, tes []*TaskError) []error {
	for _, te := range tes {
		errs = append(errs, te)
	}
	return errs
}
