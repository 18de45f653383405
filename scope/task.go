package scope

import (
	"context"
	"fmt"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/ctxnode"
)

// A task is one function running in a scope. It moves one way:
//
//	new ──▶ running ──▶ done      f returned, or called Goexit
//	 │         └──────▶ done      f panicked: its goroutine stays parked until Run re-raises
//	 └──▶ done (skipped)          the scope's context had ended
type task struct {
	core *core
	name string
	f    func(context.Context) error
	view ctxnode.View  // its context, when it has no node of its own
	node *ctxnode.Node // of a task with a limit or an earlier end; else nil

	// The goroutine's own, before done.
	returned bool
	result   error

	// Protected by the core's node.Mu.
	prev, next *task // in the core's list of live tasks
	seq        uint64
	done       bool
	covered    bool          // a Task.Wait has returned its outcome
	err        error         // its outcome, once done
	ended      chan struct{} // closed when done; nil until somebody waits
}

// Go starts f in the scope, on a goroutine of its own, with a context of its
// own that must not be used after f returned. An error from f fails the scope.
//
// In a scope whose context has ended f is not started, and counted as skipped.
// In one that is over Go panics with an error that matches ErrClosed. Go never
// blocks. An empty name or a nil f panics.
func (s *Scope) Go(name string, f func(context.Context) error) {
	mustBeTask("Go", name, f == nil)
	s.spawn(&task{name: name, f: f}, "Go")
}

func mustBeTask(verb, name string, nilFunc bool) {
	if name == "" {
		panic("scope: " + verb + ": empty name")
	}
	if nilFunc {
		panic(fmt.Sprintf("scope: %s(%q): nil function", verb, name))
	}
}

func (s *Scope) spawn(t *task, verb string) {
	c := s.c
	t.core = c
	c.node.Mu.Lock()
	if c.phase >= cleaning {
		c.node.Mu.Unlock()
		panic(fmt.Errorf("scope: %s(%q) in scope %q, which is over: %w", verb, t.name, c.node.Path(), ErrClosed))
	}
	c.sequence++
	t.seq = c.sequence
	if c.node.Ending() != nil {
		t.done, t.err = true, c.node.Cause()
		c.skipped++
		c.node.Mu.Unlock()
		t.traceSkipped(t.err)
		return
	}
	c.started++
	c.live++
	t.next = c.tasks
	if t.next != nil {
		t.next.prev = t
	}
	c.tasks = t
	c.node.Mu.Unlock()

	if err := t.enter(s); err != nil {
		if c.node.CatchUp(); c.node.Ending() != nil {
			t.skip()
			return
		}
		t.end(err)
		return
	}
	go t.run()
}

// skip takes back a task whose context could not be made because the scope
// ended meanwhile.
func (t *task) skip() {
	c := t.core
	cause := c.node.Cause()
	c.node.Mu.Lock()
	c.started--
	c.skipped++
	t.leaveLocked(cause)
	c.node.Mu.Unlock()
	t.traceSkipped(cause)
}

func (t *task) traceSkipped(cause error) {
	if tr := traceOf(&t.core.node.View); tr != nil && tr.TaskSkipped != nil {
		tr.TaskSkipped(t.core.node.Path(), t.name, cause)
	}
}

// enter makes the task's context, counting the task as live already, so that
// the scope cannot close meanwhile.
func (t *task) enter(s *Scope) error {
	c := t.core
	if !s.limited && (s.in == nil || s.in.Done() == c.node.Done()) {
		t.view.Init(&c.node, t.name, s.in, t)
		return nil
	}
	t.node = &ctxnode.Node{Name: t.name, Under: &c.node, Owner: t}
	parent := s.in
	if parent == nil {
		parent = &c.node.View
	}
	limit := s.limit // Inherited unless the handle has one
	_, err := ctxnode.Hooks.Enter(t.node, parent, &limit)
	if err != nil {
		t.node = nil
	}
	return err
}

// context returns the task's context.
func (t *task) context() *ctxnode.View {
	if t.node != nil {
		return &t.node.View
	}
	return &t.view
}

// run is the whole of a task's goroutine. It is not inlined, so that its frame,
// with t's address in it, stands in every stack of the goroutine.
//
//go:noinline
func (t *task) run() {
	defer t.unwind()
	t.result = t.f(t.context())
	t.returned = true
}

// unwind is deferred by run. It calls recover itself, as the language demands.
func (t *task) unwind() {
	if t.returned {
		t.end(t.result)
		return
	}
	if v := recover(); v != nil {
		// The stack is still there, below this frame, as long as panicked has
		// not returned: should the owner not get to re-raise the panic, the
		// process dies with it.
		t.panicked(v)
		return
	}
	t.end(ErrGoexit)
}

// end records what the task came back with and lets go of the scope.
func (t *task) end(err error) {
	t.record(err)
	c := t.core
	c.node.Mu.Lock()
	t.leaveLocked(err)
	c.node.Mu.Unlock()
}

