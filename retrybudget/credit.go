package retrybudget

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	perWindow = 10             // of one window
	maxAge    = int64(1) << 60 // nanoseconds; no Budget gets to be 36 years old
	maxIdle   = maxAge / 4     // nor idle for nine: that is another clock
	line      = 128            // bytes; processors fetch lines of 64 in pairs
)

// A core is what a Budget and its views share: what was earned, what was spent,
// and when credit expires.
//
// A deposit is one addition. It does not read the clock, which would cost more
// than everything else in it. Credit is dated by marks instead: the count of
// successes at some instant, made every slice of the window while there are
// successes. All that came between two marks is as old as the first of them, so
// credit may die up to a slice early and never lives too long, however late the
// timer is that makes the marks. A taker does read the clock, and makes the
// marks that are overdue itself.
//
// Refused: the clock in every deposit (it alone costs several times the
// addition, see BenchmarkTake); in every k-th (a caller that slows down leaves
// credit undated); a goroutine that keeps a coarse clock (it leaks, and no
// bubble of synctest ends while it runs); a count per processor (one addition
// is not the bottleneck).
type core struct {
	target    string
	unlimited bool
	settings
	slice int64
	base  time.Time // what now counts from
	floor floor
	fleet *fleet // nil: none, and the floor is its own

	_         [line]byte
	successes atomic.Uint64

	// A take that is granted writes this line once: what it counts follows from
	// what was spent (see retriesLocked).
	_   [line - 8]byte
	own account // spends successes × ppm

	_      [line - 8]byte
	apart  atomic.Uint64 // tokens of credit that were not one retry each: hedges, and second tokens
	others atomic.Uint64 // retries that cost no credit
	hedges atomic.Uint64
	pace   account // of hedges; see payHedge

	_             [line]byte
	deniedRetries atomic.Uint64
	deniedHedges  atomic.Uint64
	deniedHeld    atomic.Uint64 // of both

	_       [line]byte
	armed   atomic.Bool   // whether a timer makes the marks
	due     atomic.Int64  // when a mark is to be made or a slice expires
	expired atomic.Uint64 // micro-tokens of successes that are worth nothing any more
	oldest  atomic.Int64  // when the first success was counted that is worth something
	shift   atomic.Int64  // added to the clock since it stepped
	hold    atomic.Int64  // until when nothing is granted

	mu     sync.Mutex
	lapsed uint64 // under mu; micro-tokens in own.used that nobody spent
	marks  []mark // under mu; the oldest first, never empty; the last opens the running slice
	timer  uint64 // under mu; number of the newest timer, the only one that acts
	tickAt int64  // under mu; when that one is to fire
}

// A mark is the state of the counts at an instant.
type mark struct {
	at                         int64
	successes, retries, hedges uint64
}

func newCore(target string, s settings) *core {
	c := &core{target: target, settings: s, slice: s.window / perWindow, base: time.Now()}
	if s.pool != nil {
		c.fleet = newFleet(c, s.pool, s)
	} else {
		c.floor.rate, c.floor.burst = s.rate, s.burst
	}
	c.marks = append(make([]mark, 0, perWindow+3), mark{})
	c.due.Store(c.slice)
	return c
}

// now returns the nanoseconds since the core was made. The monotonic clock never
// steps, but that of a synctest bubble starts in the year 2000: to a Budget that
// is used inside and outside of bubbles it steps by decades, back and forth. See
// turnLocked, and why it must see more than maxAge.
func (c *core) now() int64 { return int64(time.Since(c.base)) + c.shift.Load() }

// success adds one. The mark comes before the addition: what is added must not
// be dated younger than it is.
func (c *core) success() {
	if !c.armed.Load() {
		c.arm()
	}
	c.successes.Add(1)
}

// upToDate returns the time, after the marks that are due by now were made.
func (c *core) upToDate() int64 {
	now := c.now()
	if due := c.due.Load(); now >= due || now < due-c.slice {
		return c.turn()
	}
	return min(now, maxAge)
}

// turn makes what is due, and sees that the next mark gets made.
func (c *core) turn() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, stepped := c.turnLocked()
	if c.armed.Load() && (stepped || now-c.tickAt >= 2*c.slice) {
		c.startTimerLocked(now) // the other one belongs to a bubble that is gone
	}
	return now
}

func (c *core) arm() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.armed.Load() {
		return
	}
	now, _ := c.turnLocked()
	c.startTimerLocked(now)
	c.armed.Store(true)
	if c.fleet != nil {
		c.fleet.arm(now) // after armed is set, which its timer looks at
	}
}

// turnLocked reads the clock, makes a mark if the running slice is over, and
// expires slices by their age.
func (c *core) turnLocked() (now int64, stepped bool) {
	now = c.now() // before the counts are: what comes in between counts as older
	last := c.marks[len(c.marks)-1].at
	if now < last || now-last > maxIdle {
		// All marks were made under mu, so it is the clock. It goes on from due:
		// whoever saw a later time than that has made a mark of it.
		due := c.due.Load()
		c.shift.Add(due - now)
		now, stepped = due, true
	}
	now = min(now, maxAge)
	if now-last >= c.slice {
		c.marks = append(c.marks, mark{now, c.successes.Load(), c.retriesLocked(), c.hedges.Load()})
	}
	old := 0
	for old < len(c.marks)-1 && now-c.marks[old].at >= c.window {
		old++
	}
	if old > 0 {
		c.marks = c.marks[:copy(c.marks, c.marks[old:])]
		// In this order, so that no taker moves own.used over what expired.
		expired := c.marks[0].successes * c.ppm
		c.lapsed += c.own.lapse(expired)
		c.pace.lapse(expired)
		c.expired.Store(expired)
		c.oldest.Store(c.marks[0].at)
	}
	c.due.Store(min(c.marks[len(c.marks)-1].at+c.slice, c.marks[0].at+c.window))
	return now, stepped
}

// startTimerLocked starts a new timer and disowns the one before. Reusing that
// one would be fatal when it was made in another bubble.
func (c *core) startTimerLocked(now int64) {
	c.timer++
	c.tickAt = c.due.Load()
	number := c.timer
	time.AfterFunc(time.Duration(c.tickAt-now), func() { c.tick(number) })
}

// tick makes the mark, and the next timer unless no success is left that could
// expire. A deposit that comes right after that is dated too old, and the next
// one starts the timer again.
func (c *core) tick(number uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if number != c.timer {
		return
	}
	now, _ := c.turnLocked()
	if c.successes.Load() == c.marks[0].successes {
		c.armed.Store(false)
		return
	}
	c.startTimerLocked(now)
}
