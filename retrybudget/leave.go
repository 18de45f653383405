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
	return b.core.fleet.leave().wait(ctx)
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
			all = append(all, f.leave())
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
		c.fleet.leave()
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

// leave begins the end of the member, unless it has begun.
func (f *fleet) leave() *leaving {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.left == nil {
		f.left = &leaving{done: make(chan struct{})}
		f.timer++ // the one that runs does nothing any more
		f.armed = false
		f.askAt.Store(never)
		go f.goodbye(f.left, f.flight)
	}
	return f.left
}

// goodbye makes the last call.
func (f *fleet) goodbye(l *leaving, flight chan struct{}) {
	l.err = errNoAnswer // also when Sync ends the goroutine
	defer close(l.done)
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	if flight != nil {
		select {
		case <-flight: // what it brings goes back too
		case <-ctx.Done():
		}
	}
	own := f.hasOwn(ctx, l)
	now := f.core.upToDate()
	f.mu.Lock()
	f.sentAt = now
	for _, lease := range f.leases {
		f.endLeaseLocked(lease)
	}
	f.leases = nil
	l.gone = true
	nothing := f.seq == 0 && len(own) == 0
	f.mu.Unlock()
	if nothing {
		l.err = nil // it never was a member
		return
	}
	for last := false; !last; {
		var p part
		if len(own) > 0 {
			p, own = own[0], own[1:]
		}
		f.mu.Lock()
		r := f.messageLocked(p)
		last = len(own) == 0 && f.backs.none()
		f.mu.Unlock()
		r.Leave = last
		if err := f.tell(ctx, r); err != nil {
			f.giveUp(own)
			l.err = err
			return
		}
	}
	l.err = nil
}

// hasOwn takes all own credit, in parts of about one age, once the clock of the
// pool is known.
func (f *fleet) hasOwn(ctx context.Context, l *leaving) (own []part) {
	if !f.core.spares(true) {
		return nil
	}
	f.mu.Lock()
	now := f.core.upToDate()
	knows := f.knowsClockLocked(now)
	f.sentAt = now
	r := PoolRequest{}
	if !knows {
		r = f.messageLocked(part{})
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

// tell makes one of the last calls.
func (f *fleet) tell(ctx context.Context, r PoolRequest) error {
	g, err := f.pool.Sync(ctx, r)
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
