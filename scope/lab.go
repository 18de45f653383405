package scope

import (
	"context"
	"time"

	"github.com/curfew-go/curfew/scope/internal/lab"
)

func init() {
	lab.With = func(ctx context.Context, t *lab.Test, root any) context.Context {
		e := env{}
		if old := envOf(ctx); old != nil {
			e = *old
		}
		e.test, e.root = t, root.(*Root)
		return context.WithValue(ctx, envKey{}, &e)
	}
	lab.Watch = func(root any, t *lab.Test) { root.(*Root).env.test = t }
	lab.Of = func(ctx context.Context) *lab.Test {
		if e := envOf(ctx); e != nil {
			return e.test
		}
		return nil
	}
	lab.Living = func(root any) []lab.Left { return root.(*Root).core.living(nil) }
}

// A disturbedWork is the work of a task that a test may do something to. Both
// points stand inside of what the task does, so that a panic or a Goexit there is
// the task's own, and inside of what Restart repeats.
type disturbedWork struct {
	work
	task    *task
	refused error // what Spawn said
}

func (d *disturbedWork) call(ctx context.Context, t *task) error {
	if err := d.refused; err != nil {
		d.refused = nil // Restart starts it again, and Spawn was once
		return err
	}
	return d.task.disturbed(ctx, func(ctx context.Context) error { return d.work.call(ctx, t) })
}

// Call is what the attempt does. A test may do something to it here: unlike that of
// other tasks its work is looked for, and must be what it was.
func (a *attemptTask) Call(ctx context.Context) error {
	switch {
	case !a.tested():
		return a.Work.Call(ctx)
	case a.more.refused != nil: // see disturbable
		return a.more.refused
	}
	return a.disturbed(ctx, a.Work.Call)
}

// disturbed calls f with what the test does before and after.
func (t *task) disturbed(ctx context.Context, f func(context.Context) error) error {
	if err := t.at(ctx, lab.Start); err != nil {
		return err
	}
	err := f(ctx)
	if injected := t.at(ctx, lab.Join); injected != nil {
		return injected
	}
	return err
}

// tested reports whether a test may do something to t.
func (t *task) tested() bool {
	e := t.core.env
	return hooks && e != nil && e.test != nil && e.test.At != nil
}

func (t *task) at(ctx context.Context, p lab.Point) error {
	return t.core.env.test.At(ctx, p, t.core.node.Path(), t.title())
}

// disturbable lets the test of t's scope, if there is one, do something to t. It
// is called before others see t, on the goroutine that starts it.
func (t *task) disturbable() {
	if !t.tested() {
		return
	}
	if t.mode&attempt != 0 {
		t.more.refused = t.at(t.context(), lab.Spawn)
		return
	}
	d := &disturbedWork{task: t}
	if r, ok := t.work.(*restarter); ok {
		d.work, r.work = r.work, d
	} else {
		d.work, t.work = t.work, d
	}
	if t.name != "" { // an item of a Map has none yet
		d.refused = t.at(t.context(), lab.Spawn)
	}
}

// living adds the tasks that run in c and below it, and the scopes in which only
// the body or a cleanup does.
func (c *core) living(to []lab.Left) []lab.Left {
	now := time.Now()
	path := c.node.Path()
	var inner []*core
	add := func(t *task) {
		l := t.lineLocked(now)
		left := lab.Left{Path: path + "/" + t.title(), State: l.State, Age: time.Duration(l.Age), Function: where(t.work.origin(t))}
		if t.more != nil {
			left.Spawned = t.more.spawn
		}
		to = append(to, left)
		inner = append(inner, l.inner...)
	}
	n := len(to)
	c.node.Mu.Lock()
	for t := c.tasks; t != nil; t = t.next {
		if t.mode&marker == 0 && !t.overLocked() {
			add(t)
		}
	}
	for t := c.left; t != nil; t = t.next {
		add(t)
	}
	if len(to) == n && c.innerLocked() == nil && c.place != nil && c.place.above != nil && c.phase != closed {
		l := lab.Left{Path: path, State: "body", Age: now.Sub(c.place.began), Function: writtenIn(c.body)}
		if c.cleaningUp != "" {
			l.State = "cleanup " + c.cleaningUp
		}
		to = append(to, l)
	}
	for in := c.innerLocked(); in != nil; in = in.place.next {
		inner = append(inner, in)
	}
	c.node.Mu.Unlock()
	for _, in := range inner {
		to = in.living(to)
	}
	return to
}
