package retrybudget

import (
	"sync"
	"sync/atomic"
)

// An account spends what something else earns. Both sides are cumulative
// counts of micro-tokens, and so is what has expired, the oldest first:
//
//	0 ──── expired ──── used ──── earned
//	                         └──────┘ what may be spent
//
// where used may lag behind expired. The counts wrap around at 64 bits and only
// their differences are looked at, which stay far below half of that: a window
// of one minute at the largest ratio would take 150 million successes a second
// to get there.
//
// What is given back keeps its place between the counts, so it expires when it
// would have. Moving used back instead was tried and refused: two that give
// back after others took and gave back can claim the same stretch.
type account struct {
	used  atomic.Uint64
	backs atomic.Int32 // length of back, so that takers need not lock to see that there is none

	mu   sync.Mutex
	back []stretch // under mu; given back and not taken again
}

// A stretch is the part of an account that one grant spent.
type stretch struct{ start, end uint64 }

// alive returns s without what has expired, and how much that is.
func (s stretch) alive(expired uint64) (stretch, uint64) {
	s.start = later(s.start, expired)
	return s, uint64(max(int64(s.end-s.start), 0))
}

// fresh returns what may be spent beside what was given back, given what was
// earned and what of it has expired.
func (a *account) fresh(earned, expired uint64) uint64 {
	return uint64(max(int64(earned-later(a.used.Load(), expired)), 0))
}

// returned returns how many whole tokens of what was given back may be spent,
// and the most that one take may spend of it. Parts of a token that lie apart
// never pay for one.
func (a *account) returned(expired uint64) (tokens, most uint64) {
	if a.backs.Load() == 0 {
		return 0, 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range a.back {
		_, alive := s.alive(expired)
		tokens += alive / perToken
		most = max(most, alive)
	}
	return tokens, most
}

// tokens returns how many times in a row a token may be spent.
func (a *account) tokens(earned, expired uint64) uint64 {
	back, _ := a.returned(expired)
	return back + a.fresh(earned, expired)/perToken
}

// towards returns how much of cost is there: all of it, or what time adds to.
func (a *account) towards(cost, earned, expired uint64) uint64 {
	if _, most := a.returned(expired); most >= cost {
		return cost
	}
	return min(cost, a.fresh(earned, expired))
}

// take spends cost if keep is left afterwards, and describes it in s.
// The look and the change are one step, so takers together never spend more
// than was earned.
func (a *account) take(s *stretch, cost, keep, earned, expired uint64) bool {
	for {
		used := a.used.Load()
		from := later(used, expired)
		if int64(earned-from) < int64(cost+keep) {
			return false
		}
		if a.used.CompareAndSwap(used, from+cost) {
			s.start, s.end = from, from+cost
			return true
		}
	}
}

// takeBack spends cost of what was given back, if one stretch has that much.
func (a *account) takeBack(s *stretch, cost, expired uint64) bool {
	return a.backs.Load() > 0 && a.takeBackSlow(s, cost, expired)
}

func (a *account) takeBackSlow(s *stretch, cost, expired uint64) (ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	kept := a.back[:0]
	for _, b := range a.back {
		b, alive := b.alive(expired)
		if !ok && alive >= cost {
			s.start, s.end = b.start, b.start+cost
			b.start = s.end
			alive -= cost
			ok = true
		}
		if alive >= perToken { // less never pays for anything again
			kept = append(kept, b)
		}
	}
	a.back = kept
	a.backs.Store(int32(len(kept)))
	return ok
}

// giveBack returns what take or takeBack spent. Neighbours become one, so that
// two tokens given back pay for what costs two. What has expired goes, lest
// hedges, which take nothing of it, pile it up.
func (a *account) giveBack(s stretch, expired uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	kept := a.back[:0]
	for _, b := range a.back {
		b, alive := b.alive(expired)
		switch {
		case alive < perToken:
		case b.end == s.start:
			s.start = b.start
		case b.start == s.end:
			s.end = b.end
		default:
			kept = append(kept, b)
		}
	}
	a.back = append(kept, s)
	a.backs.Store(int32(len(a.back)))
}

// lapse moves used up to expired, and returns by how much.
func (a *account) lapse(expired uint64) uint64 {
	for {
		used := a.used.Load()
		if later(used, expired) == used {
			return 0
		}
		if a.used.CompareAndSwap(used, expired) {
			return expired - used
		}
	}
}

// later returns the one of two cumulative counts that is further on.
func later(a, b uint64) uint64 {
	if int64(a-b) < 0 {
		return b
	}
	return a
}
