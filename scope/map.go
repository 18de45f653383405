package scope

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
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
	return run(ctx, nil, name, &asCalled, ours, func(_ context.Context, s *Scope) error {
		c := s.c
		width := max(min(width, n), 1)
		m := &mapping{core: c, n: int64(n), f: f, fn: origin, width: int64(width), more: width - 1}
		if hooks && c.env != nil {
			m.spawn = c.env.spawnSite()
			m.listed = true
		}
		if c.slots.Load() != nil {
			m.listed = true
			m.over = make(chan struct{})
		}
		m.place.mode, m.place.more = marker, &m.has
		m.has.items = m
		m.workHere()
		return nil
	})
}

// A mapping is one function and many items, worked on by a few goroutines.
//
// An item takes no lock and stands in no list, as long as nobody looks on and it
// returns nil: its worker points at it. Any other outcome puts it into the list of its
// scope first, from where it ends as other tasks do.
type mapping struct {
	core   *core
	n      int64
	width  int64
	f      func(context.Context, int) error
	fn     any           // the caller's function
	over   chan struct{} // closed when no item is left to begin; nil where there are no slots
	listed bool          // items are in the list from the start: somebody looks on, or they need slots

	spawn []uintptr // where it was started, when somebody tests

	// Under core.node.Mu.
	more    int // how many more goroutines may work on it
	workers []*worker
	place   task // stands in the list of tasks for the items that are not there
	has     more

	_    [64]byte // what all workers write stands apart from what they read
	next atomic.Int64
}

// An item is one call of a mapping's function.
type item struct {
	task
	m *mapping
	i int
}

func (it *item) call(ctx context.Context, _ *task) error { return it.m.f(ctx, it.i) }

func (it *item) origin(*task) any { return it.m.fn }

// A worker is one goroutine that takes items.
type worker struct {
	m     *mapping
	at    atomic.Pointer[item] // the one it works on, or has worked on last
	fresh []item               // made together, and not begun
	_     [24]byte             // two that share a cache line would wait for each other
}

// itemsTogether is how many items a worker makes at once.
const itemsTogether = 8

func (m *mapping) newWorkerLocked() *worker {
	w := &worker{m: m}
	if !m.listed {
		if m.workers == nil {
			m.core.linkLocked(&m.place)
		}
		m.workers = append(m.workers, w)
	}
	return w
}

// begin takes the next item, nil when none is left or the scope has ended.
func (w *worker) begin(h *hold) *item {
	m := w.m
	c := m.core
	if c.node.Ending() != nil {
		m.finish()
		return nil
	}
	i := m.next.Add(1) - 1
	if i >= m.n {
		return nil
	}
	if m.over != nil && i == m.n-1 {
		m.finish()
	}
	if len(w.fresh) == 0 {
		w.fresh = make([]item, min(max((m.n-i)/m.width, 1), itemsTogether))
	}
	it := &w.fresh[0]
	w.fresh = w.fresh[1:]
	it.m, it.i = m, int(i)
	it.work, it.core = it, c
	if h != nil {
		e := it.extra()
		e.hold, e.lent = h, true
	}
	if hooks && c.env != nil {
		it.watchBegin(m.spawn)
		it.name = strconv.Itoa(it.i) // a test may have put its own work in place of the item's
	}
	it.view.Init(&c.node, &it.task)
	if m.listed {
		c.node.Mu.Lock()
		c.startedLocked(&it.task)
		c.node.Mu.Unlock()
		return it
	}
	it.mode = unlisted
	it.profiles = shared.count.Load()
	w.at.Store(it)
	return it
}

// finish counts what has not begun as skipped, once.
func (m *mapping) finish() {
	skipped := int(m.n - m.next.Swap(m.n))
	if skipped <= 0 && m.over == nil {
		return
	}
	m.core.node.Mu.Lock()
	defer m.core.node.Mu.Unlock()
	if skipped > 0 {
		own := m.core.ownLocked()
		own.skipped += skipped
		own.cut += skipped
	}
	if m.over != nil {
		select {
		case <-m.over:
		default:
			close(m.over)
		}
	}
}

// enlist puts an item into the list of its scope's tasks, which it leaves as they do.
func (t *task) enlist() {
	c := t.core
	c.node.Mu.Lock()
	defer c.node.Mu.Unlock()
	t.mode &^= unlisted
	c.numberLocked(t)
	c.countLocked(1)
	c.linkLocked(t)
}

// unlistedLocked returns the items that run and stand in no list.
func (m *mapping) unlistedLocked() (all []*task) {
	for _, w := range m.workers {
		if it := w.at.Load(); it != nil && it.mode&unlisted != 0 && !it.overLocked() {
			all = append(all, &it.task)
		}
	}
	return all
}

// workHere works on the caller's goroutine, and starts the others.
func (m *mapping) workHere() {
	c := m.core
	if c.slots.Load() == nil {
		m.startAll()
		m.workAlong(nil)
		return
	}
	h, lent, back := c.claimHere(&task{core: c, name: "here"})
	defer back()
	if !lent {
		if !m.take(h) {
			m.finish()
			return
		}
		defer h.drop()
	}
	m.scout()
	m.workAlong(h)
}

// workAlong takes items, on the caller's goroutine, until none is left.
func (m *mapping) workAlong(h *hold) {
	m.core.node.Mu.Lock()
	w := m.newWorkerLocked()
	m.core.node.Mu.Unlock()
	for it := w.begin(h); it != nil; it = w.begin(h) {
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
	if next := m.next.Load(); m.more == 0 || next >= m.n-1 && next > 0 {
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
			c.node.Idle.Wake()
		}
		c.node.Mu.Unlock()
	}()
	if h != nil {
		if !m.take(h) {
			return
		}
		m.scout()
	}
	if m.next.Load() >= m.n {
		return
	}
	c.node.Mu.Lock()
	w := m.newWorkerLocked()
	c.node.Mu.Unlock()
	for it := w.begin(h); it != nil; it = w.begin(h) {
		it.helped = true
		it.task.run()
	}
}
