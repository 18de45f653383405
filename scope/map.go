package scope

import (
	"context"
	"fmt"
	"strconv"

	"github.com/curfew-go/curfew/budget"
)

// Map calls f for each element of in, in a scope of that name with the deadline
// of ctx, and returns the results in the order of in. At most width calls run at
// once, on as many goroutines, the caller's among them: one function, many items.
// Each call is a task, named by its index: where the items have names that logs
// should show, or parts may be missing, Fork each in a loop. In a tree with slots,
// Map uses more than the caller's own only while others are free.
//
// The first error ends the scope: what has not begun is skipped, and Map returns
// once all calls have. The error is that of [Run]; beside it the results that were
// had stand in their places. A width below 1 and a nil f panic.
func Map[In, Out any](ctx context.Context, name string, width int, in []In, f func(context.Context, In) (Out, error)) ([]Out, error) {
	mustBeMap("Map", name, width, f == nil)
	out := make([]Out, len(in))
	err := each(ctx, name, width, len(in), f, func(ctx context.Context, i int) error {
		v, err := f(ctx, in[i])
		if err == nil {
			out[i] = v
		}
		return err
	})
	return out, err
}

// Each is Map for an f without a result.
func Each[In any](ctx context.Context, name string, width int, in []In, f func(context.Context, In) error) error {
	mustBeMap("Each", name, width, f == nil)
	return each(ctx, name, width, len(in), f, func(ctx context.Context, i int) error { return f(ctx, in[i]) })
}

func mustBeMap(verb, name string, width int, nilFunc bool) {
	if nilFunc {
		panic(fmt.Sprintf("scope: %s(%q): nil function", verb, name))
	}
	if width < 1 {
		panic(fmt.Sprintf("scope: %s(%q): width %d: must be at least 1", verb, name, width))
	}
}

// each calls f for 0 to n-1.
func each(ctx context.Context, name string, width, n int, origin any, f func(context.Context, int) error) error {
	return run(ctx, name, budget.Inherited(), 0, func(_ context.Context, s *Scope) error {
		m := &mapping{core: s.c, n: n, f: f, fn: origin, more: max(min(width, n)-1, 0), over: make(chan struct{})}
		if hooks && s.c.env != nil {
			m.spawn = s.c.env.spawnSite()
		}
		m.workHere()
		return nil
	})
}

// A mapping is one function and many items, worked on by a few goroutines.
type mapping struct {
	core *core
	n    int
	f    func(context.Context, int) error
	fn   any           // the caller's function
	over chan struct{} // closed when no item is left to begin

	spawn []uintptr // where it was started, when somebody tests

	// Under core.node.Mu.
	next int // the first item that has not begun
	more int // how many more goroutines may work on it
}

// An item is one call of a mapping's function.
type item struct {
	task
	m *mapping
	i int
}

func (it *item) call(ctx context.Context) error { return it.m.f(ctx, it.i) }

func (it *item) origin() any { return it.m.fn }

// begin takes the next item, nil when none is left or the scope has ended.
func (m *mapping) begin(h *hold) *item {
	c := m.core
	it := &item{m: m}
	it.work, it.core = it, c
	if h != nil {
		e := it.extra()
		e.hold, e.lent = h, true
	}
	if hooks && c.env != nil {
		it.watchBegin(m.spawn)
	}
	c.node.Mu.Lock()
	if m.next == m.n || c.node.Ending() != nil {
		m.finishLocked()
		c.node.Mu.Unlock()
		return nil
	}
	it.i = m.next
	if m.next++; m.next == m.n {
		m.finishLocked()
	}
	it.name = strconv.Itoa(it.i)
	it.view.Init(&c.node, &it.task)
	c.sequence++
	it.seq = c.sequence
	c.startedLocked(&it.task)
	c.node.Mu.Unlock()
	return it
}

// finishLocked counts what has not begun as skipped, once.
func (m *mapping) finishLocked() {
	select {
	case <-m.over:
		return
	default:
		close(m.over)
	}
	if skipped := m.n - m.next; skipped > 0 {
		own := m.core.ownLocked()
		own.skipped += skipped
		own.cut += skipped
	}
}

// workHere works on the caller's goroutine, and starts the others.
func (m *mapping) workHere() {
	c := m.core
	h, lent, back := c.claimHere(&task{core: c, name: "here"})
	defer back()
	switch {
	case h == nil:
		m.startAll()
	case lent || m.take(h):
		if !lent {
			defer h.drop()
		}
		m.scout()
	default:
		c.node.Mu.Lock()
		m.finishLocked()
		c.node.Mu.Unlock()
		return
	}
	for {
		it := m.begin(h)
		if it == nil {
			return
		}
		it.task.runHere()
	}
}

// take waits for a slot until there is nothing left to begin.
func (m *mapping) take(h *hold) bool {
	if h.tryTake() {
		return true
	}
	granted := h.join(false)
	select {
	case <-granted:
		return true
	case <-m.core.node.Done():
	case <-m.over:
	}
	h.drop()
	return false
}

// startAll starts all goroutines that may work on m. The scope waits for them.
func (m *mapping) startAll() {
	c := m.core
	c.node.Mu.Lock()
	n := m.more
	m.more = 0
	c.helpers += int32(n)
	c.node.Mu.Unlock()
	for range n {
		go m.help(nil)
	}
}

// scout starts one goroutine that waits for a slot. Once it has one, it starts the
// next such goroutine and works on m.
func (m *mapping) scout() {
	c := m.core
	c.node.Mu.Lock()
	if m.more == 0 || m.next >= m.n-1 && m.next > 0 {
		c.node.Mu.Unlock()
		return
	}
	m.more--
	c.helpers++
	c.node.Mu.Unlock()
	go m.help(&hold{slots: c.slots.Load(), task: &task{core: c, name: "worker"}})
}

// help works on m on a goroutine of its own.
func (m *mapping) help(h *hold) {
	c := m.core
	defer func() { // also after a Goexit
		if h != nil {
			h.drop()
		}
		c.node.Mu.Lock()
		if c.helpers--; c.helpers == 0 {
			c.node.Idle.Broadcast()
		}
		c.node.Mu.Unlock()
	}()
	if h != nil {
		if !m.take(h) {
			return
		}
		m.scout()
	}
	for {
		it := m.begin(h)
		if it == nil {
			return
		}
		it.helped = true
		it.task.run()
	}
}
