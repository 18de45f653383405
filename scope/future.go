package scope

import (
	"context"
	"fmt"

	"github.com/curfew-go/curfew/internal/ctxnode"
)

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
	k.t.name, k.t.work = name, k
	s.spawn(&k.t, "Fork")
	return k
}

func (k *Task[T]) call(ctx context.Context, _ *task) error {
	v, err := k.f(ctx)
	if err == nil {
		k.v = v
	}
	return err
}

func (k *Task[T]) origin(*task) any { return k.f }

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

// Or returns the task's value, or fallback when the task failed, was skipped or
// was abandoned. Like Value it panics unless a Wait that covers the task has
// returned. It does not un-fail the scope: see [Scope.Optional] for a task that
// the scope can do without.
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
	if !t.overLocked() || !t.covered && t.seq > c.waited && c.phase < cleaning {
		panic(fmt.Sprintf("scope: %s of task %q before a Wait that covers it has returned", verb, t.name))
	}
	return t.errLocked()
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
	if !t.overLocked() {
		if t.suspects(ctx) {
			c.node.Mu.Unlock()
			c.mustNotWait(t)
			c.node.Mu.Lock()
		}
	}
	if !t.overLocked() {
		c.taskWaits++
		c.suspectLocked()
		ended := t.endedLocked()
		c.node.Mu.Unlock()
		back := c.lendSlot()
		select {
		case <-ended:
		case <-ctx.Done():
		}
		back()
		c.node.Mu.Lock()
		c.taskWaits--
	}
	defer c.node.Mu.Unlock()
	if !t.overLocked() {
		return context.Cause(ctx)
	}
	t.covered = true
	return t.errLocked()
}

// isDone reports whether t has an outcome.
func (t *task) isDone() bool {
	t.core.node.Mu.Lock()
	defer t.core.node.Mu.Unlock()
	return t.overLocked()
}

// endedLocked returns a channel that is closed once t is done.
func (t *task) endedLocked() <-chan struct{} {
	f := t.fateLocked()
	if f.ended == nil {
		f.ended = make(chan struct{})
		t.stage.CompareAndSwap(running, awaited)
		if t.overLocked() {
			close(f.ended)
		}
	}
	return f.ended
}
