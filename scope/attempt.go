package scope

import (
	"context"
	"fmt"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/ctxnode"
	"github.com/curfew-go/curfew/scope/internal/owner"
)

func init() {
	owner.Of = func(ctx context.Context) owner.Scope {
		if c := ownerOf(ctx); c != nil {
			return (*attempts)(c)
		}
		return nil
	}
	owner.Within = func(ctx context.Context, name string, origin any, body func(owner.Scope) error) error {
		return run(ctx, nil, name, &asCalled, reflect.ValueOf(origin).Pointer(), func(_ context.Context, s *Scope) error { return body((*attempts)(s.c)) })
	}
	owner.Keep = keep
	owner.WorkOf = workOf
}

// ownerOf returns the innermost scope of ctx when its end ends ctx, by curfew's own
// contexts alone: what is started under a ctx that a library derived, or that the
// scope's end does not reach, is not the scope's to own. The work of a Root is nobody's, and that of a
// service is none that its scope waits for before it ends the service.
func ownerOf(ctx context.Context) *core {
	v := ctxnode.Find(ctx)
	if v == nil || ctx != context.Context(v) && ctx.Done() != v.Done() {
		return nil
	}
	for v != nil && v.Owner == nil { // a budget inside, which ends no later
		v = v.Node().HangsUnder()
	}
	if v == nil {
		return nil
	}
	var c *core
	switch o := v.Owner.(type) {
	case *core:
		c = o
	case *task:
		if o.mode&service == 0 {
			c = o.core
		}
	}
	if c == nil || c.env != nil && c.env.root != nil && c == &c.env.root.core {
		return nil
	}
	return c
}

// attempts is a core as package race sees it.
type attempts core

// An attemptTask is one attempt of a race. Each has a context of its own, and what
// else it needs in one piece of memory: BenchmarkHedge counts the pieces.
type attemptTask struct {
	task
	owner.Work
	with ctxnode.Node
	kept atomic.Bool // with outlives it until released
}

// asCalled is the limit of attempts, whose race's context has its own, and of all
// scopes that inherit. It does not change.
var asCalled = budget.Inherited()

type attemptWork interface {
	finished(err error)
	contextEnded()
}

func (a *attemptTask) call(ctx context.Context, _ *task) error {
	if m := a.more; m != nil && m.hold != nil && !m.lent && !m.hold.tryTake() {
		select {
		case <-m.hold.join(false):
		case <-ctx.Done():
		}
		if ctx.Err() != nil { // which ends the wait for a slot as well
			return context.Cause(ctx)
		}
	}
	return a.Call(ctx)
}

func (a *attemptTask) origin(*task) any   { return a.Origin() }
func (a *attemptTask) finished(err error) { a.Finished(err) }
func (a *attemptTask) contextEnded()      { a.ContextEnded(&a.with) }

func (s *attempts) prepare(ctx context.Context, name string, w owner.Work) *attemptTask {
	c := (*core)(s)
	a := &attemptTask{Work: w}
	a.task.core, a.task.name, a.task.work, a.task.mode = c, name, a, attempt
	a.view.Init(&c.node, &a.task) // until it has a node
	if hooks && c.env != nil {
		a.extra().values = ctx
		a.watchBegin(c.env.spawnSite())
	}
	return a
}

// admit counts a as live. When the scope is over it tells a's Work so.
func (a *attemptTask) admit() bool {
	a.task.core.node.Mu.Lock()
	return a.admitLocked()
}

// admitLocked is admit for a caller that holds the core's node.Mu, which it lets go of.
func (a *attemptTask) admitLocked() bool {
	c := a.task.core
	if c.phase >= cleaning {
		a.done = true
		c.node.Mu.Unlock()
		if a.node != nil {
			a.node.Close(scopeClosed)
		}
		a.finished(fmt.Errorf("scope: attempt %q in scope %q, which is over: %w", a.task.name, c.node.Path(), ErrClosed))
		return false
	}
	c.startedLocked(&a.task)
	c.node.Mu.Unlock()
	return true
}

// enter makes the context of an attempt.
func (a *attemptTask) enter(ctx context.Context, limit *budget.Limit, now time.Time) error {
	n := &a.with
	n.Name, n.Owner = a.task.name, &a.task
	return ctxnode.Hooks.Enter(n, ctx, limit, now)
}

func (s *attempts) Enter(ctx context.Context, name string, w owner.Work, limit *budget.Limit, now time.Time) (owner.Attempt, error) {
	a := s.prepare(ctx, name, w)
	if err := a.enter(ctx, limit, now); err != nil {
		return nil, err
	}
	a.node = &a.with // others do not find the task yet
	return a, nil
}

