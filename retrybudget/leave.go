package retrybudget

import (
	"context"
	"time"
)

// leaveTimeout bounds the last call of a member. It is in nobody's way, so it
// may take longer than others.
const leaveTimeout = time.Second

// A leaving is the end of a member.
type leaving struct {
	gone bool          // under the fleet's mu; what it had is given back, or lost
	done chan struct{} // closed after err was set
	err  error
}

// Close gives what b has not spent back to the Pool and leaves the fleet. It
// waits for that, a second at most after the call that is running, or for the
// end of ctx, whose cause it returns while the leaving goes on. After an error of
// the Pool what was given may be lost. Further calls of Close wait for the same,
// and return the same.
//
// The Budget stays usable: it earns and spends on its own, as when the Pool is
// gone. Closing a view closes its Budget. Without a Pool there is nothing to
// close, and Close returns nil. A nil ctx panics.
func (b *Budget) Close(ctx context.Context) error {
	b.must("Close")
	mustHave(ctx, "Close")
	if b.core.fleet == nil {
		return nil
	}
	return b.core.fleet.leave(true).wait(ctx)
}

// Close closes the Budgets that the Set holds, see [Budget.Close], together. The
// error is the first of them. The Set stays usable; a target that is new to it
// after Close is a member of its fleet.
func (s *Set) Close(ctx context.Context) error {
	s.must("Close")
	mustHave(ctx, "Close")
	var all []*leaving
	s.mu.RLock()
	for _, e := range s.clock {
		if f := e.budget.core.fleet; f != nil {
			all = append(all, f.leave(true))
		}
	}
	s.mu.RUnlock()
	var first error
	for _, l := range all {
		if err := l.wait(ctx); first == nil {
			first = err
		}
	}
	return first
}

// retire ends what a target has beside its own credit.
func (c *core) retire() {
	c.floor.retired.Store(true)
	if c.fleet != nil {
		c.fleet.leave(false)
	}
}

func (l *leaving) wait(ctx context.Context) error {
	select {
	case <-l.done:
		return l.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// leave begins the end of the member, unless it has begun. One that has not said
// anything yet joins for that if join, to give what it has.
func (f *fleet) leave(join bool) *leaving {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.left == nil {
		f.left = &leaving{done: make(chan struct{})}
		f.timer++ // the one that runs does nothing any more
		f.armed = false
		f.askAt.Store(never)
		go f.goodbye(f.left, f.flight, join)
	}
	return f.left
}

// goodbye makes the last call.
func (f *fleet) goodbye(l *leaving, flight chan struct{}, join bool) {
	defer close(l.done)
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	if flight != nil {
		select {
		case <-flight: // what it brings goes back too
		case <-ctx.Done():
		}
	}
	var own []part
	if join || f.joined() {
		own = f.hasOwn(ctx)
	}
	now := f.core.upToDate()
	f.mu.Lock()
	for _, lease := range f.leases {
		f.endLeaseLocked(lease)
	}
	f.leases = nil
	l.gone = true
	nothing := f.seq == 0 && len(own) == 0
	f.mu.Unlock()
	if nothing {
		return // it never was a member
	}
	for last := false; !last; {
		var p part
		if len(own) > 0 {
			p, own = own[0], own[1:]
		}
		f.mu.Lock()
		r := f.messageLocked(now, p)
		last = len(own) == 0 && f.backs.none()
		f.mu.Unlock()
		r.Leave = last
		if err := f.tell(ctx, r); err != nil {
			f.giveUp(own)
			l.err = err
			return
		}
	}
}

// joined reports whether the member has said anything.
func (f *fleet) joined() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seq > 0
}

// hasOwn takes all own credit, in parts of about one age, once the clock of the
// pool is known.
func (f *fleet) hasOwn(ctx context.Context) (own []part) {
	if !f.core.spares(true) {
		return nil
	}
	now := f.core.upToDate() // before the lock: the core's comes first
	f.mu.Lock()
	knows := f.knowsClockLocked(now)
	r := PoolRequest{}
	if !knows {
		r = f.messageLocked(now, part{})
	}
	f.mu.Unlock()
	if !knows && f.tell(ctx, r) != nil {
		// The credit goes on paying here; the next call says why it cannot leave.
		return nil
	}
	for {
		p := f.core.excess(true)
		if p.amount == 0 {
			return own
		}
		own = append(own, p)
	}
}

// tell makes one of the last calls. A pool that does not obey ctx holds its
// goroutine, and nobody who waits for the end of the member.
func (f *fleet) tell(ctx context.Context, r PoolRequest) error {
	type answer struct {
		g   PoolGrant
		err error
	}
	answers := make(chan answer, 1)
	go func() {
		a := answer{err: errNoAnswer}
		defer func() { answers <- a }() // also when Sync ends the goroutine
		a.g, a.err = f.sync(ctx, r)
	}()
	var a answer
	select {
	case a = <-answers:
	case <-ctx.Done():
		a.err = context.Cause(ctx)
	}
	g, err := a.g, a.err
	if err == nil {
		err = g.Check(r)
	}
	now := f.core.upToDate()
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		f.stranded.Add(uint64(r.Donate + r.Return))
		return err
	}
	f.heardLocked(now, r, g)
	return nil
}

// giveUp counts what cannot be given any more.
func (f *fleet) giveUp(own []part) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stranded.Add(f.backs.clear())
	for _, p := range own {
		f.stranded.Add(uint64(p.amount))
	}
}
