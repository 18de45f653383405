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
	a := &all[T]{fs: fs, values: make([]T, len(fs))}
	var others []task
	if n := len(fs); n > 1 {
		others = make([]task, n-1)
	}
	err := run(ctx, &a.core, name, &asCalled, ours, func(_ context.Context, s *Scope) error {
		if len(fs) > 0 {
			s.startAll(others, &a.last, a)
		}
		return nil
	})
	values := a.values
	a.fs, a.values = nil, nil // the error leads to a, and may be kept for long
	return values, err
}

// An all is the scope of an All, and what its tasks do.
type all[T any] struct {
	core
	last   task // the task on the goroutine of the scope's body
	fs     []func(context.Context) (T, error)
	values []T
}

// call runs the function of t. As with Map its value goes to where the caller finds it:
// no task of the scope is ever abandoned.
func (a *all[T]) call(ctx context.Context, t *task) error {
	i := t.place()
	v, err := a.fs[i](ctx)
	if err == nil {
		a.values[i] = v
	}
	return err
}

func (a *all[T]) origin(t *task) any { return a.fs[t.place()] }

// place returns which of the tasks of an All t is: its name says so, or else its number,
// see admitAll.
func (t *task) place() int {
	if t.name != "" {
		i, _ := strconv.Atoi(t.name)
		return i
	}
	return int(t.seq) - 1
}

// startAll starts the tasks of an All: the others each on a goroutine of its own, the
// last one on that of the scope's body.
func (s *Scope) startAll(others []task, last *task, w work) {
	c := s.c
	if !c.admitAll(others, last, w) {
		for i := range others {
			others[i].name, others[i].work = strconv.Itoa(i), w
			s.spawn(&others[i], "All")
		}
		last.name, last.work = strconv.Itoa(len(others)), w
		s.runHere(last)
		return
	}
	if len(others) > 0 {
		// One function starts them all, on as many goroutines: a function for each would
		// be a piece of memory for each. Which goroutine gets which task says nothing,
		// since all of them are started here.
		start := func() { others[c.taken.Add(1)-1].run() }
		for i := range others {
			if c.node.Ending() != nil { // one of them has failed meanwhile
				others[i].refused(nil)
			} else {
				go start()
			}
		}
	}
	if c.node.Ending() != nil {
		last.refused(nil)
		return
	}
	last.runHere()
}

// admitAll counts the tasks of an All as live in one step, and gives them the first
// numbers of the scope. It does nothing, and reports false, where each has to be looked
// at: somebody looks on, there are slots, or the scope has ended.
func (c *core) admitAll(others []task, last *task, w work) bool {
	if c.slots.Load() != nil || hooks && c.env != nil {
		return false
	}
	c.node.Mu.Lock()
	defer c.node.Mu.Unlock()
	if c.node.Ending() != nil {
		return false
	}
	profiles := shared.count.Load()
	admit := func(t *task) {
		t.core, t.work, t.profiles = c, w, profiles
		t.view.Init(&c.node, t)
		c.numberLocked(t)
		c.linkLocked(t)
	}
	for i := range others {
		admit(&others[i])
	}
	admit(last)
	c.countLocked(len(others) + 1)
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
