package retrybudget

import (
	"fmt"
	"time"
)

// Hold denies all retries and hedges for d, a minute at most, and tells the
// fleet to do so too, as soon as the Pool is reached: it is for a target that
// says "overloaded, do not retry". Calls of Hold do not add up, the one that
// ends last counts, and none can be called off. First attempts go on. Hold never
// blocks. A negative d panics; zero does nothing.
func (b *Budget) Hold(d time.Duration) {
	b.must("Hold")
	if d < 0 {
		panic(fmt.Sprintf("retrybudget: Hold: negative d %v", d))
	}
	c := b.core
	if d == 0 || c.unlimited {
		return
	}
	now := c.upToDate()
	until := now + int64(min(d, maxHold))
	c.holdUntil(until)
	if c.fleet != nil {
		c.fleet.announce(now, until)
	}
}

func (c *core) holdUntil(at int64) {
	for {
		till := c.hold.Load()
		if at <= till || c.hold.CompareAndSwap(till, at) {
			return
		}
	}
}

// held counts what is denied for a hold, and reports whether it is made all the
// same.
func (c *core) held(hedge bool) bool {
	c.denied(hedge)
	c.deniedHeld.Add(1)
	if c.observe {
		c.countBeside(hedge, 1)
	}
	return c.observe
}

// announce tells the pool of a hold: at once, if a call may be made now.
func (f *fleet) announce(now, until int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.left == nil {
		f.holdTill = max(f.holdTill, until)
		f.askLocked(now)
		f.armLocked(now)
	}
}
