package wire

import (
	"math"
	"time"
)

// A Slush is the time that one hop keeps back from what it passes on, for its
// own work and for both ways: a share of what is left, within bounds. It is
// taken once per hop, by the sender. The zero Slush is 5%, at least 2 ms and at
// most 50 ms; in any other a zero Cap is none.
//
// A Share is between 0 and 1; Floor and Cap are durations of real time. A hop that
// wants none sets a Floor of a nanosecond.
type Slush struct {
	Share      float64
	Floor, Cap time.Duration
}

// Of returns how much of left is kept back. It is never negative, so that the
// peer never gets more than there is, and may be more than left.
func (s Slush) Of(left time.Duration) time.Duration {
	if s == (Slush{}) {
		s = Slush{Share: 0.05, Floor: 2 * time.Millisecond, Cap: 50 * time.Millisecond}
	}
	most := s.Cap
	if most == 0 {
		most = math.MaxInt64
	}
	kept := s.Floor
	switch share := s.Share * float64(left); { // which may be beyond what a Duration can say
	case share >= float64(most):
		kept = most
	case share > float64(kept):
		kept = time.Duration(share)
	}
	return max(min(kept, most), 0)
}
