package scope

import (
	"context"
	"fmt"
	"sync"
)

// SetSlots lets at most n tasks run at once in s and in all scopes opened inside
// it. Go and Fork then block until a slot is free, which is back-pressure; the
// wait ends, and the task is skipped, when the scope's context ends; so does the
// wait of a task started through In when the context given there ends.
//
// A task that blocks in Go, in a Wait, or in a Run until its tasks have ended
// lends its slot meanwhile, so nested work on full slots completes. The task is
// found on the goroutine's stack, of which the runtime shows the outer and the inner
// fifty frames. A Map or All in a body that no task runs is missed when its item
// waits for a slot forty calls deeper, a hundred frames down in all: it keeps its
// slot then, and when no other comes free the wait lasts until the deadline. Such a
// Map belongs into a task. A task whose context has ended no longer counts. Bodies that no task runs, services and
// cleanups need no slot, nor does what a cleanup opens. A scope inside may set
// fewer slots for itself.
//
// SetSlots is for the first lines of the body: n below 1, a second call and a
// call after a task was started panic.
func (s *Scope) SetSlots(n int) {
	c := s.c
	if n < 1 {
		panic(fmt.Sprintf("scope: SetSlots(%d): must be at least 1", n))
	}
	c.node.Mu.Lock()
	defer c.node.Mu.Unlock()
	switch {
	case c.ownSlots:
		panic(fmt.Sprintf("scope: SetSlots(%d): scope %q has its slots already", n, c.node.Path()))
	case c.sequence > 0:
		panic(fmt.Sprintf("scope: SetSlots(%d): scope %q has started tasks already", n, c.node.Path()))
	}
	c.ownSlots = true
	c.putSlotsLocked(newSlots(n, c.slots.Load()))
}

// putSlotsLocked makes c's tasks need a slot of sl. The end of c is then told in any
// case: its tasks give up what they hold.
func (c *core) putSlotsLocked(sl *slots) {
	c.node.Quiet = false
	c.slots.Store(sl)
}

// slots is how many tasks may run at once in a tree of scopes. Where an inner
// scope has slots of its own, a task there needs one of each.
type slots struct {
	queue *slotQueue // shared with up
	up    *slots     // nil: none
	size  int
	taken int // under queue.mu
}

// A slotQueue is where tasks wait for slots, first come first served, but for
// those that come back after they have lent theirs: to finish what has begun
// comes before beginning more.
type slotQueue struct {
	mu      sync.Mutex
	waiting holdList // in the order in which they get their slots
	holding holdList
}

// A hold is one task's claim to its slots. It moves so:
//
//	idle ⇄ waiting ──▶ held ──lend──▶ idle
//	  any ──the task ended, or its context did──▶ dropped
type hold struct {
	slots *slots
	task  *task
	under *hold // the claim it has lent its slots to, on the same goroutine, which alone uses this

	// Under slots.queue.mu.
	state      holdState
	granted    chan struct{} // closed when the wait is over; nil unless waiting
	prev, next *hold
}

type holdState uint8

const (
	idle holdState = iota
	waiting
	held
	dropped
)

func newSlots(n int, up *slots) *slots {
	s := &slots{size: n, up: up}
	if up != nil {
		s.queue = up.queue
	} else {
		s.queue = &slotQueue{}
	}
	return s
}

// needsSlot reports whether t must have a slot to run.
func (c *core) needsSlot(t *task) bool {
	return t.mode&service == 0 && c.slots.Load() != nil && (t.more == nil || t.more.hold == nil)
}

// takeSlot gives t a slot, waiting for it until the scope's context ends, or that
// of in, which may be nil. While it waits, the task that calls lends its own; the
// returned function, nil when there is nothing to do, takes that back.
func (c *core) takeSlot(t *task, in context.Context) (back func()) {
	h := &hold{slots: c.slots.Load(), task: t}
	t.extra().hold = h
	if h.tryTake() {
		return nil
	}
	granted := h.join(false)
	back = c.lendSlot()
	c.await(h, granted, in)
	return back
}

// await waits for the slots of h, and gives the claim up when the scope's context,
// or that of in, ends before.
func (c *core) await(h *hold, granted <-chan struct{}, in context.Context) {
	var ended <-chan struct{}
	if in != nil {
		ended = in.Done()
	}
	select {
	case <-granted:
		return
	case <-c.node.Done():
	case <-ended:
	}
	h.drop()
}

// claimHere makes the claim under which t runs on the calling goroutine: that of
// the task which is on it already, when it is one to the same slots, else a new
// one, which has no slots yet. In the second case the task lends its own until it
// calls back.
func (c *core) claimHere(t *task) (h *hold, lent bool, back func()) {
	back = func() {}
	s := c.slots.Load()
	if s == nil {
		return nil, false, back
	}
	if on := holdOnStack(); on != nil {
		if on.slots == s {
			return on, true, back
		}
		h = &hold{slots: s, task: t}
		lends := on.lend()
		on.under = h
		return h, false, func() {
			on.under = nil
			if lends {
				on.takeBack()
			}
		}
	}
	return &hold{slots: s, task: t}, false, back
}

