package ctxnode

import (
	"sync"
	"sync/atomic"
)

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
	// Atomic for the race detector alone, which does not know that a Broadcast comes
	// before what it wakes.
	next atomic.Pointer[sleeper]
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
	s.next.Store(c.first)
	c.first = s
	s.Cond.Wait()
	s.L = nil
	s.next.Store(nil)
	sleepers.Put(s)
}

// Awaited reports whether somebody waits for c.
func (c *Cond) Awaited() bool { return c.first != nil }

// Wake wakes all who wait for c.
func (c *Cond) Wake() { c.Take().Wake() }

// Sleepers are some who wait for a Cond, and that only who has taken them will wake.
type Sleepers struct{ first *sleeper }

// Take returns all who wait for c, for a caller that wakes them when it has unlocked:
// the first thing they do is to lock.
func (c *Cond) Take() Sleepers {
	s := Sleepers{c.first}
	c.first = nil
	return s
}

// Wake wakes them. It needs no lock.
func (w Sleepers) Wake() {
	for s := w.first; s != nil; {
		next := s.next.Load() // it is somebody else's once it is awake
		s.Broadcast()
		s = next
	}
}
