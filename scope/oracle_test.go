package scope_test

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
)

// This file is DESIGN.md S5 in plain code. It knows nothing of how scopes work:
// from the log of one scope it says what may have ended it first, and from that
// and from what came back, what Run must have returned.

// A trigger is the kind of the first thing that ended a scope early.
type trigger int

const (
	nothingEnded trigger = iota
	taskFailed
	taskPanicked
	taskExited
	bodyFailed
	bodyPanicked
	bodyExited
	deadlinePassed
	scopeCancelled
	parentEnded
	triggerCount
	refusedEntry = triggerCount // the body did not run
)

var triggerNames = [...]string{
	"nothing", "task error", "task panic", "task Goexit", "body error", "body panic", "body Goexit",
	"deadline", "Cancel", "parent", "refused",
}

// A happening is one thing that ended a scope, or would have.
type happening struct {
	trigger trigger
	event   *event      // of a failure, an unwound body or a Cancel
	kind    budget.Kind // of a verdict with this trigger
	lo, hi  stamp       // when the scope's context ended by it
	certain bool        // it came while the scope was open, whatever the order
	clock   bool        // a deadline of the parent's, told by the clock
	barred  string      // why it cannot have been the first; empty when it can
}

// surelyBefore reports whether a came before b at every order the log allows.
func (p *play) surelyBefore(a, b *happening) bool {
	switch {
	case p.bubble || a.trigger != deadlinePassed && b.trigger != deadlinePassed:
		if p.bubble && a.hi.at != b.lo.at {
			return a.hi.at < b.lo.at
		}
		return a.hi.seq < b.lo.seq
	case b.trigger == deadlinePassed:
		return a.hi.seq != endless && a.hi.at < b.lo.at
	}
	return false // a deadline's timer may be late
}

// happenings lists all that ended the scope of sl, or may have.
func (p *play) happenings(sl *scopeLog) []*happening {
	var all []*happening
	deadline, _ := sl.ctx.Deadline()
	for _, e := range sl.events {
		h := &happening{event: e, kind: budget.Failed, lo: e.lo, hi: e.hi, certain: true}
		body := e.by == sl.body
		switch {
		case e.how == cancelled:
			h.trigger, h.kind = scopeCancelled, budget.Cancelled
			if c, ok := e.err.(*budget.Cause); ok {
				h.kind = c.Kind
			}
		case e.how == returned && e.err == nil:
			continue
		case e.how == returned && body:
			h.trigger = bodyFailed
		case e.how == returned:
			h.trigger = taskFailed
		case e.how == panicked && body:
			h.trigger = bodyPanicked
		case e.how == panicked:
			h.trigger = taskPanicked
		case body:
			h.trigger = bodyExited
		default:
			h.trigger = taskExited
		}
		switch {
		case e.sawEnd:
			h.barred = "the context had ended before"
			h.certain = false
		case h.trigger != scopeCancelled && h.trigger != bodyPanicked && h.trigger != bodyExited && !e.now.Before(deadline):
			// What comes back when the deadline has passed did not end the scope,
			// however late the deadline's timer is.
			h.barred = "the deadline had passed before"
			h.certain = false
		}
		all = append(all, h)
	}
	if own := p.ownDeadline(sl, deadline); own != nil {
		all = append(all, own)
	}
	if sl.parentEnd != nil {
		all = append(all, p.parentEnding(sl))
	}
	if at := deadline.Sub(p.start); !sl.tightens() && at <= sl.closed.at {
		// The parent's deadline, which the clock may tell before the parent does.
		all = append(all, &happening{
			trigger: parentEnded, kind: budget.DeadlineExceeded, clock: true,
			lo: stamp{at, 0}, hi: stamp{sl.closed.at, endless},
		})
	}
	return all
}

// ownDeadline is the deadline of sl's own limit, when it may have passed.
func (p *play) ownDeadline(sl *scopeLog, deadline time.Time) *happening {
	if !sl.tightens() {
		return nil // it comes as the parent's end
	}
	at := deadline.Sub(p.start)
	if at > sl.closed.at {
		return nil
	}
	return &happening{
		trigger: deadlinePassed, kind: budget.DeadlineExceeded,
		lo: stamp{at, 0}, hi: stamp{at, endless}, certain: p.bubble && at < sl.closed.at,
	}
}

// tightens reports whether the deadline of sl is tighter than that around it.
func (sl *scopeLog) tightens() bool {
	deadline, _ := sl.ctx.Deadline()
	above, ok := sl.parent.Deadline()
	return !ok || deadline.Before(above)
}

