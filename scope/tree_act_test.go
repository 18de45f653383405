package scope_test

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
)

// An actor does what the plan of one task or body says.
type actor struct {
	*play
	log     *taskLog
	ctx     context.Context
	how     how
	value   any  // it panics with
	carried bool // value comes from a scope inside
	cut     bool // a pause was cut short by the context's end
	waited  bool // it returns what Wait told it
	forks   []*forked
}

// A forked task and the plan of it.
type forked struct {
	log  *taskLog
	task *scope.Task[string]
}

// act is the task's function, or the body.
func (a *actor) act(ctx context.Context) (err error) {
	a.ctx, a.log.ctx = ctx, ctx
	sl := a.log.scope
	defer func() {
		lo := a.stamp()
		e := &event{by: a.log, how: a.how, err: err, value: a.value, fromWait: a.waited, carried: a.carried, lo: lo, hi: stamp{lo.at, endless}}
		e.now, e.sawEnd, e.ownCause = time.Now(), sl.ctx.Err() != nil, context.Cause(ctx)
		sl.mu.Lock()
		defer sl.mu.Unlock()
		a.log.event, a.log.finished = e, true
		sl.events = append(sl.events, e)
	}()
	for _, st := range a.log.plan.steps {
		if err, over := a.step(st); over {
			return err
		}
		if a.cut && a.log.plan.obedient {
			return context.Cause(ctx)
		}
	}
	return a.end()
}

// step does one step; over means that the function returns err.
func (a *actor) step(st step) (err error, over bool) {
	sl := a.log.scope
	switch st.kind {
	case stepPause:
		a.cut = a.pause(st.at, st.deaf)
	case stepSpawn:
		a.spawn(sl, st.task)
	case stepSpawnUp:
		if sl.above != nil { // nil when it was itself spawned up, to the root
			sl = sl.above.scope
		}
		a.spawn(sl, st.task)
	case stepTaskWait:
		f := a.spawn(sl, st.task)
		if f.task != nil {
			a.checkTaskWait(f)
		}
	case stepCancel:
		e := &event{by: a.log, how: cancelled, sawEnd: sl.ctx.Err() != nil}
		switch st.as {
		case 0:
			e.err = fmt.Errorf("%q has had enough", a.log.plan.name)
		case 1:
			e.err = &budget.Cause{Kind: budget.UserCancelled}
		case 2:
			e.err = &budget.Cause{Kind: budget.Shutdown}
		}
		e.lo = a.stamp()
		sl.s.Cancel(e.err)
		e.hi = a.stamp()
		sl.mu.Lock()
		sl.events = append(sl.events, e)
		sl.mu.Unlock()
	case stepWait:
		_ = a.wait()
	case stepNested:
		return a.nested(st.scope)
	}
	return nil, false
}

// pause waits until an instant, or yields; it reports whether the context's
// end cut it short.
func (a *actor) pause(at time.Duration, deaf bool) bool {
	done := a.ctx.Done()
	if deaf {
		done = nil
	}
	if !a.bubble {
		return yield(at, done)
	}
	select {
	case <-done:
		return true
	case <-time.After(time.Until(a.start.Add(at))):
		return false
	}
}

