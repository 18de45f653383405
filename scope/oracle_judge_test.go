package scope_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
)

// judge compares what every scope of the tree came back with to what the
// oracle says. It returns the (trigger, verdict) pairs and what is wrong.
func (p *play) judge() (pairs, wrong []string) {
	wrong = append(wrong, p.problems...)
	for _, sl := range p.scopes {
		if sl.above != nil && sl.above.scope.trigger == nil {
			continue // the scope around it was wrong already
		}
		pair, problems := p.judgeScope(sl)
		if pair != "" {
			pairs = append(pairs, pair)
		}
		for _, problem := range problems {
			wrong = append(wrong, fmt.Sprintf("%s: %s", sl.plan.name, problem))
		}
		if len(problems) > 0 {
			wrong = append(wrong, sl.String())
		}
	}
	return pairs, append(wrong, p.judgeReports()...)
}

// String tells all that was seen of the scope.
func (sl *scopeLog) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\tscope %s, opened %v, closed %v, limit %d, Run: %q, panic %v, Goexit %t\n", sl.plan.name, sl.opened, sl.closed, sl.plan.limit, sl.err, sl.panicked, sl.exited)
	fmt.Fprintf(&b, "\tcause %q, the parent's %q\n", sl.cause, sl.parentEnd)
	for _, e := range sl.events {
		fmt.Fprintf(&b, "\t%v-%v %q how %d: %q, panic %v, the end was seen %t, own cause %q\n", e.lo, e.hi, e.by.plan.name, e.how, e.err, e.value, e.sawEnd, e.ownCause)
	}
	return b.String()
}

// A judgement collects what is wrong with one scope.
type judgement []string

func (j *judgement) check(ok bool, format string, args ...any) {
	if !ok {
		*j = append(*j, fmt.Sprintf(format, args...))
	}
}

func (p *play) judgeScope(sl *scopeLog) (string, judgement) {
	if sl.body == nil {
		return p.judgeRefusal(sl)
	}
	if sl.parentEnd == nil && p.endedFromAbove(sl) {
		sl.parentEnd = sl.cause // its parent's context was about to say so
	}
	var j judgement
	j.check(!sl.lateEntry, "its body ran although the parent's context had ended")
	j.check(sl.running == 0, "%d tasks run after Run", sl.running)
	first, err := p.findTrigger(sl)
	if err != nil {
		return "", append(j, err.Error())
	}
	sl.trigger = first
	x := p.expect(sl, first)
	p.judgeSpawns(&j, sl, first)
	j.check(sl.stats.Live == 0, "%d tasks live", sl.stats.Live)
	j.check(sl.stats.Skipped == x.skipped, "%d skipped, not %d", sl.stats.Skipped, x.skipped)
	j.check(sl.stats.Started == len(sl.tasks)-x.skipped, "%d of %d started", sl.stats.Started, len(sl.tasks))

	switch {
	case x.body != nil && x.body.how == panicked:
		j.check(sl.panicked == x.body.value, "it panicked with %v, not with the body's %v", sl.panicked, x.body.value)
	case len(x.panics) > 0:
		p.judgePanic(&j, sl, first, x)
	case x.body != nil:
		j.check(sl.exited, "it did not go on with Goexit")
	default:
		j.check(!sl.exited && sl.panicked == nil, "Goexit %t, panic %v", sl.exited, sl.panicked)
		p.judgeVerdict(&j, sl, x)
	}
	return pair(first.trigger, first.kind, x.pair), j
}

// judgeRefusal checks a Run whose body did not run.
func (p *play) judgeRefusal(sl *scopeLog) (string, judgement) {
	var j judgement
	var e *scope.Error
	if !errors.As(sl.err, &e) {
		return "", append(j, fmt.Sprintf("the body did not run, and the error is %v", sl.err))
	}
	k := budget.KindOf(sl.err)
	var why []budget.Kind // it may be refused as
	if sl.parentEnd != nil {
		why = append(why, p.refusedBy(sl))
	}
	if !sl.lateEntry {
		d, ok := sl.parent.Deadline()
		switch {
		case sl.above == nil && p.entry == entryNoDeadline:
			j.check(errors.Is(e, budget.ErrNoDeadline), "%v without a deadline", e)
			why = append(why, budget.Failed)
		case sl.plan.limit == limitExpired:
			why = append(why, budget.ExpiredOnArrival)
		case sl.plan.limit == limitTooLittle:
			why = append(why, budget.LocalBudgetRejected)
		}
		if ok && !d.After(p.start.Add(sl.closed.at)) {
			why = append(why, budget.ExpiredOnArrival)
		}
	}
	j.check(slices.Contains(why, k), "refused as %v, not as one of %v: %v", k, why, e)
	j.check(sl.value == "" && sl.panicked == nil && !sl.exited, "a body that did not run left something")
	sl.trigger = &happening{trigger: refusedEntry, kind: k}
	return pair(refusedEntry, k, k.String()), j
}

