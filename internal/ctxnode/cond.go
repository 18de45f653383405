package ctxnode

import "sync"

// A Cond is a condition variable, as sync.Cond is, in the size of a pointer: most
// nodes have one for which nobody ever waits. All of it is under the lock that Wait
// is given, always the same one.
type Cond struct {
	first *sleeper
}

// A sleeper is a goroutine in Wait. It serves again: whoever wakes it touches it no
// more once it can go on.
type sleeper struct {
	sync.Cond
	next *sleeper // under the lock of the Cond it waits for
}

var sleepers sync.Pool // of *sleeper

// Wait unlocks mu, waits until somebody wakes c, and locks mu. As with sync.Cond what
// the caller waits for need not be so then.
func (c *Cond) Wait(mu *sync.Mutex) {
	s, _ := sleepers.Get().(*sleeper)
	if s == nil {
		s = &sleeper{}
	}
	s.L = mu
	s.next, c.first = c.first, s
	s.Cond.Wait()
	s.L = nil
	s.next = nil
	sleepers.Put(s)
}

// Awaited reports whether somebody waits for c.
func (c *Cond) Awaited() bool { return c.first != nil }

// Wake wakes all who wait for c.
func (c *Cond) Wake() { c.Take().Wake() }

// Sleepers are some who wait for a Cond, and that only who has taken them will wake.
type Sleepers struct{ last *sleeper }

// Take returns all who wait for c, for a caller that wakes them when it has unlocked:
// the first thing they do is to lock. When there are several it wakes all but one at
// once: the list of them is under the lock.
func (c *Cond) Take() Sleepers {
	s := c.first
	c.first = nil
	if s == nil {
		return Sleepers{}
	}
	for s.next != nil {
		next := s.next
		s.Broadcast()
		s = next
	}
	return Sleepers{s}
}

// Wake wakes them. It needs no lock.
func (w Sleepers) Wake() {
	if w.last != nil {
		w.last.Broadcast()
	}
}
