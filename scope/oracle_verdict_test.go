package scope_test

import (
	"context"
	"errors"
	"slices"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
)

// An expectation is the verdict that S5 asks for.
type expectation struct {
	kind      budget.Kind
	failures  []*event
	late      []*event // real
	induced   []*event
	refused   int // tasks with a context of their own that found no time to begin
	skipped   int
	panics    []*event // of tasks
	body      *event   // that panicked or called Goexit
	cleanup   bool     // a cleanup failed
	canceled  bool     // errors.Is(err, context.Canceled)
	exceeded  bool     // errors.Is(err, context.DeadlineExceeded)
	pair      string   // verdict, for the table
	succeeded bool
}

// expect computes the verdict of a scope that first ended, from all that came
// back.
func (p *play) expect(sl *scopeLog, first *happening) *expectation {
	x := &expectation{kind: first.kind, cleanup: sl.plan.cleanup == cleanupFails}
	ended := sl.ctxErr // how the context of everybody ended, if it ended early
	matches := func(err error) bool { return errors.Is(err, ended) || errors.Is(err, sl.cause) }
	var body *event
	for _, e := range sl.events {
		switch {
		case e.how == cancelled || e.how == returned && e.err == nil:
			continue
		case e.by == sl.body && e.how == returned:
			body = e
			continue
		case e.by == sl.body:
			x.body = e
			continue
		case e.how == panicked:
			x.panics = append(x.panics, e)
		}
		own := e.ownCause != nil && e.ownCause != sl.cause // its own limit ended it, not the scope
		switch {
		case e == first.event:
			x.failures = append(x.failures, e)
		case p.mayBeOwn(sl, e) && !sl.saysInduced(e): // both are right
			x.late = append(x.late, e)
		case !own && e.how == returned && matches(e.err):
			x.induced = append(x.induced, e)
		default:
			x.late = append(x.late, e)
		}
	}
	if body != nil {
		// A body that passes on a failure it learnt of, from Wait or Task.Wait,
		// adds none. Its own context's cause knows of that failure too, but
		// says only that the body was cut.
		passesOn := slices.ContainsFunc(slices.Concat(x.failures, x.late), func(e *event) bool {
			err := e.in(body.err)
			b, o := &happening{lo: body.lo, hi: body.hi}, &happening{lo: e.lo, hi: e.hi}
			if err == nil || p.surelyBefore(b, o) {
				return false
			}
			if matches(err) && matches(body.err) && !p.surelyBefore(o, b) && sl.saysInduced(body) {
				return false // the same error by chance, and nobody knows who was first
			}
			if !body.fromWait && !p.surelyBefore(o, b) && sl.lists(body) {
				return false // likewise: Goexit, or a deadline, inside a scope of the body's
			}
			return body.fromWait || matches(err) || !matches(body.err)
		})
		switch {
		case body == first.event:
			x.failures = append(x.failures, body)
		case passesOn:
		case matches(body.err):
			x.induced = append(x.induced, body)
		case first.event != nil && first.kind == budget.Failed && first.trigger != scopeCancelled:
			x.failures = append([]*event{body}, x.failures...)
		default:
			x.late = append(x.late, body)
		}
	}
	for _, tl := range sl.tasks {
		if tl.skipped {
			x.skipped++
		} else if !tl.started {
			x.refused++
		}
	}
	x.canceled = x.kind.Sentinel() == context.Canceled
	x.exceeded = x.kind.Sentinel() == context.DeadlineExceeded
	for _, e := range slices.Concat(x.failures, x.late) {
		x.canceled = x.canceled || errors.Is(e.err, context.Canceled)
		x.exceeded = x.exceeded || errors.Is(e.err, context.DeadlineExceeded)
		if err, ok := e.value.(error); ok && e.how == panicked {
			x.canceled = x.canceled || errors.Is(err, context.Canceled)
			x.exceeded = x.exceeded || errors.Is(err, context.DeadlineExceeded)
		}
	}
	cut := x.refused+x.skipped+len(x.induced) > 0
	x.pair = decide(first.trigger, first.kind, cut, len(x.late) > 0, len(x.panics) > 0, x.cleanup)
	x.succeeded = len(x.failures)+len(x.late) == 0 && !cut
	return x
}

// endedBefore reports whether the scope of sl surely ended before the last of
// its work did: what comes later makes nothing late.
func (p *play) endedBefore(sl *scopeLog) bool {
	return slices.ContainsFunc(sl.events, func(e *event) bool {
		return e.how != cancelled && (e.sawEnd || p.surelyBefore(sl.trigger, &happening{lo: e.lo, hi: e.hi}))
	})
}

