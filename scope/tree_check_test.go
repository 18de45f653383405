package scope_test

import (
	"context"
	"errors"

	"github.com/curfew-go/curfew/scope"
)

// covered reports whether a Wait may have covered f although a itself has not
// waited: the body's may, when a is a task.
func (a *actor) covered(*forked) bool { return a.log.plan.name != "" }

// wait calls the scope's Wait, as only a body does.
func (a *actor) wait() error {
	sl := a.log.scope
	err := sl.s.Wait()
	now := a.stamp()
	sl.mu.Lock()
	defer sl.mu.Unlock()
	sl.waits = append(sl.waits, now)
	for _, e := range sl.events {
		e.hi = earlier(e.hi, now)
	}
	for _, tl := range sl.tasks {
		if tl.started && !tl.finished {
			a.problem("%s runs after Wait", tl.plan.name)
		}
	}
	for _, f := range a.forks {
		a.checkValue(f)
	}
	return err
}

func earlier(a, b stamp) stamp {
	if b.at < a.at || b.at == a.at && b.seq < a.seq {
		return b
	}
	return a
}

// checkValue compares a forked task's value, after a Wait, with what it did.
func (a *actor) checkValue(f *forked) {
	e := f.log.event
	good := e != nil && e.how == returned && e.err == nil
	var v string
	r := recovered(func() { v = f.task.Value() })
	or := f.task.Or("fallback")
	switch {
	case good && (r != nil || v != f.log.plan.name || or != v):
		a.problem("%s: Value %q, panic %v, Or %q", f.log.plan.name, v, r, or)
	case !good && (r == nil || or != "fallback"):
		a.problem("%s: Value %q, Or %q of a task that has none", f.log.plan.name, v, or)
	}
}

// checkTaskWait waits for a forked task, and compares.
func (a *actor) checkTaskWait(f *forked) error {
	v, err := f.task.Wait(a.ctx)
	sl := a.log.scope
	sl.mu.Lock()
	defer sl.mu.Unlock()
	a.mu.Lock()
	skipped := f.log.skipped
	a.mu.Unlock()
	name, e := f.log.plan.name, f.log.event
	switch {
	case err == nil && (e == nil || e.how != returned || e.err != nil || v != name):
		a.problem("%s: Task.Wait gave %q and no error", name, v)
	case err != nil && v != "":
		a.problem("%s: Task.Wait gave %q beside %v", name, v, err)
	case err == nil, e != nil && e.how == returned && err == e.err:
	case e != nil && e.how == exited && err == scope.ErrGoexit:
	case e != nil && e.how == panicked && errors.As(err, new(*scope.PanicError)):
	case skipped:
		f.log.waitErr = err // the scope's context may not say its cause yet
	case err == context.Cause(a.ctx): // it ended before the task did
	case !f.log.started && !skipped: // refused on entry
	default:
		a.problem("%s: Task.Wait gave %v", name, err)
	}
	return err
}
