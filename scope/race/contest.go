package race

import (
	"sync"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/ctxnode"
	"github.com/curfew-go/curfew/scope"
	"github.com/curfew-go/curfew/scope/internal/owner"
)

// A contest is a race without its values: who takes part, and who wins. Its
// verdict is decided once, under mu:
//
//	undecided ──enough have succeeded──▶ won
//	    ├──enough no longer can, or an error was terminal──▶ lost
//	    ├──the context ended──▶ ended
//	    └──the caller unwinds──▶ quit
type contest struct {
	// node is where the attempts hang, below what the race was called with. It is
	// not the scope's: what a winner keeps outlives the race.
	node  ctxnode.Node
	limit budget.Limit
	name  string
	owner owner.Scope
	owned bool // owner is the caller's scope, not one of the race's own

	mu      sync.Mutex
	changed sync.Cond // on mu: the verdict is there, a hedge is due, or somebody has left

	// Under mu.

	verdict  verdict
	need     int
	tries    int      // attempts that may be made at most
	left     int      // attempts that may still be made
	running  int      // attempts that have not come back
	entrants *entrant // all that were started, the youngest first
	won      int
	doomed   bool // an attempt panicked: the end of the owner's scope is on its way
	failures []error
	decider  error // the failure that decided; nil when their number did
	losers   []owner.Attempt
	refs     int // the caller, and attempts that have not come back or are kept: they need node

	hedging
}

type verdict uint8

const (
	undecided verdict = iota
	won
	lost
	ended
	quit
)

// An entrant is an attempt without its value. It has come back once: with a value
// that was delivered or with a failure.
type entrant struct {
	contest *contest
	number  int
	name    string

	// The attempt's goroutine's own.
	returned bool
	terminal bool

	// Under contest.mu.
	handle owner.Attempt // nil until it was started
	back   bool
	next   *entrant
}

// enterLocked takes e into the race, and reports whether it still goes on.
func (c *contest) enterLocked(e *entrant, number int, name string) bool {
	if c.verdict != undecided {
		return false
	}
	e.contest, e.number, e.name = c, number, name
	e.next, c.entrants = c.entrants, e
	c.running++
	c.left--
	c.refs++
	c.due = false // a failure that asked for another attempt has it
	return true
}

// started notes how e can be told that it has lost: now, if it has by now.
func (c *contest) started(e *entrant, h owner.Attempt) {
	c.mu.Lock()
	e.handle = h
	if !e.back && c.verdict != undecided && c.verdict != ended {
		c.losers = append(c.losers, h)
	}
	c.unlock()
}

// goesOn reports whether the race is undecided.
func (c *contest) goesOn() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.verdict == undecided
}

// wonLocked notes that e has succeeded, and reports whether that counts.
func (c *contest) wonLocked(e *entrant) bool {
	if e.back {
		return false // it was abandoned
	}
	e.back = true
	c.running--
	if c.verdict != undecided {
		return false
	}
	if c.won++; c.won == c.need {
		c.decideLocked(won)
	}
	return true
}

// Finished is part of owner.Work.
func (e *entrant) Finished(err error) {
	c := e.contest
	if err != nil {
		// What the end of the context makes an attempt return must not be taken
		// for a failure of its own.
		c.node.CatchUp()
	}
	c.mu.Lock()
	if !e.back {
		e.back = true
		c.running--
		switch {
		case c.verdict != undecided:
		case c.node.Ending() != nil: // Ended is on its way
			c.decideLocked(ended)
		default:
			c.failedLocked(e, err)
		}
	}
	c.unlock()
	c.drop()
}

func (c *contest) failedLocked(e *entrant, err error) {
	_, panicked := err.(*scope.PanicError)
	panicked = panicked && !e.returned // an error it returned is just an error
	if panicked && c.owned {
		// The scope ends in a moment, and its cause is what the caller gets.
		c.doomed = true
		return
	}
	failure := &scope.TaskError{Task: e.name, Err: err}
	c.failures = append(c.failures, failure)
	switch {
	case panicked || e.terminal:
		c.decider = failure
		c.decideLocked(lost)
	case c.launcher != nil && c.left > 0:
		c.dueLocked()
	default:
		c.settleLocked()
	}
}

// settleLocked decides a race that cannot be won any more.
func (c *contest) settleLocked() {
	if c.verdict == undecided && !c.doomed && c.won+c.running+c.left < c.need {
		c.loseLocked()
	}
}

// loseLocked decides that nobody wins.
func (c *contest) loseLocked() {
	if c.node.Ending() != nil { // Ended is on its way
		c.decideLocked(ended)
	} else {
		c.decideLocked(lost)
	}
}

// decideLocked decides the race, which is open. The losers are told by unlock.
func (c *contest) decideLocked(v verdict) {
	c.verdict = v
	c.disarmLocked()
	if v != ended { // the end of the context reaches the attempts by itself
		for e := c.entrants; e != nil; e = e.next {
			if !e.back && e.handle != nil {
				c.losers = append(c.losers, e.handle)
			}
		}
	}
	c.changed.Broadcast()
}

// unlock unlocks mu and tells the losers, not under it: what hangs below their
// contexts is not ours.
func (c *contest) unlock() {
	losers, why := c.losers, c.decider
	c.losers = nil
	c.mu.Unlock()
	for _, h := range losers {
		h.Lose(why)
	}
}

var _ ctxnode.Watcher = (*contest)(nil)

// Ended is called when the context has ended, before that of an attempt has.
func (c *contest) Ended(_ *ctxnode.Ending, watched bool) bool {
	c.mu.Lock()
	if c.verdict == undecided {
		c.decideLocked(ended)
	}
	c.unlock()
	return watched
}

// wait returns when the race is decided and nobody works for it any more but for
// its attempts. Meanwhile it launches the hedges that are due.
func (c *contest) wait() {
	c.mu.Lock()
	over := c.verdict != undecided && c.aside == 0
	c.mu.Unlock()
	if over {
		return
	}
	back := c.owner.Lend()
	defer back()
	c.mu.Lock()
	for c.verdict == undecided || c.aside > 0 {
		if c.due && !c.driving && c.verdict == undecided {
			c.driveLocked()
		} else {
			c.changed.Wait()
		}
	}
	c.unlock()
}

// compete plays p. When that unwinds, it stops all who still run, before the scope
// that may have been opened for the race waits for them.
func (c *contest) compete(p interface{ play() }) {
	over := false
	defer func() {
		if !over {
			c.leave()
		}
	}()
	p.play()
	over = true
}

func (c *contest) leave() {
	c.mu.Lock()
	if e := c.busy; e != nil { // it is what unwinds, and does not come back
		c.busy = nil
		if !e.back {
			e.back = true
			c.running--
		}
		c.refs--
	}
	if c.verdict == undecided {
		c.decideLocked(quit)
	}
	c.unlock()
}

// hold keeps node where it hangs until drop is called.
func (c *contest) hold() {
	c.mu.Lock()
	c.refs++
	c.mu.Unlock()
}

// drop undoes one hold. The last one takes node from what it hangs under, without
// ending it: those below have ended.
func (c *contest) drop() {
	c.mu.Lock()
	c.refs--
	last := c.refs == 0
	c.mu.Unlock()
	if last {
		c.node.Stop()
	}
}
