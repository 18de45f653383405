package retrybudget

import (
	"fmt"
	"math"
	"time"
)

// A Config says how much a Budget allows. The zero Config works: a tenth of the
// successes of the last ten seconds, and for quiet times one a second with five
// to begin with.
//
// For each field zero means its default; a negative number means none.
type Config struct {
	// Ratio is how many retries and hedges one successful call earns. Default
	// 0.1; negative: none, so that only the floor is left. It is rounded once,
	// in New, to the nearest millionth and never down to nothing; from then on
	// n successes are worth exactly ⌊n × millionths ÷ 1,000,000⌋ retries.
	// More than 1000, and NaN, panic.
	Ratio float64

	// PerSecond is the floor: retries and hedges a second that need no success.
	// They let a quiet caller retry at all, and a caller whose credit has run
	// out find that the target is back. Default 1; negative: Burst is all there
	// is, once, and with a Pool nothing. Without a Pool every process has this floor
	// to itself, so choose it for the target divided by the number of processes. It is
	// rounded to a millionth; more than 10,000, and NaN, panic.
	PerSecond float64

	// Burst is how much unused floor is kept, and what a new Budget without a Pool
	// starts with. Default 5; negative: none, and no floor at all, since a floor needs
	// room for the one that comes next.
	Burst int

	// HedgeBurst is how many hedges may come at once out of credit that they have not
	// used before. What they do not use beyond it is left to retries, so that in every
	// span of time from a to b
	//
	//	hedges ≤ Ratio × successes from a to b + HedgeBurst
	//
	// beside those that the floor or a Pool pays for. Without it a target that
	// suddenly becomes slow, where every call asks for a hedge, gets what was earned
	// while it was fast. Set it to a few where hedges must keep to their share in every
	// second: see Hedges in the documentation of the package. Default: what a second's
	// successes earn, on average over the Window, but 2 at least; negative: none, and no
	// hedge on credit, since one needs room. More than a million panics.
	HedgeBurst int

	// Window is how long a success is worth something: between 0.9 and 1.0 of
	// it, in ten slices. So the credit that is carried is never more than that
	// of one Window, and a quiet night does not fund a storm. Default 10 s. From
	// 1 s to 1 min; anything else panics.
	Window time.Duration

	// Pool, when it is there, makes the Budget a member of a fleet: of all Budgets of
	// the same target whose Pool is the same, in any process. Nil: a Budget by
	// itself.
	//
	// In the first 1.5 s, and until the floor has filled, a new fleet retries only on
	// credit. So it is after the Pool has lost its memory.
	//
	// PerSecond and Burst are those of the whole fleet, and the same for all of its
	// members. The Pool lends them for up to a second. What is lent has a place in
	// Burst, so that three times PerSecond or more serves best.
	//
	// Members spend what they earn, and give to others what is too much for them:
	// more than two retries and more than they earn in a second. Who earns fewer than
	// three in a Window gives all of it. With a Window below about three seconds
	// there is no time left for that.
	//
	// A call of the Pool has 20 ms. A Pool that is further away than that is none.
	Pool Pool

	// Observe counts what would be denied and denies nothing: the way to find
	// the right numbers before they act.
	Observe bool
}

// Defaults of Config.
const (
	defaultRatio     = 0.1
	defaultPerSecond = 1
	defaultBurst     = 5
	defaultWindow    = 10 * time.Second
)

const (
	// perToken is one retry or hedge in the unit that everything is counted in.
	// Integers, because sums of floats drift: of 0.1, sixty are not 6.0.
	perToken = 1_000_000

	maxRatio     = 1000   // as Finagle: above it a sum over one window could not be told from a negative one
	maxPerSecond = 10_000 // keeps the floor's count, which never wraps back, good for years
	maxBurst     = 1_000_000
	minWindow    = time.Second
	maxWindow    = time.Minute
)

// settings are what a Config comes to.
type settings struct {
	ppm        uint64 // micro-tokens one success earns
	rate       uint64 // micro-tokens the floor gains a second
	burst      uint64 // micro-tokens the floor holds
	hedgeBurst int64  // micro-tokens that hedges may save up, or aSecond
	window     int64  // nanoseconds
	observe    bool
	pool       Pool
}

// settle checks c for the function named by who.
func (c Config) settle(who string) settings {
	if !(c.Ratio <= maxRatio) {
		panic(fmt.Sprintf("retrybudget: %s: Ratio %v is above %d", who, c.Ratio, maxRatio))
	}
	if !(c.PerSecond <= maxPerSecond) {
		panic(fmt.Sprintf("retrybudget: %s: PerSecond %v is above %d", who, c.PerSecond, maxPerSecond))
	}
	if c.Burst > maxBurst {
		panic(fmt.Sprintf("retrybudget: %s: Burst %d is above %d", who, c.Burst, maxBurst))
	}
	if c.HedgeBurst > maxBurst {
		panic(fmt.Sprintf("retrybudget: %s: HedgeBurst %d is above %d", who, c.HedgeBurst, maxBurst))
	}
	if c.Window != 0 && (c.Window < minWindow || c.Window > maxWindow) {
		panic(fmt.Sprintf("retrybudget: %s: Window %v is not within %v and %v", who, c.Window, minWindow, maxWindow))
	}
	s := settings{
		ppm:     millionths(c.Ratio, defaultRatio),
		rate:    millionths(c.PerSecond, defaultPerSecond),
		window:  int64(c.Window),
		observe: c.Observe,
		pool:    c.Pool,
	}
	switch {
	case c.Burst == 0:
		s.burst = defaultBurst * perToken
	case c.Burst > 0:
		s.burst = uint64(c.Burst) * perToken
	}
	switch {
	case c.HedgeBurst == 0:
		s.hedgeBurst = aSecond
	case c.HedgeBurst > 0:
		s.hedgeBurst = int64(c.HedgeBurst) * perToken
	}
	if s.window == 0 {
		s.window = int64(defaultWindow)
	}
	return s
}

// millionths rounds x to millionths: none when it is negative, the default when
// it is zero, and at least one otherwise.
func millionths(x, byDefault float64) uint64 {
	switch {
	case x < 0:
		return 0
	case x == 0:
		x = byDefault
	}
	return max(1, uint64(math.Round(x*perToken)))
}
