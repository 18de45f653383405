package retrybudget

import (
	"context"
	"math/bits"
	"time"
)

// A part is credit that leaves a member, with the time from when on the oldest
// of it was earned, on the clock of the core.
type part struct{ amount, at int64 }

// excess takes of the credit that a member of a fleet does not keep, for others:
// what is above two retries and above what it earned in a second on average over
// the window, by whole retries at least. A member that earns fewer than three in a
// window gives all, in parts of one: a thousand of those earn much together and
// nothing alone. Nothing is taken of what was given back. The oldest goes first, and not more than two slices of
// the window at a time, since all that is taken is as old as the oldest of it.
func (c *core) excess(all bool) part {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, carried, earned := c.spareLocked(all)
	if p.amount == 0 || !c.own.take(new(stretch), uint64(p.amount), carried, earned, c.expired.Load()) {
		return part{} // nothing, or a taker was faster
	}
	c.lapsed += uint64(p.amount) // nobody spent it
	return p
}

// spares reports whether there is an excess.
func (c *core) spares(all bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, _, _ := c.spareLocked(all)
	return p.amount > 0
}

func (c *core) spareLocked(all bool) (p part, carried, earned uint64) {
	now, _ := c.turnLocked()
	expired, earned := c.expired.Load(), c.successes.Load()*c.ppm
	least := uint64(1)
	if !all && earned-expired >= minCarried+perToken {
		carried = max(minCarried, perSecond(earned-expired, now-c.marks[0].at))
		least = perToken
	}
	from := later(c.own.used.Load(), expired)
	fresh := uint64(max(int64(earned-from), 0))
	if fresh < carried+least {
		return part{}, carried, earned
	}
	i := 0
	for i < len(c.marks)-1 && int64(from-c.marks[i+1].successes*c.ppm) >= 0 {
		i++
	}
	amount := min(fresh-carried, maxPoolAmount)
	if i+2 < len(c.marks) {
		amount = min(amount, max(c.marks[i+2].successes*c.ppm-from, perToken))
	}
	return part{int64(amount), c.marks[i].at}, carried, earned
}

// perSecond returns how much of what was earned in d nanoseconds that makes a
// second, and all of it when they are fewer than a second's.
func perSecond(earned uint64, d int64) uint64 {
	if d <= int64(time.Second) {
		return earned
	}
	hi, lo := bits.Mul64(earned, uint64(time.Second))
	n, _ := bits.Div64(hi, lo, uint64(d)) // d is above a second: no overflow
	return n
}

// ask waits for the fleet's pool where a retry does not find cost here, and
// returns how long that took.
func (b *Budget) ask(ctx context.Context, cost uint64) time.Duration {
	f := b.core.fleet
	if f == nil || b.core.observe {
		return 0 // observing delays nothing
	}
	began := time.Now()
	f.await(ctx, b, cost)
	return time.Since(began)
}

// next returns how long it takes at least until cost may be granted again, as
// far as that is known.
func (c *core) next(cost uint64) time.Duration {
	now := c.upToDate()
	next := time.Duration(max(c.hold.Load()-now, 0))
	if c.fleet != nil {
		return max(next, c.fleet.next(now))
	}
	fromFloor, _ := c.floor.next(now, cost)
	return max(next, fromFloor)
}
