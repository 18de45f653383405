package scope

import (
	"context"
	"fmt"
	"strconv"
)

// All runs the functions at the same time, in a scope of that name with the
// deadline of ctx, and returns their values in the order of the functions. The
// last one runs on the caller's goroutine. Their tasks are called "0", "1", and
// so on.
//
// The error is that of [Run]: budget.ErrNoDeadline when ctx has no deadline, or
// an [*Error]. Beside an error the values of those that succeeded stand in their
// places, so that nothing acquired is lost, and zero values in the others. A nil
// function panics.
func All[T any](ctx context.Context, name string, fs ...func(context.Context) (T, error)) ([]T, error) {
	for i, f := range fs {
		if f == nil {
			panic(fmt.Sprintf("scope: All(%q): function %d is nil", name, i))
		}
	}
	tasks := make([]Task[T], len(fs))
	err := run(ctx, name, &asCalled, ours, func(ctx context.Context, s *Scope) error {
		for i, f := range fs {
			k := &tasks[i]
			k.f, k.t.name, k.t.work = f, strconv.Itoa(i), k
		}
		// One function starts them all, on as many goroutines: a function for each would
		// be a piece of memory for each. Which goroutine gets which task says nothing,
		// since all of them are started here.
		var start func()
		if len(tasks) > 1 {
			taken := &s.c.taken
			start = func() { tasks[taken.Add(1)-1].t.run() }
		}
		s.startAll(len(tasks), func(i int) *task { return &tasks[i].t }, start)
		return nil
	})
	values := make([]T, len(fs))
	for i := range tasks {
		if k := &tasks[i]; k.t.overLocked() && k.t.errLocked() == nil { // Run has returned: nothing changes any more
			values[i] = k.v
		}
	}
	return values, err
}

// startAll starts the n tasks of an All, the last of them on the goroutine of the
// scope's body. start, which is not called when there is only one, runs the first that
// it has not run yet.
func (s *Scope) startAll(n int, at func(i int) *task, start func()) {
	c := s.c
	if !c.admitAll(n, at) {
		for i := range n {
			if t := at(i); i < n-1 {
				s.spawn(t, "All")
			} else {
				s.runHere(t)
			}
		}
		return
	}
	for i := range n {
		switch t := at(i); {
		case c.node.Ending() != nil: // one of them has failed meanwhile
			t.refused(nil)
		case i < n-1:
			go start()
		default:
			t.runHere()
		}
	}
}

// admitAll counts n tasks as live in one step. It does nothing, and reports false, where
// each has to be looked at: somebody looks on, there are slots, or the scope has ended.
func (c *core) admitAll(n int, at func(i int) *task) bool {
	if c.slots.Load() != nil || hooks && c.env != nil {
		return false
	}
	c.node.Mu.Lock()
	defer c.node.Mu.Unlock()
	if c.node.Ending() != nil {
		return false
	}
	profiles := shared.count.Load()
	for i := range n {
		t := at(i)
		t.core, t.profiles = c, profiles
		t.view.Init(&c.node, t)
		c.sequence++
		t.seq = c.sequence
		c.linkLocked(t)
	}
	c.countLocked(n)
	return true
}

// runHere runs t on the goroutine of the scope's body. A slot that this goroutine
// has serves for t, too.
func (s *Scope) runHere(t *task) {
	c := s.c
	t.core = c
	t.view.Init(&c.node, t)
	if hooks && c.env != nil {
		t.watchBegin(c.env.spawnSite())
	}
	h, lent, back := c.claimHere(t)
	defer back()
	if h != nil {
		m := t.extra()
		m.hold, m.lent = h, lent
		if !lent && !h.tryTake() {
			c.await(h, h.join(false), nil)
		}
	}
	if c.admit(t, "All") {
		t.runHere()
	}
}