// mayBeOwn reports whether the limit of a task's own may have passed between
// the look at its context and the return, which decides whether its error is
// one of its own.
func (p *play) mayBeOwn(sl *scopeLog, e *event) bool {
	if e.how != returned || e.ownCause != nil || e.by.plan.via != viaLimit {
		return false
	}
	d, _ := e.by.ctx.Deadline()
	return d.Sub(p.start) <= sl.closed.at && (errors.Is(e.err, context.DeadlineExceeded) || errors.Is(e.err, context.Canceled))
}

// saysInduced reports whether Run listed e as induced, for the few cases in
// which a test cannot know.
func (sl *scopeLog) saysInduced(e *event) bool {
	return sl.saysLate(e, func(te *scope.TaskError) bool { return te.Induced })
}

// lists is saysInduced for a late failure of e's own.
func (sl *scopeLog) lists(e *event) bool {
	return sl.saysLate(e, func(te *scope.TaskError) bool { return !te.Induced })
}

func (sl *scopeLog) saysLate(e *event, as func(te *scope.TaskError) bool) bool {
	err, ok := sl.err.(*scope.Error)
	return ok && slices.ContainsFunc(err.Late, func(err error) bool {
		te := err.(*scope.TaskError)
		return te.Task == e.by.plan.name && as(te)
	})
}

// recorded returns the error that an event other than a panic is recorded as.
func (e *event) recorded() error {
	if e.how == exited {
		return scope.ErrGoexit
	}
	return e.err
}

// in returns the error that e is recorded as when err wraps it, else nil.
func (e *event) in(err error) error {
	var pe *scope.PanicError
	switch {
	case e.how != panicked && errors.Is(err, e.recorded()):
		return e.recorded()
	case e.how == panicked && errors.As(err, &pe) && e.caused(pe):
		return pe
	}
	return nil
}

// decide names the verdict, for the table of pairs.
func decide(t trigger, k budget.Kind, cut, late, panicked, cleanup bool) string {
	switch {
	case t == bodyPanicked:
		return "the body's panic"
	case panicked:
		return "the task's panic"
	case t == bodyExited:
		return "Goexit"
	}
	name := k.String()
	if late {
		name += " + late failures"
	}
	switch failed := t >= taskFailed && t <= bodyFailed; {
	case failed || cut || late:
		return name
	case cleanup:
		return "cleanup failed"
	case t == nothingEnded:
		return "nil"
	}
	return "nil, late"
}

// possiblePairs lists every (trigger, verdict) that decide can produce.
func possiblePairs() map[string]int {
	pairs := map[string]int{}
	for t := range triggerCount {
		kinds := []budget.Kind{budget.Failed}
		switch t {
		case nothingEnded:
			kinds = []budget.Kind{budget.None}
		case deadlinePassed:
			kinds = []budget.Kind{budget.DeadlineExceeded}
		case scopeCancelled:
			kinds = []budget.Kind{budget.Cancelled, budget.UserCancelled, budget.Shutdown}
		case parentEnded:
			kinds = []budget.Kind{budget.ParentCancelled, budget.DeadlineExceeded, budget.SiblingFailed,
				budget.Cancelled, budget.UserCancelled, budget.Shutdown}
		}
		for _, k := range kinds {
			for bits := range 16 {
				cut, late, panics, cleanup := bits&1 != 0, bits&2 != 0, bits&4 != 0, bits&8 != 0
				if t == nothingEnded && (cut || late || panics) || t == taskPanicked && !panics {
					continue // what did not end early was not cut
				}
				pairs[pair(t, k, decide(t, k, cut, late, panics, cleanup))] = 0
			}
		}
	}
	for _, k := range refusals {
		pairs[pair(refusedEntry, k, k.String())] = 0
	}
	return pairs
}

// refusals are the kinds of a Run whose body did not run.
var refusals = []budget.Kind{
	budget.ExpiredOnArrival, budget.LocalBudgetRejected, budget.Failed, // no deadline
	budget.ParentCancelled, budget.SiblingFailed, budget.Cancelled, budget.UserCancelled, budget.Shutdown,
}

func pair(t trigger, k budget.Kind, verdict string) string {
	name := triggerNames[t]
	if t >= scopeCancelled {
		name += " (" + k.String() + ")"
	}
	return name + " → " + verdict
}
