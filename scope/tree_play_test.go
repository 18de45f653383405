package scope_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
)

// A stamp orders what a test sees. In a bubble at is exact, and whatever an
// instant sets in motion is over before the next; running free only seq counts.
type stamp struct {
	at  time.Duration
	seq int64
}

// endless is the seq of what happens at the latest when its instant is over,
// which running free says nothing.
const endless = math.MaxInt64

// A realError is an error that a task or a body comes back with by itself.
type realError struct{ who string }

func (e *realError) Error() string { return "failure of " + e.who }

// A planned value is what a task or a body panics with on purpose.
type planned struct{ tree, who string }

// A logged scope is all that was seen of one scope.
type scopeLog struct {
	plan      *scopePlan
	above     *taskLog // the task or body that opened it; nil at the root
	parent    context.Context
	bounded   bool // a deadline is sure to come soon
	lateEntry bool // parent had ended before Run was called

	mu     sync.Mutex
	body   *taskLog // nil when it did not run
	tasks  []*taskLog
	events []*event
	waits  []stamp // returns of Wait

	ctx    context.Context
	s      *scope.Scope
	opened stamp
	closed stamp

	// What Run came back with.
	err       error
	value     string
	panicked  any
	exited    bool // runtime.Goexit went through it
	cause     error
	ctxErr    error
	parentEnd error // the parent's cause at that time
	running   int   // tasks that had not ended
	stats     scope.Stats

	trigger *happening // set by the oracle
}

// A logged task is all that was seen of one task or body.
type taskLog struct {
	plan     *taskPlan
	scope    *scopeLog
	before   stamp // the call that started it
	after    stamp
	sawEnd   bool // the scope's context had ended before that
	skipped  bool // the trace said so; under play.mu
	started  bool
	finished bool
	waitErr  error // what Task.Wait told
	ctx      context.Context
	event    *event
}

// An event is something a task or a body did that may have ended its scope.
type event struct {
	by       *taskLog
	how      how
	err      error // returned
	fromWait bool  // err is what Wait told the body
	value    any   // panicked with
	carried  bool  // value comes from a scope inside
	lo, hi   stamp // when its scope was told
	now      time.Time
	sawEnd   bool  // its scope's context had ended before
	ownCause error // its own context's cause at that time
}

type how int

const (
	returned how = iota
	panicked
	exited
	cancelled // called Cancel with err
)

// A play runs one tree and logs it.
type play struct {
	*treePlan
	start time.Time
	ticks atomic.Int64

	mu       sync.Mutex
	scopes   []*scopeLog // parents before children
	byName   map[string]*taskLog
	reports  []*scope.PanicError // from the trace
	problems []string
	leave    []func()
	rootEnd  error    // the cause of the root's context, in the end
	entered  [2]stamp // when the root's context was cancelled from outside
}

func (p *play) stamp() stamp { return stamp{time.Since(p.start), p.ticks.Add(1)} }

func (p *play) problem(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.problems = append(p.problems, fmt.Sprintf(format, args...))
}

// playTree runs the tree of plan and returns its log; everything it started
// has ended.
func playTree(plan *treePlan) *play {
	p := &play{treePlan: plan, start: time.Now(), byName: map[string]*taskLog{}}
	ctx, leave := p.enter()
	root := &scopeLog{plan: plan.root, parent: ctx}
	done := make(chan struct{})
	go func() { // of its own, for a body that calls runtime.Goexit
		defer close(done)
		p.open(root)
	}()
	<-done
	leave()
	p.rootEnd = context.Cause(ctx)
	for _, cancel := range p.leave {
		cancel()
	}
	return p
}

