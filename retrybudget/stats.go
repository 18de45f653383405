package retrybudget

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Stats is what a Budget counted. Counts are of the whole Budget, whichever
// view was asked; retries that were given back because they were never made do
// not count. Fields are read one after the other while others may count on.
type Stats struct {
	Target string

	// Since the Budget was made. In Observe mode what would have been denied
	// counts as denied and as made.
	Successes                   uint64
	Retries, Hedges             uint64
	DeniedRetries, DeniedHedges uint64

	// Over the last Window, which may look back up to a tenth of it less.
	Window          time.Duration
	RecentSuccesses uint64
	RecentRetries   uint64
	RecentHedges    uint64

	// How many retries (of a hedge view: hedges) in a row would be allowed now:
	// Credit from successes, and after them Floor. With a Pool Floor is what that
	// has lent to this Budget at the moment, mostly nothing: it is asked for when it
	// is needed, and the floor of the fleet is nowhere in one process. A Budget that
	// is Unlimited has math.MaxInt of both, and a fan-out of it has what AtMost left
	// as Credit.
	Credit, Floor int

	DeniedHeld uint64     // of those denied, for a Hold
	Fleet      FleetStats // with a Pool
}

// Stats returns the counts of now.
func (b *Budget) Stats() Stats {
	b.must("Stats")
	c := b.core
	now := c.upToDate()
	c.mu.Lock()
	since, retries := c.marks[0], c.retriesLocked()
	c.mu.Unlock()
	s := Stats{
		Target:        c.target,
		Successes:     c.successes.Load(),
		Retries:       retries,
		Hedges:        c.hedges.Load(),
		DeniedRetries: c.deniedRetries.Load(),
		DeniedHedges:  c.deniedHedges.Load(),
		DeniedHeld:    c.deniedHeld.Load(),
		Window:        time.Duration(c.window),
	}
	s.RecentSuccesses = s.Successes - since.successes
	// Less than at the mark when some of what was taken before it was given back.
	s.RecentRetries = uint64(max(int64(s.Retries-since.retries), 0))
	s.RecentHedges = uint64(max(int64(s.Hedges-since.hedges), 0))
	s.Credit, s.Floor = math.MaxInt, math.MaxInt
	if !c.unlimited {
		s.Credit, s.Floor = int(c.tokens(now, b.hedge)), int(c.floor.tokens(now, b.hedge))
	}
	if c.fleet != nil {
		c.fleet.stats(now, b.hedge, &s)
	}
	if now < c.hold.Load() {
		s.Credit, s.Floor = 0, 0
	}
	for f := b.fan; f != nil; f = f.up {
		left := int(max(f.left.Load(), 0))
		s.Credit = min(s.Credit, left)
		s.Floor = min(s.Floor, left-s.Credit)
	}
	return s
}

// String says in one line what was spent for what over the last Window, what
// the caps are, and when and why the next denial comes.
func (b *Budget) String() string {
	b.must("String")
	c, s := b.core, b.Stats()
	var t strings.Builder
	fmt.Fprintf(&t, "retrybudget: %s: %d retries + %d hedges / %d successes", printable(s.Target), s.RecentRetries, s.RecentHedges, s.RecentSuccesses)
	if s.RecentSuccesses > 0 {
		fmt.Fprintf(&t, " (%.1f%%)", 100*float64(s.RecentRetries+s.RecentHedges)/float64(s.RecentSuccesses))
	}
	fmt.Fprintf(&t, " in %v", s.Window)
	switch {
	case c.unlimited && b.fan == nil:
		return t.String() + "; unlimited: denies nothing"
	case c.unlimited:
		t.WriteString("; unlimited but for this fan-out")
	default:
		fmt.Fprintf(&t, "; cap %s%% of successes", decimal(c.ppm, perToken/100))
	}
	if c.hedgeBurst > 0 && !c.unlimited {
		fmt.Fprintf(&t, ", %d hedges at once", c.hedgeBurst/perToken)
	}
	if c.floor.burst > 0 && !c.unlimited {
		fmt.Fprintf(&t, " + %s/s, burst %d", decimal(c.rate, perToken), c.burst/perToken)
	}
	if c.fleet != nil {
		t.WriteString(c.fleet.describe(s.Fleet))
	}
	denies := "denies"
	if c.observe {
		denies = "would deny"
	}
	if n := s.Credit + s.Floor; n > 0 {
		fmt.Fprintf(&t, "; %s after %d more", denies, n)
		if !c.unlimited {
			fmt.Fprintf(&t, " (%d earned, %d %s)", s.Credit, s.Floor, c.beside())
		}
	} else {
		fmt.Fprintf(&t, "; %s now: %s", denies, b.why(perToken))
	}
	return t.String()
}

// tokens returns how many retries, or hedges, in a row credit pays for.
func (c *core) tokens(now int64, hedge bool) uint64 {
	if hedge {
		n, _ := c.hedgeTokens(now)
		return n
	}
	return c.own.tokens(c.successes.Load()*c.ppm, c.expired.Load())
}

// decimal prints n parts of one, of which there are per, as a decimal number.
func decimal(n uint64, per float64) string {
	return strconv.FormatFloat(float64(n)/per, 'f', -1, 64)
}

// why explains why cost is denied now.
func (b *Budget) why(cost uint64) string {
	if b.spent() {
		return "all extra attempts of this fan-out are made"
	}
	reason := "no credit left"
	if cost > perToken {
		reason = "no credit left for a timeout, which costs two"
	}
	if b.hedge {
		reason = "the credit left is kept for retries"
		if _, paced := b.core.hedgeTokens(b.core.upToDate()); paced {
			reason = "hedges have used theirs, and wait for successes"
		}
	}
	if left := b.core.hold.Load() - b.core.upToDate(); left > 0 {
		return fmt.Sprintf("retries are held for %v", time.Duration(left).Round(time.Millisecond))
	}
	if b.core.fleet != nil {
		return reason + b.core.fleet.why(b.core.upToDate(), b.hedge)
	}
	f := &b.core.floor
	if b.hedge || f.burst == 0 {
		return reason
	}
	if next, ok := f.next(b.core.upToDate(), cost); ok {
		return fmt.Sprintf("%s, next from the floor in %v", reason, next.Round(time.Millisecond))
	}
	return reason + ", floor used up"
}
