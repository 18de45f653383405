package race

import (
	"time"

	"github.com/curfew-go/curfew/internal/ctxnode"
)

// hedging is what a contest knows of attempts that are made only when they are
// due. Its fields are under the contest's mu.
//
// Hedges are launched on the caller's goroutine, which waits for the verdict; only
// while that runs the first attempt itself, they are on one aside.
type hedging struct {
	inline  bool                 // written before the race
	due     bool                 // the next one is to be launched
	driving bool                 // somebody launches
	busy    bool                 // the first attempt runs on the caller's goroutine
	aside   int32                // timers that are armed, and goroutines that launch aside
	after   func() time.Duration // nil: there are no hedges; written before the race
	gate    Gate                 // likewise
	timer   *ctxnode.Alarm       // of the next one, or of one that has fired; nil: there is none
}

// arm sees to it that the next hedge is launched when After has passed.
func (c *contest) arm() {
	c.mu.Lock()
	more := c.verdict == undecided && !c.due && c.left > 0
	c.mu.Unlock()
	if !more {
		return
	}
	delay := c.after()
	c.mu.Lock()
	c.armLocked(delay, time.Time{})
	c.unlock()
}

// armLocked is arm with the answer of After. now is what the clock has just said, or
// zero.
func (c *contest) armLocked(delay time.Duration, now time.Time) {
	switch {
	case c.verdict != undecided || c.due || c.left == 0: // by now
	case delay < 0:
		c.left = 0
		c.settleLocked()
	case delay == 0:
		c.dueLocked()
	default:
		if now.IsZero() {
			now = time.Now()
		}
		c.aside++
		c.timer = ctxnode.SetAlarm(now, now.Add(delay), c)
	}
}

// Ring is part of ctxnode.Ringer: the timer's. One that was disarmed in the instant in which it fired makes
// a hedge due as if it had fired a moment earlier.
func (c *contest) Ring() {
	c.mu.Lock()
	if c.verdict == undecided {
		c.dueLocked()
	}
	c.asideOverLocked()
	c.unlock()
}

func (c *contest) asideOverLocked() {
	c.aside--
	c.wakeLocked()
}

func (c *contest) disarmLocked() {
	if c.timer != nil && c.timer.Stop() {
		c.timer = nil
		c.aside--
	}
}

// dueLocked has the next hedge launched.
func (c *contest) dueLocked() {
	c.due = true
	if !c.busy {
		c.wakeLocked()
		return
	}
	c.aside++
	go func() {
		c.mu.Lock()
		if c.due && !c.driving && c.verdict == undecided {
			c.driveLocked()
		}
		c.asideOverLocked()
		c.unlock()
	}()
}

// driveLocked launches the hedges that are due. It lets go of mu meanwhile.
func (c *contest) driveLocked() {
	c.driving = true
	for c.due && c.verdict == undecided && c.left > 0 {
		c.due = false
		c.disarmLocked()
		next := c.entrants.number + 1
		c.mu.Unlock()
		begins := c.goesOnNow()
		if begins && (c.gate == nil || c.gate.TryTake()) {
			c.race.launch(int(next))
			c.mu.Lock()
		} else {
			c.mu.Lock()
			c.left--
			if !begins || c.running == 0 {
				c.left = 0
			}
		}
		if !c.due {
			c.mu.Unlock()
			c.arm()
			c.mu.Lock()
		}
	}
	c.due = false
	c.driving = false
	c.settleLocked()
}
