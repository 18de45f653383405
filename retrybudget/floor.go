package retrybudget

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// A floor is a token bucket that fills with time alone and starts full.
//
// It is an account like that of the credit: time earns, and what exceeds the
// burst has expired. golang.org/x/time/rate was tried for it. Its Reservation
// cannot be given back once its instant has passed, which every retry that is
// called off during its backoff needs, and it counts in floats, so that the
// invariant would hold only about.
type floor struct {
	rate    uint64 // micro-tokens a second
	burst   uint64 // micro-tokens
	bucket  account
	gained  account       // in a Set: what time alone gained, from an empty start
	shared  *atomic.Int64 // in a Set: the burst all its targets have together; nil: the bucket starts with one of its own
	retired atomic.Bool   // gives nothing any more: the Set has forgotten its target
}

// earned returns what time alone gained until now.
func (f *floor) earned(now int64) uint64 {
	hi, lo := bits.Mul64(uint64(now), f.rate)
	gained, _ := bits.Div64(hi, lo, uint64(time.Second)) // now is clamped to maxAge: no overflow
	return gained
}

// take spends the cost of g, or all the floor can hold when that is less: a
// floor of one must be able to pay for a retry that costs two.
func (f *floor) take(now int64, g *grant) bool {
	if f.burst == 0 || f.retired.Load() {
		return false
	}
	cost, keep := min(g.cost, f.burst), uint64(0)
	if g.hedge {
		keep = f.burst / 2
	}
	earned := f.earned(now)
	if !f.pays(cost, earned) {
		return false // before anything is taken: what a hedge gives back is lost to hedges
	}
	if !takeAny(&f.bucket, &g.spent, cost, keep, earned+f.burst, earned) {
		return false
	}
	from := fromFloor
	if f.shared != nil && !takeAny(&f.gained, &g.gained, cost, 0, earned, f.lost(earned)) {
		if f.shared.Add(-int64(cost)) < 0 {
			f.shared.Add(int64(cost))
			f.bucket.giveBack(g.spent, earned)
			return false
		}
		from = fromShared
	}
	g.from, g.cost = from, cost
	return true
}

// pays reports whether what a Set asks for beside the bucket is there.
func (f *floor) pays(cost, earned uint64) bool {
	return f.shared == nil || f.shared.Load() >= int64(cost) ||
		f.gained.towards(cost, earned, f.lost(earned)) == cost
}

// takeAny takes what was given back before, or else what is new. A hedge, which
// has something to keep, gets only what is new.
func takeAny(a *account, s *stretch, cost, keep, earned, expired uint64) bool {
	return keep == 0 && a.takeBack(s, cost, expired) || a.take(s, cost, keep, earned, expired)
}

// lost returns what an empty bucket that gained so much could not hold.
func (f *floor) lost(gained uint64) uint64 { return gained - min(gained, f.burst) }

func (f *floor) giveBack(now int64, g grant) {
	earned := f.earned(now)
	f.bucket.giveBack(g.spent, earned)
	switch {
	case g.from == fromShared:
		f.shared.Add(int64(g.cost))
	case f.shared != nil:
		f.gained.giveBack(g.gained, f.lost(earned))
	}
}

// tokens returns how many retries, or hedges, in a row it pays for.
func (f *floor) tokens(now int64, hedge bool) uint64 {
	if f.burst == 0 || f.retired.Load() {
		return 0
	}
	earned := f.earned(now)
	var n uint64
	if fresh := f.bucket.fresh(earned+f.burst, earned); hedge {
		n = (fresh - min(fresh, f.burst/2)) / perToken
	} else {
		n = f.bucket.tokens(earned+f.burst, earned)
	}
	if f.shared != nil {
		n = min(n, f.gained.tokens(earned, f.lost(earned))+uint64(max(f.shared.Load(), 0))/perToken)
	}
	return n
}

// next returns how long it takes until cost can be spent when nobody else
// spends, and false when that never happens.
func (f *floor) next(now int64, cost uint64) (time.Duration, bool) {
	if f.burst == 0 || f.rate == 0 || f.retired.Load() {
		return 0, false
	}
	cost = min(cost, f.burst)
	earned := f.earned(now)
	there := f.bucket.towards(cost, earned+f.burst, earned)
	if !f.pays(cost, earned) {
		there = min(there, f.gained.towards(cost, earned, f.lost(earned)))
	}
	missing := cost - there
	hi, lo := bits.Mul64(missing, uint64(time.Second))
	wait, rest := bits.Div64(hi, lo, f.rate)
	if rest > 0 {
		wait++
	}
	return time.Duration(wait), true
}
