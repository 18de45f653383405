package pooltest

import (
	"time"

	"github.com/curfew-go/curfew/retrybudget"
)

// shared is the pool of one target. Slots are counted from the running one, so that
// the first ends next.
type shared struct {
	epoch   int64
	at      int64          // of the last call, in microseconds
	floor   int64          // micro-tokens
	rest    int64          // millionths of one, towards the floor
	credit  [credits]int64 // by until when it may be lent
	lent    [lents]int64   // of the floor, by until when it counts
	hold    int64          // until when nobody retries
	members map[string]*member
	active  int     // of those, seen within the last second
	seen    []touch // of those, the oldest first; of one member the newest counts
}

type member struct {
	seq    uint64
	seen   int64
	active bool
}

type touch struct {
	who *member
	at  int64
}

// settle brings s up to now.
func (s *shared) settle(r retrybudget.PoolRequest, now int64, g *retrybudget.PoolGrant) {
	for range min(now/creditSlot-s.at/creditSlot, credits) {
		g.Expired += s.credit[0]
		copy(s.credit[:], s.credit[1:])
		s.credit[credits-1] = 0
	}
	if s.floor > r.Burst {
		g.Expired += s.floor - r.Burst
		s.floor = r.Burst
	}
	// The floor fills only where nothing is lent, so it fills up to each instant
	// that ends a slot by itself.
	for slot := s.at/lentSlot + 1; slot <= now/lentSlot && s.lent != [lents]int64{}; slot++ {
		s.fill(r, slot*lentSlot, g)
		copy(s.lent[:], s.lent[1:])
		s.lent[lents-1] = 0
	}
	s.fill(r, now, g)
}

// fill adds what the floor gains until now.
func (s *shared) fill(r retrybudget.PoolRequest, now int64, g *retrybudget.PoolGrant) {
	room, past := r.Burst-s.floor, now-s.at
	for _, n := range s.lent {
		room -= n
	}
	room = max(room, 0)
	// Whole seconds apart, and tokens from their millionths: each product stays
	// below 2⁵³, which is what a script in Redis can count to.
	gained := room
	if r.PerSecond == 0 || past/second <= room/max(r.PerSecond, 1) {
		part := past%second*(r.PerSecond%perToken) + s.rest
		gained = past/second*r.PerSecond + past%second*(r.PerSecond/perToken) + part/second
		s.rest = part % second
	}
	if gained >= room {
		gained, s.rest = room, 0
	}
	s.floor += gained
	g.Accrued += gained
	s.at = now
}

// put takes over what r gives, when it is of this epoch and not too old.
func (s *shared) put(r retrybudget.PoolRequest, g *retrybudget.PoolGrant) {
	if r.Hold > 0 {
		s.hold = max(s.hold, s.at+r.Hold.Microseconds())
	}
	slot := min((r.Expires-lease)/creditSlot-s.at/creditSlot-1, credits-1)
	if r.Epoch != s.epoch || r.Expires < lease || slot < 0 {
		g.Expired += r.Donate
	} else {
		s.credit[slot] += r.Donate
		if over := s.credit[slot] - maxSlot; over > 0 {
			s.credit[slot] -= over
			g.Expired += over
		}
	}
	slot = r.Lent - s.at/lentSlot - 1
	if r.Epoch != s.epoch || slot < 0 || slot >= lents || s.lent[slot] < r.Return {
		g.Expired += r.Return
		return
	}
	s.lent[slot] -= r.Return
	s.floor += r.Return
}

// places returns how many slots what is lent of the floor keeps its place for: so
// few that the rate can be lent in full out of half of the burst.
func places(r retrybudget.PoolRequest) int64 {
	if r.PerSecond == 0 {
		return lents
	}
	return min(max(second/lentSlot/2*r.Burst/r.PerSecond, 2), lents)
}

// lend takes a lease out of s.
func (s *shared) lend(r retrybudget.PoolRequest, g *retrybudget.PoolGrant) {
	balance := s.balance()
	lent := min(r.Want, balance, max(minLease, 2*balance/int64(g.Members)))
	lent -= lent % perToken
	if lent == 0 {
		return
	}
	n := places(r)
	g.Granted = lent
	g.Life = time.Duration(lease*(n-1)/(lents-1)) * time.Microsecond
	for i := range s.credit {
		part := min(lent, s.credit[i])
		if part > 0 && g.Expires == 0 {
			g.Expires = (s.at/creditSlot+int64(i)+1)*creditSlot + lease
		}
		s.credit[i] -= part
		lent -= part
	}
	if lent > 0 {
		g.Floor, g.Lent = lent, s.at/lentSlot+n
		s.floor -= lent
		s.lent[n-1] += lent
	}
}

func (s *shared) balance() int64 {
	sum := s.floor
	for _, n := range s.credit {
		sum += n
	}
	return sum
}

// touch notes that who was seen, or leaves.
func (s *shared) touch(who *member, stays bool) {
	who.seen = s.at
	if who.active != stays {
		who.active = stays
		if stays {
			s.active++
		} else {
			s.active--
		}
	}
	if stays {
		s.seen = append(s.seen, touch{who, s.at})
	}
}

// activeNow returns how many members asked within the last second. Counting them
// anew each time would make a simulation of many members take the square of that.
func (s *shared) activeNow() int {
	for len(s.seen) > 0 && s.seen[0].at < s.at-second {
		if old := s.seen[0]; old.who.active && old.who.seen == old.at {
			old.who.active = false
			s.active--
		}
		s.seen = s.seen[1:]
	}
	return s.active
}

// forget makes room for a member, and reports whether it could.
func (s *shared) forget(now int64) bool {
	before := len(s.members)
	for name, m := range s.members {
		if m.seen < now-forget {
			delete(s.members, name)
		}
	}
	return len(s.members) < before
}