// record notes err, and ends the scope's context when it is the first failure.
// All that others can see of the task happens before it stops counting as live.
func (t *task) record(err error) {
	c := t.core
	if err != nil {
		var own *ctxnode.Ending
		c.node.CatchUp()
		if t.node != nil {
			if t.tightens() {
				t.node.ExpireIfDue()
			}
			own = t.node.Ending()
		}
		c.record(&TaskError{Task: t.name, Err: err, limit: t.limitBehind(err, own)}, own)
	}
	if t.node != nil {
		t.node.Close(scopeClosed)
	}
}

// tightens reports whether the deadline of a task with a context of its own is
// tighter than its scope's: only then is its passing the task's own affair.
func (t *task) tightens() bool {
	d, _ := t.node.Deadline()
	scope, _ := t.core.node.Deadline()
	return d.Before(scope)
}

// limitBehind returns the limit that ended the task's own context, when err says
// only that something did: most code returns ctx.Err().
func (t *task) limitBehind(err error, own *ctxnode.Ending) string {
	if own == nil {
		return ""
	}
	cause, _ := own.Cause.(*budget.Cause)
	if cause == nil || !is(err, own.Err) || is(err, cause) {
		return ""
	}
	return cause.Limit
}

func (t *task) leaveLocked(err error) {
	c := t.core
	if t.prev != nil {
		t.prev.next = t.next
	} else {
		c.tasks = t.next
	}
	if t.next != nil {
		t.next.prev = t.prev
	}
	t.prev, t.next = nil, nil
	t.done, t.err = true, err
	if t.ended != nil {
		close(t.ended)
	}
	if c.live--; c.live == 0 {
		c.node.Idle.Broadcast()
	}
}

// A Task is a task that brings a value back. Its methods may be called from any
// goroutine.
type Task[T any] struct {
	t task
	f func(context.Context) (T, error)
	v T
}

// Fork starts f in s, as Go does, and returns the task.
func Fork[T any](s *Scope, name string, f func(context.Context) (T, error)) *Task[T] {
	mustBeTask("Fork", name, f == nil)
	k := &Task[T]{f: f}
	k.t.name, k.t.f = name, k.call
	s.spawn(&k.t, "Fork")
	return k
}

func (k *Task[T]) call(ctx context.Context) error {
	v, err := k.f(ctx)
	if err == nil {
		k.v = v
	}
	return err
}

// Value returns the task's value. It panics unless a Wait that covers the task
// has returned, the scope's or the task's own, however fast the task was: code
// that works only when a task is fast is wrong. It panics when the task failed
// or was skipped: check Wait's error, or use Or.
func (k *Task[T]) Value() T {
	if err := k.t.outcome("Value"); err != nil {
		panic(fmt.Errorf("scope: Value of task %q, which has none: %w", k.t.name, err))
	}
	return k.v
}

// Or returns the task's value, or fallback when the task failed or was skipped.
// Like Value it panics unless a Wait that covers the task has returned. It does
// not un-fail the scope: a task that the scope can do without returns nil.
func (k *Task[T]) Or(fallback T) T {
	if k.t.outcome("Or") != nil {
		return fallback
	}
	return k.v
}

// Wait waits for the task to end and returns its value, or the zero value and
// its error. When ctx ends first the error is ctx's cause, and the value can
// still be had by another Wait. The error of a task that was skipped is the
// cause of its scope's end. A task that waits for itself panics.
func (k *Task[T]) Wait(ctx context.Context) (T, error) {
	if err := k.t.wait(ctx); err != nil {
		var zero T
		return zero, err
	}
	return k.v, nil
}

// outcome returns the task's error once a Wait that covers it has returned, and
// panics before.
func (t *task) outcome(verb string) error {
	c := t.core
	c.node.Mu.Lock()
	defer c.node.Mu.Unlock()
	if !t.done || !t.covered && t.seq > c.waited && c.phase < cleaning {
		panic(fmt.Sprintf("scope: %s of task %q before a Wait that covers it has returned", verb, t.name))
	}
	return t.err
}

// suspects reports whether a wait for t under ctx may be one of t for itself:
// ctx is that of t or of something inside it, or it says nothing about who
// waits, and a task does.
func (t *task) suspects(ctx context.Context) bool {
	v := ctxnode.Find(ctx)
	if v != nil && v.Within(&t.core.node) {
		if u := taskOf(v); u != nil && u.core == t.core && !u.inside(t.core, t) {
			return false // a sibling's context
		}
	}
	return onTask()
}

func (t *task) wait(ctx context.Context) error {
	if ctx == nil {
		panic(fmt.Sprintf("scope: Wait of task %q: nil context", t.name))
	}
	c := t.core
	c.node.Mu.Lock()
	if !t.done {
		if t.suspects(ctx) {
			c.node.Mu.Unlock()
			c.mustNotWait(t)
			c.node.Mu.Lock()
		}
	}
	if !t.done {
		c.taskWaits++
		c.suspectLocked()
		if t.ended == nil {
			t.ended = make(chan struct{})
		}
		ended := t.ended
		c.node.Mu.Unlock()
		select {
		case <-ended:
		case <-ctx.Done():
		}
		c.node.Mu.Lock()
		c.taskWaits--
	}
	defer c.node.Mu.Unlock()
	if !t.done {
		return context.Cause(ctx)
	}
	t.covered = true
	return t.err
}