func (a *actor) spawn(sl *scopeLog, tp *taskPlan) *forked {
	tl := &taskLog{plan: tp, scope: sl, before: a.stamp(), sawEnd: sl.ctx.Err() != nil}
	a.mu.Lock()
	a.byName[tp.name] = tl
	a.mu.Unlock()
	sl.mu.Lock()
	sl.tasks = append(sl.tasks, tl)
	sl.mu.Unlock()
	f := func(ctx context.Context) (string, error) {
		sl.mu.Lock()
		tl.started = true
		sl.mu.Unlock()
		err := (&actor{play: a.play, log: tl}).act(ctx)
		return tp.name, err
	}
	void := func(ctx context.Context) error { _, err := f(ctx); return err }
	s := sl.s
	// A context of the spawner's own, for In; only where it is one of sl's.
	ctx := a.ctx
	if sl != a.log.scope || a.log.plan.via >= viaLimit {
		ctx = sl.ctx
	}
	fk := &forked{log: tl}
	switch tp.via {
	case viaGo:
		s.Go(tp.name, void)
	case viaFork:
		fk.task = scope.Fork(s, tp.name, f)
	case viaLimit:
		fk.task = scope.Fork(s.Limit(budget.Within(tp.limit).Named("own")), tp.name, f)
	case viaInValue:
		s.In(context.WithValue(ctx, tl, "here")).Go(tp.name, func(ctx context.Context) error {
			if ctx.Value(tl) != "here" {
				a.problem("%s: its value is missing", tp.name)
			}
			return void(ctx)
		})
	case viaInCancel:
		inner, cancel := context.WithCancel(ctx)
		a.atEnd(cancel)
		s.In(inner).Go(tp.name, void)
	case viaInShielded:
		s.In(context.WithoutCancel(ctx)).Go(tp.name, void)
	case viaInTimeout:
		inner, cancel := context.WithTimeout(ctx, 2*time.Hour)
		a.atEnd(cancel)
		s.In(inner).Go(tp.name, void)
	}
	tl.after = a.stamp()
	if fk.task != nil {
		if recovered(func() { fk.task.Value() }) == nil && !a.covered(fk) {
			a.problem("%s: Value before a Wait did not panic", tp.name)
		}
		a.forks = append(a.forks, fk)
	}
	return fk
}

// atEnd has cancel called when the tree is over: a derived context that ended
// before its task would be one more thing that can end it.
func (p *play) atEnd(cancel func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leave = append(p.leave, cancel)
}

// nested opens a scope inside the task or body.
func (a *actor) nested(sp *scopePlan) (err error, over bool) {
	sl := &scopeLog{plan: sp, above: a.log, parent: a.ctx}
	back := false
	defer func() {
		if !back { // Goexit, which goes on even when a panic that came on top was recovered
			a.how = exited
		}
	}()
	a.open(sl)
	back = true
	switch {
	case sl.panicked != nil && sp.rethrow:
		a.how, a.value, a.carried = panicked, sl.panicked, true
		panic(sl.panicked)
	case sl.panicked != nil:
		return &realError{a.log.plan.name + " after a panic"}, true
	case sl.err == nil || sp.onError == errorDropped:
		return nil, false
	case sp.onError == errorWrapped:
		return fmt.Errorf("%s: %w", sp.name, sl.err), true
	}
	return sl.err, true
}

// await waits for the context's end as long as the plan has patience, and
// reports whether it came.
func (a *actor) await() bool {
	if !a.bubble {
		if a.log.scope.bounded || a.log.plan.via == viaLimit && a.log.plan.end == endOwnLimit {
			<-a.ctx.Done()
			return true
		}
		return yield(60, a.ctx.Done())
	}
	return a.pause(a.log.plan.patience, false)
}

// end does what the plan says last.
func (a *actor) end() error {
	tp := a.log.plan
	fail := &realError{tp.name}
	if tp.name == "" {
		fail.who = "body of " + a.log.scope.plan.name
	}
	switch tp.end {
	case endFail:
		return fail
	case endPanic, endLatePanic:
		if tp.end == endLatePanic {
			a.await()
		}
		a.how, a.value = panicked, planned{a.root.name, fail.who}
		if tp.errValue {
			a.value = fmt.Errorf("%w: %w", fail, context.Canceled)
		}
		return explode(a.value)
	case endGoexit:
		a.how = exited
		runtime.Goexit()
	case endObeyCause, endObeyErr, endObeyWrapped, endOwnLimit:
		switch {
		case !a.await():
		case tp.end == endObeyErr:
			return a.ctx.Err()
		case tp.end == endObeyWrapped:
			return fmt.Errorf("read: %w", context.Cause(a.ctx))
		default:
			return context.Cause(a.ctx)
		}
	case endLateNil:
		a.await()
	case endOverstayNil, endOverstayFail:
		a.await()
		if a.bubble {
			time.Sleep(tp.linger)
		} else {
			yield(20, nil)
		}
		if tp.end == endOverstayFail {
			return fail
		}
	case endWait:
		a.waited = true
		return a.wait()
	case endWaitWrapped:
		a.waited = true
		if err := a.wait(); err != nil {
			return fmt.Errorf("body: %w", err)
		}
	case endWaitCaught:
		_ = a.wait()
	case endTaskError:
		if len(a.forks) > 0 {
			return a.checkTaskWait(a.forks[0])
		}
	}
	return nil
}