// parentEnding is the end of the context around sl.
func (p *play) parentEnding(sl *scopeLog) *happening {
	h := &happening{trigger: parentEnded, kind: budget.KindOf(sl.parentEnd)}
	switch {
	case sl.above == nil && p.entry == entryDeadline:
		h.lo = stamp{p.entryD, 0}
		if !p.bubble {
			h.lo = stamp{}
		}
		h.hi = stamp{h.lo.at, endless}
	case sl.above == nil:
		h.lo, h.hi = p.entered[0], p.entered[1]
		if _, ours := sl.parentEnd.(*budget.Cause); !ours {
			h.kind = budget.ParentCancelled
		}
	case sl.endedWith() != nil:
		outer := sl.endedWith().trigger
		h.lo, h.hi = outer.lo, stamp{outer.hi.at, endless}
	case p.entry == entryBudget && sl.parentEnd == p.rootEnd:
		h.lo, h.hi = p.entered[0], p.entered[1]
	default: // the task's own limit
		d, _ := sl.parent.Deadline()
		h.lo = stamp{d.Sub(p.start), 0}
		h.hi = stamp{h.lo.at, endless}
		if !p.bubble {
			h.lo = stamp{}
		}
	}
	h.certain = p.bubble && h.hi.at < sl.closed.at
	return h
}

// endedWith returns the innermost scope around sl that the end of the context
// around sl has ended too.
func (sl *scopeLog) endedWith() *scopeLog {
	for above := sl.above; above != nil; above = above.scope.above {
		if above.scope.cause == sl.parentEnd {
			return above.scope
		}
	}
	return nil
}

// endedFromAbove reports whether sl ended as something around it did.
func (p *play) endedFromAbove(sl *scopeLog) bool {
	for above := sl.above; above != nil; above = above.scope.above {
		if above.scope.cause == sl.cause {
			return true
		}
	}
	return sl.cause == p.rootEnd
}

// claimed finds the happening of which the scope's context says that it ended
// it; it says nothing when the scope was closed by Run.
func (sl *scopeLog) claimed(all []*happening) (*happening, error) {
	cause, ok := sl.cause.(*budget.Cause)
	if !ok {
		return nil, fmt.Errorf("the context's cause is a %T", sl.cause)
	}
	if errors.Is(cause, scope.ErrClosed) && cause.Kind == budget.Closed {
		return &happening{}, nil
	}
	for _, h := range all {
		e := h.event
		switch h.trigger {
		case parentEnded:
			switch {
			case h.clock && cause.Kind == budget.DeadlineExceeded && cause.Task == "" && cause != sl.parentEnd:
				return h, nil
			case !h.clock && (sl.parentEnd == error(cause) || sl.above == nil && cause.Kind == h.kind && cause.Task == ""):
				return h, nil
			}
		case deadlinePassed:
			if cause.Kind == budget.DeadlineExceeded && cause.Task == "" && cause != sl.parentEnd {
				return h, nil
			}
		case scopeCancelled:
			given, ok := e.err.(*budget.Cause)
			if cause == sl.parentEnd || h.barred != "" {
				continue
			}
			if !ok && cause.Err == e.err || ok && cause.Kind == given.Kind && cause.Err == nil && !laterCancel(all, h) {
				return h, nil
			}
		case bodyPanicked, bodyExited:
			if cause.Kind == budget.SiblingFailed && cause.Task == "" && cause != sl.parentEnd {
				return h, nil
			}
		default:
			if cause.Kind == budget.SiblingFailed && cause.Task == e.by.plan.name && e.caused(cause.Err) && cause != sl.parentEnd {
				return h, nil
			}
		}
	}
	return nil, fmt.Errorf("nothing that happened explains the context's cause %v", cause)
}

// laterCancel reports whether a Cancel of h's kind came before h: the two
// cannot be told apart by the cause.
func laterCancel(all []*happening, h *happening) bool {
	return slices.ContainsFunc(all, func(o *happening) bool {
		return o.trigger == scopeCancelled && o != h && o.barred == "" && o.kind == h.kind && o.lo.seq < h.lo.seq
	})
}

// caused reports whether err is what the event is recorded as.
func (e *event) caused(err error) bool {
	switch e.how {
	case returned:
		return err == e.err
	case exited:
		return err == scope.ErrGoexit
	}
	pe, ok := err.(*scope.PanicError)
	return ok && (pe.Value == e.value || error(pe) == e.value)
}

// findTrigger says what ended the scope of sl first, and refuses the answer of
// the context when no order of what happened allows it.
func (p *play) findTrigger(sl *scopeLog) (*happening, error) {
	all := p.happenings(sl)
	first, err := sl.claimed(all)
	if err != nil {
		return nil, err
	}
	if first.barred != "" {
		return first, fmt.Errorf("%s by %s ended it although %s", triggerNames[first.trigger], first.who(), first.barred)
	}
	for _, h := range all {
		if first.trigger == nothingEnded && (h.certain || h.event != nil) {
			return first, fmt.Errorf("nothing ended it although %s by %s did", triggerNames[h.trigger], h.who())
		}
		if h != first && h.certain && p.surelyBefore(h, first) {
			return first, fmt.Errorf("%s by %s ended it although %s by %s came before",
				triggerNames[first.trigger], first.who(), triggerNames[h.trigger], h.who())
		}
	}
	return first, nil
}

func (h *happening) who() string {
	if h.event == nil {
		return "-"
	}
	return fmt.Sprintf("%q", h.event.by.plan.name)
}
