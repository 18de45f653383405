package scope

import (
	"time"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/ctxnode"
)

// How a task ends, and how its scope hears of it.

// end records what the task came back with and lets go of the scope.
func (t *task) end(err error) {
	switch {
	case t.endsAlone(err, false):
	case t.failsFirst(err):
		t.core.node.EndStd() // from here, high on the stack: see docs/decisions/cancel-path.md
		t.failed(err)
	default:
		t.endSlowly(err, false)
	}
}

// endHere is end for a task on the goroutine of its scope's body, which is all that
// waits for the tasks of such a scope.
func (t *task) endHere(err error) {
	switch {
	case t.endsAlone(err, true):
	case t.failsFirst(err):
		t.core.node.EndStd()
		t.failed(err)
	default:
		t.endSlowly(err, true)
	}
}

func (t *task) endSlowly(err error, here bool) {
	if t.mode&attempt != 0 && t.work.(*attemptTask).endsWell(err, here) {
		return
	}
	c := t.core
	if !t.settle() {
		t.orphanEnded(err)
		return
	}
	// Deferred, since a function of a Trace may call Goexit, as FailNow of a test
	// does: the scope would wait for ever.
	defer func() {
		c.node.Mu.Lock()
		t.leaveLocked(err)
		c.node.Mu.Unlock()
	}()
	t.record(err, false)
}

// endsAlone is end for what nearly all tasks do, when nobody waits for t itself: it
// returned nil, or after the scope's end the very error that says so. It takes no
// lock, which all others that end at the same time would want, and leaves t in the list.
// It reports whether it did. With here nobody else can be waiting for the last one.
func (t *task) endsAlone(err error, here bool) bool {
	c := t.core
	if t.mode&unlisted != 0 {
		if err == nil {
			t.stage.Store(endedAlone)
			return true
		}
		t.enlist()
	}
	if t.node != nil || t.mode&^optional != 0 || t.more != nil && t.more.hold != nil {
		return false
	}
	stage := endedAlone
	if err != nil {
		e := c.node.Ending()
		if e == nil || t.mode != 0 {
			return false
		}
		if stage = echoOf(err, e); stage == running {
			return false
		}
	}
	if tr := c.trace(); tr != nil && tr.TaskEnded != nil {
		return false
	}
	if stage == echoedCut && !t.fate.CompareAndSwap(nil, t.fateOf(err)) || !t.stage.CompareAndSwap(running, stage) {
		return false // somebody waits for t, or has abandoned it
	}
	over := c.over.Add(1)
	var overrun time.Duration
	if c.node.Ending() != nil && over == c.begun.Load() {
		overrun = t.overrun() // nobody begins any more: the last one has the longest
	}
	if overrun == 0 && (here || over != c.awaited.Load()) {
		return true
	}
	c.node.Mu.Lock() // also so that who is about to wait does so now, and is told
	if overrun > 0 {
		c.overranLocked(overrun)
	}
	idle := c.node.Idle.Take()
	c.node.Mu.Unlock()
	idle.Wake()
	return true
}

// echoOf returns the stage of a task that ends with err when that is how a context that
// ended with e answers, or the verdict of a scope inside that was cut by the same end
// and has nothing to add; else running.
func echoOf(err error, e *ctxnode.Ending) uint32 {
	if err == e.Err {
		return echoedErr
	}
	switch err := err.(type) {
	case *budget.Cause:
		if error(err) == e.Cause {
			return echoedCause
		}
	case *Error:
		if err != nil && err.cut != nil && error(err.Cause) == e.Cause {
			return echoedCut
		}
	}
	return running
}

// fateOf returns a fate for t with the outcome err, the verdict of a scope that was cut.
// That of a scope opened in t brings one along, for nobody else.
func (t *task) fateOf(err error) *fate {
	if e, ok := err.(*Error); ok && e.core.node.Above() == &t.view && e.cut.err == err {
		return e.cut
	}
	return &fate{err: err}
}

// settle reports whether the outcome of the task will count: that of one which
// was abandoned does not.
func (t *task) settle() bool {
	t.core.node.Mu.Lock()
	defer t.core.node.Mu.Unlock()
	return t.advance(settling)
}

// letGo gives back the slot that the task holds.
func (t *task) letGo() {
	if t.more != nil && t.more.hold != nil && !t.more.lent {
		t.more.hold.drop()
	}
}

// record notes err, and ends the scope's context when it is the first failure.
// All that others can see of the task happens before it stops counting as live.
func (t *task) record(err error, panicked bool) {
	c := t.core
	overrun := t.overrun()
	c.noteOverrun(overrun)
	if t.mode&attempt != 0 {
		t.work.(attemptWork).finished(err)
	}
	if err != nil && (t.mode&attempt == 0 || panicked) && t.note(err, panicked) {
		c.node.Release() // from here, high on the stack: see docs/decisions/cancel-path.md
	}
	t.close()
	if hooks && c.env != nil {
		t.tellEnded(err, overrun)
	}
}

// note notes the error of a task. When it answers true it has ended the scope's node,
// which the caller releases.
//
//go:noinline
func (t *task) note(err error, panicked bool) (first bool) {
	c := t.core
	var own *ctxnode.Ending
	c.node.CatchUp()
	if t.node != nil {
		if t.tightens() {
			t.node.ExpireIfDue()
		}
		own = t.node.Ending()
	}
	te := &TaskError{Task: t.title(), Err: err, behind: t.behind(err, own)}
	switch {
	case panicked:
		return c.note(te, own)
	case t.mode&background != 0:
		c.background(t, err)
	case t.mode&optional != 0:
		c.miss(t, te)
	case t.mode&service != 0 && own != nil && matches(err, own):
		// it was told to end, because nobody needs it any more
	default:
		return c.note(te, own)
	}
	return false
}

// overrun returns for how long the task has gone on after its context ended,
// zero when it has not.
func (t *task) overrun() time.Duration {
	e := t.ending()
	if e == nil || e.At.IsZero() {
		return 0
	}
	return max(time.Since(e.At), 0)
}

// close ends the context of a task that has one of its own.
func (t *task) close() {
	if t.node == nil {
		return
	}
	if a, ok := t.work.(*attemptTask); ok && a.kept.Load() {
		return
	}
	t.node.Close(scopeClosed)
}

// tightens reports whether the deadline of a task with a context of its own is
// tighter than its scope's: only then is its passing the task's own affair.
func (t *task) tightens() bool {
	d, _ := t.node.Deadline()
	scope, ok := t.core.node.Deadline()
	return !ok || d.Before(scope)
}

// behind returns what ended the task's own context, when err says only that something
// did: most code returns ctx.Err().
func (t *task) behind(err error, own *ctxnode.Ending) *budget.Cause {
	if own == nil {
		return nil
	}
	cause, _ := own.Cause.(*budget.Cause)
	if cause == nil || !is(err, own.Err) || is(err, cause) {
		return nil
	}
	return cause
}

// leaveLocked ends the task's part in the scope.
func (t *task) leaveLocked(err error) {
	if t.goLocked(err) {
		t.core.node.Idle.Wake()
	}
}

// goLocked is leaveLocked for a caller that wakes those who wait for the scope,
// when it reports that they can go on.
func (t *task) goLocked(err error) (idle bool) {
	c := t.core
	c.unlinkLocked(t)
	c.unswept-- // it was numbered, and is not listed any more
	t.doneLocked(err)
	if t.mode&service != 0 {
		c.services--
	} else {
		c.over.Add(1)
	}
	t.letGo() // in the same step: whoever gets the slot finds t gone
	return !c.busyLocked()
}