// enter makes the context around the root scope.
func (p *play) enter() (ctx context.Context, leave func()) {
	ctx = scope.WithTrace(context.Background(), &scope.Trace{
		TaskSkipped: func(_, task string, cause error) {
			p.mu.Lock()
			defer p.mu.Unlock()
			tl := p.byName[task]
			tl.skipped = true
		},
		TaskPanicked: func(pe *scope.PanicError) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.reports = append(p.reports, pe)
		},
	})
	var cancel func()
	switch p.entry {
	case entryPlain, entryNoDeadline:
		return ctx, func() {}
	case entryCancelled, entryEnded:
		ctx, cancel = context.WithCancel(ctx)
	case entryCancelledCause:
		var c context.CancelCauseFunc
		ctx, c = context.WithCancelCause(ctx)
		cancel = func() { c(errOutside) }
	case entryDeadline:
		d := p.entryD
		if !p.bubble {
			d *= 20 * time.Microsecond // yields, made a time
		}
		return context.WithTimeout(ctx, max(d, 1))
	case entryForeignDeadline:
		return context.WithDeadline(ctx, time.Now())
	case entryBudget:
		ctx, cancel, _ = budget.Enter(ctx, budget.Within(time.Hour).Named("outside"))
	}
	if p.entry == entryEnded {
		cancel()
		return ctx, cancel
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		if p.bubble {
			select {
			case <-time.After(time.Until(p.start.Add(p.entryD))):
			case <-stop:
			}
		} else {
			yield(p.entryD, stop)
		}
		lo := p.stamp()
		cancel()
		hi := p.stamp()
		hi.seq = endless
		p.mu.Lock()
		p.entered = [2]stamp{lo, hi}
		p.mu.Unlock()
	}()
	return ctx, func() { close(stop); <-done }
}

var errOutside = errors.New("the outside wants it to end")

// yield lets others run n times, or until stop is closed.
func yield(n time.Duration, stop <-chan struct{}) (stopped bool) {
	for ; n > 0; n-- {
		select {
		case <-stop:
			return true
		default:
			runtime.Gosched()
		}
	}
	return false
}

// open runs the scope of sl on the calling goroutine and logs how it ends.
func (p *play) open(sl *scopeLog) {
	p.mu.Lock()
	p.scopes = append(p.scopes, sl)
	p.mu.Unlock()
	limit := budget.Inherited()
	switch sl.plan.limit {
	case limitLong:
		limit = budget.Within(time.Hour)
	case limitShort:
		limit = budget.Within(sl.plan.d)
	case limitExpired:
		limit = budget.Within(0)
	case limitTooLittle:
		limit = budget.Within(time.Hour).Require(2 * time.Hour)
	}
	sl.bounded = sl.plan.limit == limitShort || sl.above != nil && sl.above.scope.bounded || sl.above == nil && p.entry == entryDeadline
	sl.lateEntry = sl.parent.Err() != nil
	sl.opened = p.stamp()
	came := false
	defer func() {
		if !came {
			if sl.panicked = recover(); sl.panicked == nil {
				sl.exited = true
			}
		}
		p.closed(sl)
	}()
	sl.value, sl.err = scope.RunValue(sl.parent, sl.plan.name, limit, func(ctx context.Context, s *scope.Scope) (string, error) {
		sl.ctx, sl.s = ctx, s
		if !p.bubble {
			s.SetPanicGrace(-1) // a busy machine must not end the test
		}
		if sl.plan.cleanup != cleanupNone {
			s.Cleanup("cleanup", func(context.Context) error {
				if sl.plan.cleanup == cleanupFails {
					return errCleanup
				}
				return nil
			})
		}
		sl.body = &taskLog{plan: sl.plan.body, scope: sl, started: true}
		err := (&actor{play: p, log: sl.body}).act(ctx)
		return sl.plan.name, err
	})
	came = true
}

var errCleanup = errors.New("cleanup failed")

// closed notes what can be seen of sl right after its Run.
func (p *play) closed(sl *scopeLog) {
	if sl.s != nil {
		if sl.ctxErr = sl.ctx.Err(); sl.ctxErr == nil {
			p.problem("%s: its context is alive after Run", sl.plan.name)
		}
		sl.cause = context.Cause(sl.ctx)
		sl.stats = sl.s.Stats()
	}
	sl.closed = p.stamp()
	sl.parentEnd = context.Cause(sl.parent)
	sl.mu.Lock()
	defer sl.mu.Unlock()
	for _, tl := range sl.tasks {
		if tl.started && !tl.finished {
			sl.running++
		}
	}
}
