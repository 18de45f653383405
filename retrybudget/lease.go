package retrybudget

import (
	"slices"
	"time"
)

// A lease is what one answer of the pool lent.
type lease struct {
	credit, floor int64 // micro-tokens left
	until         int64 // when it ends, on the clock of the core
	epoch         int64 // of the pool, as the rest
	expires, lent int64
	listed        bool // among those with something left
}

// A taking is what a take spent of one lease.
type taking struct {
	from          *lease
	credit, floor int64
}

// backs is what goes back to the pool, with its dates.
type backs struct {
	credit, expires int64
	floor           []floorBack // a call takes one of them
}

type floorBack struct{ amount, lent int64 }

const maxBacks = 16 // of the floor; there are as many leases as periods in one life

func (b *backs) none() bool { return b.credit == 0 && len(b.floor) == 0 }

// clear forgets all, and returns how much that was.
func (b *backs) clear() uint64 {
	sum := b.credit
	for _, f := range b.floor {
		sum += f.amount
	}
	*b = backs{}
	return uint64(sum)
}

func (f *fleet) takeLent(now, cost, keep int64, g *grant) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lapseLocked(now)
	if f.lent.Load() < cost+keep {
		return false
	}
	g.from = fromPool
	f.lent.Add(-cost)
	for cost > 0 {
		l := f.leases[0]
		t := taking{from: l, floor: min(cost, l.floor)} // the floor first: it can be given back for a shorter time
		t.credit = min(cost-t.floor, l.credit)
		l.floor -= t.floor
		l.credit -= t.credit
		cost -= t.floor + t.credit
		g.lent = append(g.lent, t)
		if l.floor+l.credit == 0 {
			l.listed = false
			f.leases = f.leases[1:]
		}
	}
	return true
}

// giveBack undoes take. The lease does not get longer by that.
func (f *fleet) giveBack(now int64, g grant) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, t := range g.lent {
		t.from.credit += t.credit
		t.from.floor += t.floor
		f.lent.Add(t.credit + t.floor)
		f.listLocked(t.from)
	}
	f.lapseLocked(now)
	f.armLocked(now)
}

func (f *fleet) listLocked(l *lease) {
	if l.listed {
		return
	}
	l.listed = true
	i := len(f.leases)
	for i > 0 && f.leases[i-1].until > l.until {
		i--
	}
	f.leases = slices.Insert(f.leases, i, l)
}

// lapseLocked moves what was lent until now to what goes back. The pool's books
// have it as spent, so that it is lost where the pool cannot be reached, or has
// forgotten it.
func (f *fleet) lapseLocked(now int64) {
	for len(f.leases) > 0 && now >= f.leases[0].until {
		f.endLeaseLocked(f.leases[0])
		f.leases = f.leases[1:]
	}
}

func (f *fleet) endLeaseLocked(l *lease) {
	f.lent.Add(-l.credit - l.floor)
	if f.lost.Load() || f.left != nil && f.left.gone || l.epoch != f.epoch {
		f.stranded.Add(uint64(l.credit + l.floor))
	} else {
		f.backLocked(l)
	}
	l.credit, l.floor, l.listed = 0, 0, false
}

func (f *fleet) backLocked(l *lease) {
	b := &f.backs
	if l.credit > 0 {
		if b.credit == 0 {
			b.expires = l.expires
		}
		b.expires = min(b.expires, l.expires)
		b.credit += l.credit
	}
	switch {
	case l.floor == 0:
	case len(b.floor) < maxBacks:
		b.floor = append(b.floor, floorBack{l.floor, l.lent})
	default:
		f.stranded.Add(uint64(l.floor))
	}
}

// donation is credit for all, dated on the clock of the pool.
type donation struct{ amount, expires int64 }

// staleClock is for how long the clock of the pool is known from one answer:
// clocks that are a ten-thousandth apart differ by six milliseconds then.
const staleClock = int64(time.Minute)

func (f *fleet) knowsClockLocked(now int64) bool {
	return f.epoch != 0 && now-f.answered < staleClock
}

// dateLocked dates p on the clock of the pool. What the pool said was true when
// the answer came or before, so credit never seems younger than it is.
func (f *fleet) dateLocked(p part) donation {
	if p.amount == 0 {
		return donation{}
	}
	// Rounded down, also below zero.
	born := f.clock - (f.answered-p.at+999)/1000
	if p.at > f.answered {
		born = f.clock + (p.at-f.answered)/1000
	}
	return donation{p.amount, min(max(born+f.core.window/1000, 0), maxPoolCount)}
}

// takeBacksLocked puts into r what one call takes of what goes back.
func (f *fleet) takeBacksLocked(r *PoolRequest) {
	b := &f.backs
	if part := min(b.credit, maxPoolAmount-r.Donate); part > 0 {
		if r.Donate == 0 {
			r.Expires = b.expires
		}
		r.Donate += part
		r.Expires = min(r.Expires, b.expires)
		b.credit -= part
	}
	if len(b.floor) > 0 {
		r.Return, r.Lent = b.floor[0].amount, b.floor[0].lent
		b.floor = b.floor[1:]
	}
}