// refusedBy is what a Run answers under the parent of sl, which has ended.
func (p *play) refusedBy(sl *scopeLog) budget.Kind {
	if errors.Is(sl.parentEnd, context.DeadlineExceeded) {
		return budget.ExpiredOnArrival
	}
	if _, ours := sl.parentEnd.(*budget.Cause); !ours {
		return budget.ParentCancelled
	}
	return budget.KindOf(sl.parentEnd)
}

// judgeSpawns checks that every task either ran or was skipped, as it must.
func (p *play) judgeSpawns(j *judgement, sl *scopeLog, first *happening) {
	for _, tl := range sl.tasks {
		name := tl.plan.name
		j.check(!(tl.started && tl.skipped), "%s ran although it was skipped", name)
		j.check(tl.started || tl.skipped || tl.plan.via >= viaLimit, "%s was lost", name)
		j.check(tl.started == tl.finished, "%s did not finish", name)
		if tl.started {
			j.check(!tl.sawEnd, "%s ran although the context had ended", name)
			before := &happening{trigger: scopeCancelled, lo: tl.before, hi: tl.after}
			j.check(first.trigger == nothingEnded || !p.surelyBefore(first, before), "%s ran although %s had ended the scope", name, triggerNames[first.trigger])
		}
		if tl.skipped {
			j.check(tl.waitErr == nil || tl.waitErr == sl.cause, "%s was skipped for %v, not for %v", name, tl.waitErr, sl.cause)
			after := &happening{trigger: scopeCancelled, lo: tl.before, hi: tl.after}
			j.check(first.trigger != nothingEnded && !p.surelyBefore(after, first), "%s was skipped before the scope ended", name)
		}
	}
}

// judgePanic checks that Run raised the panic of a task.
func (p *play) judgePanic(j *judgement, sl *scopeLog, first *happening, x *expectation) {
	pe, ok := sl.panicked.(*scope.PanicError)
	if !ok {
		*j = append(*j, fmt.Sprintf("it did not raise the panic of %d tasks: %v, %v", len(x.panics), sl.panicked, sl.err))
		return
	}
	i := slices.IndexFunc(x.panics, func(e *event) bool { return e.caused(pe) })
	if i < 0 {
		*j = append(*j, fmt.Sprintf("it raised a foreign panic: %v", pe.Value))
		return
	}
	j.check(first.trigger != taskPanicked || first.event.caused(pe), "it raised the panic of %s, not the first one", pe.Task)
	// A value that nested recovered and raised again comes from there.
	j.check(strings.Contains(string(pe.Stack), "scope_test.explode") || x.panics[i].carried, "the stack does not show the place")
	j.check(strings.HasPrefix(pe.Task, p.root.name), "the path is %q", pe.Task)
}

// judgeReports checks that every panic of a task was reported, once.
func (p *play) judgeReports() (wrong []string) {
	want := 0
	for _, sl := range p.scopes {
		for _, e := range sl.events {
			if _, told := e.value.(*scope.PanicError); e.how == panicked && e.by != sl.body && !told {
				want++
				if !slices.ContainsFunc(p.reports, func(pe *scope.PanicError) bool { return pe.Value == e.value }) {
					wrong = append(wrong, fmt.Sprintf("the panic of %s was not reported", e.by.plan.name))
				}
			}
		}
	}
	// A body's panic that goes through a task above it is that task's panic.
	if len(p.reports) < want {
		wrong = append(wrong, fmt.Sprintf("%d panics reported, not %d", len(p.reports), want))
	}
	return wrong
}