// lendSlot gives away the slot of the task on whose goroutine it is called, and
// returns the call that waits for one again. Both do nothing where there are no
// slots.
func (c *core) lendSlot() (back func()) {
	if c.slots.Load() == nil {
		return func() {}
	}
	h := holdOnStack()
	if h == nil || !h.lend() {
		return func() {}
	}
	return h.takeBack
}

// holdOnStack returns the claim of the innermost task on the calling goroutine's
// stack that has one, nil when there is none. Those further out have lent theirs
// to it. A task without a claim is one of a scope outside of the tree, such as an
// All under a context of its own.
func holdOnStack() *hold {
	for _, t := range tasksOnStack() {
		if t.more == nil || t.more.hold == nil {
			continue
		}
		h := t.more.hold
		for h.under != nil {
			h = h.under // of a task that the runtime left out: it cuts deep stacks in the middle
		}
		return h
	}
	return nil
}

// tryTake takes the slots if they are free and nobody waits for them.
func (h *hold) tryTake() bool {
	q := h.slots.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if h.state != idle || q.waiting.first != nil || !h.slots.freeLocked() {
		return false
	}
	h.takeLocked()
	return true
}

// join makes h wait for its slots, at the front of the queue or at its end. The
// channel is closed when it has them, or needs them no more.
func (h *hold) join(front bool) (granted <-chan struct{}) {
	q := h.slots.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	ch := make(chan struct{})
	if h.state != idle {
		close(ch)
		return ch
	}
	h.state, h.granted = waiting, ch
	q.waiting.add(h, front)
	q.serveLocked()
	return ch
}

// lend gives the slots away for now, and reports whether there were any.
func (h *hold) lend() bool {
	q := h.slots.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if h.state != held {
		return false
	}
	h.leaveLocked(idle)
	q.serveLocked()
	return true
}

// takeBack waits until h has its slots again, or its task needs them no more.
func (h *hold) takeBack() { <-h.join(true) }

// drop gives up the claim for good.
func (h *hold) drop() {
	q := h.slots.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	switch h.state {
	case held:
		h.leaveLocked(dropped)
		q.serveLocked()
	case waiting:
		q.waiting.remove(h)
		close(h.granted)
		h.granted = nil
	}
	h.state = dropped
}

func (s *slots) outermost() *slots {
	for s.up != nil {
		s = s.up
	}
	return s
}

func (s *slots) freeLocked() bool {
	for ; s != nil; s = s.up {
		if s.taken >= s.size {
			return false
		}
	}
	return true
}

func (h *hold) takeLocked() {
	for s := h.slots; s != nil; s = s.up {
		s.taken++
	}
	h.state = held
	h.slots.queue.holding.add(h, false)
}

func (h *hold) leaveLocked(to holdState) {
	for s := h.slots; s != nil; s = s.up {
		s.taken--
	}
	h.state = to
	h.slots.queue.holding.remove(h)
}

// serveLocked gives slots to those who wait. One who needs slots of an inner
// scope that are not free does not keep others from theirs.
func (q *slotQueue) serveLocked() {
	for h := q.waiting.first; h != nil; {
		next := h.next
		if h.slots.freeLocked() {
			q.waiting.remove(h)
			h.takeLocked()
			close(h.granted)
			h.granted = nil
		} else if root := h.slots.outermost(); root.taken >= root.size {
			return
		}
		h = next
	}
}

// A holdList is a list of holds, linked through them.
type holdList struct{ first, last *hold }

func (l *holdList) add(h *hold, front bool) {
	switch {
	case l.first == nil:
		l.first, l.last = h, h
	case front:
		h.next, l.first.prev = l.first, h
		l.first = h
	default:
		h.prev, l.last.next = l.last, h
		l.last = h
	}
}

func (l *holdList) remove(h *hold) {
	if h.prev != nil {
		h.prev.next = h.next
	} else {
		l.first = h.next
	}
	if h.next != nil {
		h.next.prev = h.prev
	} else {
		l.last = h.prev
	}
	h.prev, h.next = nil, nil
}

// paths returns the paths of the tasks in the list.
func (l *holdList) paths() []string {
	var all []string
	for h := l.first; h != nil; h = h.next {
		path := h.task.core.node.Path()
		if path != "" {
			path += "/"
		}
		all = append(all, path+h.task.name)
	}
	return all
}

// dropSlots gives up the slots of all live tasks: the context of their scope has
// ended, and only live, uncancelled work counts.
func (c *core) dropSlots() {
	c.node.Mu.Lock()
	var holds []*hold
	for t := c.tasks; t != nil; t = t.next {
		if t.more != nil && t.more.hold != nil && t.more.hold.task.core == c {
			holds = append(holds, t.more.hold)
		}
	}
	c.node.Mu.Unlock()
	for _, h := range holds {
		h.drop()
	}
}