func (s *attempts) Start(ctx context.Context, name string, w owner.Work) owner.Attempt {
	a := s.prepare(ctx, name, w)
	a.claim()
	if !a.admit() {
		return a
	}
	// It counts as live already, so that the scope cannot close meanwhile.
	if err := a.enter(ctx, &asCalled, time.Time{}); err != nil {
		a.end(err)
		return a
	}
	c := (*core)(s)
	c.node.Mu.Lock()
	a.node = &a.with // others find the task already
	c.node.Mu.Unlock()
	go a.run()
	return a
}

// claim gives a a claim to a slot of its own, where there are slots.
func (a *attemptTask) claim() {
	if sl := a.task.core.slots.Load(); sl != nil {
		a.setHold(&hold{slots: sl, task: &a.task}, false)
	}
}

func (a *attemptTask) setHold(h *hold, lent bool) {
	c := a.task.core
	c.node.Mu.Lock()
	m := a.extra()
	m.hold, m.lent = h, lent
	c.node.Mu.Unlock()
	if !lent && a.node != nil && a.node.Ending() != nil {
		h.drop() // Ended may have found none to give back
	}
}

// Go is part of owner.Attempt.
func (a *attemptTask) Go() {
	a.claim()
	if a.admit() {
		go a.run()
	}
}

// Here is part of owner.Attempt.
func (a *attemptTask) Here() bool {
	c := a.task.core
	if c.slots.Load() != nil && c.thenWhat() != Abandon {
		h, lent, back := c.claimHere(&a.task)
		defer back()
		a.setHold(h, lent)
	}
	c.node.Mu.Lock()
	if c.then == Abandon { // what runs on the caller's goroutine cannot be left behind
		c.node.Mu.Unlock()
		a.Go()
		return false
	}
	if !a.admitLocked() {
		return true
	}
	a.runHere()
	if hooks && c.env != nil && c.env.root != nil {
		// runHere takes the caller for the scope's body. It may be a task.
		if t, _ := opener(a.node.Above()); t != nil {
			c.env.root.labels.set(t)
		}
	}
	return true
}

// endsWell is end for an attempt that returned nil where nobody looks on, with here
// that of one that ran Here. It reports whether it was that. The race is told late:
// whoever waits for it, and may go on then on another processor, finds the locks free.
func (a *attemptTask) endsWell(err error, here bool) bool {
	c := a.task.core
	if err != nil || hooks && c.env != nil || !a.advance(settling) {
		return false
	}
	c.noteOverrun(a.overrun())
	alone, linked := a.WonAlone(), false
	if !a.kept.Load() {
		a.with.Mu.Lock()
		rest := a.with.FinishLocked(scopeClosed)
		a.with.Mu.Unlock()
		linked = a.with.FinishUnder(&c.node, rest)
	}
	if !alone {
		a.finished(nil)
	}
	c.node.Mu.Lock()
	if linked {
		c.node.RemoveLocked(&a.with)
	}
	a.leaveLocked(nil)
	c.node.Mu.Unlock()
	if alone && !here {
		a.finished(nil)
	}
	return true
}

// Node is part of owner.Attempt.
func (a *attemptTask) Node() *ctxnode.Node { return &a.with }

func (s *attempts) Lend() (back func()) { return (*core)(s).lendSlot() }

// Lose is part of owner.Attempt.
func (a *attemptTask) Lose(why error) {
	if a.node == nil {
		return // it was not begun
	}
	a.node.End(&ctxnode.Ending{
		Cause: &budget.Cause{Kind: budget.RaceLost, Scope: a.task.core.node.Path(), Task: a.task.name, Err: why},
		Err:   context.Canceled,
		At:    time.Now(),
	})
}

// keep makes the context of the attempt that ctx belongs to outlive it.
func keep(ctx context.Context) (release func(), ok bool) {
	v := ctxnode.Find(ctx)
	if v == nil {
		return nil, false
	}
	t, ok := v.Owner.(*task)
	if !ok || t.mode&attempt == 0 || t.node == nil {
		return nil, false
	}
	t.work.(*attemptTask).kept.Store(true)
	return func() {
		t.node.End(scopeClosed)
		t.node.Stop()
	}, true
}

// workOf returns what the innermost attempt does to which ctx belongs.
func workOf(ctx context.Context) owner.Work {
	for v := ctxnode.Find(ctx); v != nil; v = v.Node().Above() {
		if t, ok := v.Owner.(*task); ok && t.mode&attempt != 0 {
			return t.work.(*attemptTask).Work
		}
	}
	return nil
}
