package race

import (
	"strconv"
	"sync"

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
	race  launcher // what the contest is part of
	name  string
	owner owner.Scope
	mu    sync.Mutex

	// Under mu.

	verdict verdict
	owned   bool  // owner is the caller's scope, not one of the race's own; written before the race
	doomed  bool  // an attempt panicked: the end of the owner's scope is on its way
	parked  bool  // the caller waits
	need    int32 // written before the race
	tries   int32 // attempts that may be made at most; likewise
	left    int32 // attempts that may still be made
	running int32 // attempts that have not come back
	won     int32 // attempts that have succeeded while it was undecided
	refs    int32 // the caller, and attempts that have not come back or are kept: they need group
	hedging
	changed sync.WaitGroup // where the caller waits: see wait

	// group is where the attempts hang, below the caller's context. It is not the scope's: what a
	// winner keeps outlives the race. The first attempt of a hedge, which mostly stays
	// alone, hangs there by itself, under the race's limit; it has a group made when it
	// fails or when there are more attempts. So as long as the race is undecided, either
	// there is a group or that attempt runs.
	group    *group
	entrants *entrant // all that were started, the youngest first
	*unusual          // nil until there is something in it: see ownLocked
}

// A launcher starts the hedge of that number.
type launcher interface{ launch(number int) }

// unusual is what a race does not have whose first attempt wins.
type unusual struct {
	end      *ctxnode.Node // whose end decided the race; nil when none did
	failures []error
	decider  error // the failure that decided; nil when their number did
	losers   []owner.Attempt
}

func (c *contest) ownLocked() *unusual {
	if c.unusual == nil {
		c.unusual = &unusual{}
	}
	return c.unusual
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
	number  int32
	alone   bool // it hangs below the caller's context by itself; written before it runs

	// The attempt's goroutine's own.
	returned bool
	terminal bool
	wonAlone bool // it has won, and nobody else is, or will be, at work for the race

	// Under contest.mu.
	back   bool
	handle owner.Attempt // nil until it was started; of one that is alone, written before it runs
	next   *entrant
}

// nameOf returns the name of e as a task.
func (c *contest) nameOf(e *entrant) string {
	switch {
	case c.after == nil:
		return c.name + "/" + strconv.Itoa(int(e.number))
	case e.number == 0:
		return c.name
	}
	return c.name + "/hedge-" + strconv.Itoa(int(e.number))
}

// goesOnNow reports whether the race's context is alive, after a look at what ends
// it, since timers are late and words under way. A race whose context has ended is
// decided then.
func (c *contest) goesOnNow() bool {
	g := c.regroup()
	g.CatchUp()
	if g.Ending() == nil {
		return true
	}
	c.endedBy(&g.Node)
	return false
}

// enterLocked takes e into the race, and reports whether it still goes on.
func (c *contest) enterLocked(e *entrant, number int) bool {
	if c.verdict != undecided {
		return false
	}
	c.addLocked(e, number)
	return true
}

// addLocked takes e into the race, which nobody else knows or which is under mu.
func (c *contest) addLocked(e *entrant, number int) {
	e.contest, e.number = c, int32(number)
	e.next, c.entrants = c.entrants, e
	c.running++
	c.left--
	c.refs++
	c.due = false // a failure that asked for another attempt has it
}

// started notes how e can be told that it has lost: now, if it has by now.
func (c *contest) started(e *entrant, h owner.Attempt) {
	c.mu.Lock()
	e.handle = h
	if !e.back && c.verdict != undecided && c.verdict != ended {
		own := c.ownLocked()
		own.losers = append(own.losers, h)
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
		// Who drives may make a group by and by.
		e.wonAlone = c.group == nil && !c.driving && c.aside == 0
	}
	return true
}

// WonAlone is part of owner.Work.
func (e *entrant) WonAlone() bool { return e.wonAlone }

// Finished is part of owner.Work.
func (e *entrant) Finished(err error) {
	c := e.contest
	if err != nil && c.goesOn() {
		// What the end of the context makes an attempt return must not be taken
		// for a failure of its own.
		c.goesOnNow()
	}
	c.mu.Lock()
	if !e.back {
		e.back = true
		c.running--
		switch {
		case c.verdict != undecided:
		case c.group.Ending() != nil: // Ended is on its way
			c.endLocked(&c.group.Node)
		default:
			c.failedLocked(e, err)
		}
	}
	if c.verdict != undecided {
		c.wakeLocked()
	}
	last := c.dropLocked()
	c.unlock()
	if last {
		c.group.Stop()
	}
}

// ContextEnded is part of owner.Work.
func (e *entrant) ContextEnded(n *ctxnode.Node) { e.contest.endedBy(n) }

func (c *contest) failedLocked(e *entrant, err error) {
	_, panicked := err.(*scope.PanicError)
	panicked = panicked && !e.returned // an error it returned is just an error
	if panicked && c.owned {
		// The scope ends in a moment, and its cause is what the caller gets.
		c.doomed = true
		return
	}
	failure := &scope.TaskError{Task: c.nameOf(e), Err: err}
	own := c.ownLocked()
	own.failures = append(own.failures, failure)
	switch {
	case panicked || e.terminal:
		own.decider = failure
		c.decideLocked(lost)
	case c.after != nil && c.left > 0:
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
	if c.group.Ending() != nil { // Ended is on its way
		c.endLocked(&c.group.Node)
	} else {
		c.decideLocked(lost)
	}
}

// decideLocked decides the race, which is open. The losers are told by unlock, and the
// caller by wakeLocked.
func (c *contest) decideLocked(v verdict) {
	c.verdict = v
	c.disarmLocked()
	if v != ended { // the end of the context reaches the attempts by itself
		for e := c.entrants; e != nil; e = e.next {
			if !e.back && e.handle != nil {
				own := c.ownLocked()
				own.losers = append(own.losers, e.handle)
			}
		}
	}
}

// endLocked decides the race, which is open, by the end of n.
func (c *contest) endLocked(n *ctxnode.Node) {
	c.ownLocked().end = n
	c.decideLocked(ended)
	c.wakeLocked()
}

// unlock unlocks mu and tells the losers, not under it: what hangs below their
// contexts is not ours.
func (c *contest) unlock() {
	if c.unusual == nil {
		c.mu.Unlock()
		return
	}
	losers, why := c.losers, c.decider
	c.losers = nil
	c.mu.Unlock()
	for _, h := range losers {
		h.Lose(why)
	}
}

// endedBy notes the end of the race's context, which is that of n.
func (c *contest) endedBy(n *ctxnode.Node) {
	c.mu.Lock()
	if c.verdict == undecided {
		c.endLocked(n)
	}
	c.unlock()
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
			continue
		}
		c.parked = true
		c.changed.Add(1)
		c.mu.Unlock()
		c.changed.Wait()
		c.mu.Lock()
	}
	c.unlock()
}

// wakeLocked has the caller, if it waits, look again: the verdict is there, a hedge is
// due, or somebody has left.
func (c *contest) wakeLocked() {
	if c.parked {
		c.parked = false
		c.changed.Done()
	}
}

func (c *contest) leave() {
	c.mu.Lock()
	if e := c.entrants; c.busy { // it is what unwinds, and does not come back
		for e.number != 0 {
			e = e.next
		}
		c.busy = false
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
