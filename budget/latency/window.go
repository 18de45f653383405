package latency

import (
	"sync/atomic"
	"time"
)

// slices is how many slices a window has: the live one and five full ones.
const slices = 6

// A slice is a part of the window. Its counts are of its epoch, the number of
// the slice since start. 32 bits hold 4 thousand million attempts of equal
// latency in a sixth of an hour.
type slice struct {
	epoch             atomic.Int64
	timedOut, leftOut atomic.Uint64
	answered, cutOff  [buckets]atomic.Uint32
}

// live returns the slice that attempts count in now.
func (o *Observed) live() *slice {
	epoch := o.epochAt(time.Since(o.start))
	if s := &o.ring[index(epoch)]; s.epoch.Load() == epoch {
		return s
	}
	return o.turn()
}

// turn empties the slice of now, when it is still of a former epoch, and returns
// it. It reads the clock anew: a goroutine that stood still for a window on its way
// here would empty for its old epoch what others have counted since.
//
// An attempt whose goroutine stood still for a whole window between live and
// counting lands in a slice that is not its own. A lock around each count would
// prevent it, and cost more than the count.
func (o *Observed) turn() *slice {
	o.mu.Lock()
	defer o.mu.Unlock()
	epoch := o.epochAt(time.Since(o.start))
	s := &o.ring[index(epoch)]
	if s.epoch.Load() == epoch {
		return s
	}
	s.timedOut.Store(0)
	s.leftOut.Store(0)
	for i := range s.answered {
		s.answered[i].Store(0)
		s.cutOff[i].Store(0)
	}
	s.epoch.Store(epoch)
	return s
}

// readLocked adds to sum what the window holds.
func (o *Observed) readLocked(sum *Snapshot) {
	epoch := o.epochAt(time.Since(o.start))
	for i := range o.ring {
		s := &o.ring[i]
		if age := epoch - s.epoch.Load(); age < 0 || age >= slices {
			continue
		}
		sum.timedOut += s.timedOut.Load()
		sum.leftOut += s.leftOut.Load()
		for b := range s.answered {
			sum.answered[b] += uint64(s.answered[b].Load())
			sum.cutOff[b] += uint64(s.cutOff[b].Load())
		}
	}
}

// epochAt returns the number of the slice at so long since start. It is negative
// for an Observed made outside of a test's bubble and used inside, where the
// clock starts in the year 2000.
func (o *Observed) epochAt(since time.Duration) int64 { return int64(since / o.slice) }

// index returns the place of an epoch in the ring.
func index(epoch int64) int64 {
	return (epoch%slices + slices) % slices
}