// judgeVerdict compares Run's error, field by field.
func (p *play) judgeVerdict(j *judgement, sl *scopeLog, x *expectation) {
	j.check(sl.value == sl.plan.name, "the body's value is lost: %q", sl.value)
	lateNil := x.succeeded && !x.cleanup && sl.trigger.trigger != nothingEnded
	j.check(!sl.stats.Late || lateNil, "it is late for no reason")
	j.check(sl.stats.Late || !lateNil || !p.endedBefore(sl), "it is not late, although the end came before the work was over")
	if x.succeeded && !x.cleanup {
		j.check(sl.err == nil, "Run returned %v, not nil", sl.err)
		return
	}
	e, ok := sl.err.(*scope.Error)
	if !ok {
		*j = append(*j, fmt.Sprintf("Run returned %v, not an *Error of kind %v", sl.err, x.kind))
		return
	}
	if x.cleanup {
		j.check(len(e.Cleanup) == 1 && errors.Is(e, errCleanup), "the cleanup's error is lost: %v", e.Cleanup)
	} else {
		j.check(len(e.Cleanup) == 0, "cleanup errors: %v", e.Cleanup)
	}
	if x.succeeded {
		x.kind, x.canceled, x.exceeded = budget.Failed, false, false
	}
	told := x.kind // to callers: of a failure, what its own error makes of work that had begun
	if len(x.failures) > 0 {
		switch told = budget.KindOf(sl.trigger.event.recorded()); told {
		case budget.ExpiredOnArrival, budget.LocalBudgetRejected:
			told = budget.DeadlineExceeded
		case budget.Overloaded, budget.Shutdown:
			told = budget.Failed
		}
	}
	j.check(e.Cause.Kind == x.kind && budget.KindOf(e) == told, "the kind is %v and %v, not %v and %v", e.Cause.Kind, budget.KindOf(e), x.kind, told)
	j.check(errors.Is(e, context.Canceled) == x.canceled, "errors.Is(context.Canceled) is %t: %v", !x.canceled, e)
	j.check(errors.Is(e, context.DeadlineExceeded) == x.exceeded, "errors.Is(context.DeadlineExceeded) is %t: %v", !x.exceeded, e)
	names := func(errs []error, induced bool) (names []string) {
		for _, err := range errs {
			if te := err.(*scope.TaskError); te.Induced == induced {
				names = append(names, te.Task)
			}
		}
		return names
	}
	j.check(slices.Equal(names(e.Failures, false), who(x.failures)) && names(e.Failures, true) == nil, "Failures are %v, not %v", e.Failures, who(x.failures))
	j.check(p.sameOrder(names(e.Late, false), x.late), "real late errors are %v, not %v", e.Late, who(x.late))
	j.check(sameNames(names(e.Late, true), x, sl), "induced errors are %q, not %q", names(e.Late, true), who(x.induced))
	j.check(realFirst(e.Late), "induced errors stand before real ones: %v", e.Late)
	for _, ev := range slices.Concat(x.failures, x.late) {
		j.check(errors.Is(e, ev.recorded()), "it does not match %v", ev.recorded())
	}
	j.check(e.Error() != "", "no text")
}

// sameOrder reports whether got are the tasks of want, in an order that the
// log allows.
func (p *play) sameOrder(got []string, want []*event) bool {
	if len(got) != len(want) {
		return false
	}
	at := func(e *event) int { return slices.Index(got, e.by.plan.name) }
	for _, e := range want {
		if at(e) < 0 {
			return false
		}
		for _, o := range want {
			a, b := &happening{trigger: taskFailed, lo: e.lo, hi: e.hi}, &happening{trigger: taskFailed, lo: o.lo, hi: o.hi}
			if p.surelyBefore(a, b) && at(e) > at(o) {
				return false
			}
		}
	}
	return true
}

// sameNames reports whether got are the induced errors x wants, beside those of
// tasks with a context of their own that found the scope ended on entry.
func sameNames(got []string, x *expectation, sl *scopeLog) bool {
	want := who(x.induced)
	for _, tl := range sl.tasks {
		if !tl.started && !tl.skipped {
			want = append(want, tl.plan.name)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	return slices.Equal(got, want)
}

func realFirst(late []error) bool {
	induced := false
	for _, err := range late {
		te := err.(*scope.TaskError)
		if induced && !te.Induced {
			return false
		}
		induced = te.Induced
	}
	return true
}

func who(events []*event) (names []string) {
	for _, e := range events {
		names = append(names, e.by.plan.name)
	}
	return names
}
