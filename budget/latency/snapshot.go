package latency

import (
	"fmt"
	"time"
)

// A Snapshot is what one or more processes have seen of a target in a window.
// The zero Snapshot is empty and ready to use. Goroutines may share it while
// nobody calls Add or UnmarshalBinary.
type Snapshot struct {
	answered, cutOff  [buckets]uint64
	timedOut, leftOut uint64
}

// Stats are the numbers of a Snapshot, each of attempts.
type Stats struct {
	Answered uint64 // answers
	CutOff   uint64 // cut off, also by the timeout
	TimedOut uint64 // cut off by a deadline or a timeout, as far as Record could see
	LeftOut  uint64 // fast failures, and what was refused before it began
}

// Add adds what other has seen to s. Add the snapshot of each process once, and
// only of the present: each is of a whole window.
func (s *Snapshot) Add(other *Snapshot) {
	for i := range s.answered {
		add(&s.answered[i], other.answered[i])
		add(&s.cutOff[i], other.cutOff[i])
	}
	add(&s.timedOut, other.timedOut)
	add(&s.leftOut, other.leftOut)
}

// maxCount bounds every count of a Snapshot, so that no sum of them overflows,
// whatever a peer sends.
const maxCount = 1 << 48

func add(sum *uint64, n uint64) { *sum = min(*sum+n, maxCount) }

// Stats returns the numbers of s.
func (s *Snapshot) Stats() Stats {
	st := Stats{TimedOut: s.timedOut, LeftOut: s.leftOut}
	for i := range s.answered {
		st.Answered += s.answered[i]
		st.CutOff += s.cutOff[i]
	}
	return st
}

// FalseTimeouts returns the share of false timeouts that was seen: attempts that
// timed out among those that were answered or timed out. It stands beside the
// wanted one, Config.FalseTimeouts, and is an upper bound: which of these
// attempts would have been answered cannot be known, and those that the
// caller's own deadline cut short are among them unless they were recorded with
// CutOff. It is 0 for an empty Snapshot.
func (s *Snapshot) FalseTimeouts() float64 {
	st := s.Stats()
	if st.TimedOut == 0 {
		return 0
	}
	return float64(st.TimedOut) / float64(st.TimedOut+st.Answered)
}

// String returns the numbers, the median and the tail in one line.
func (s *Snapshot) String() string {
	st := s.Stats()
	text := fmt.Sprintf("%d answered, %d cut off, %d timed out (%.3g%%), %d left out", st.Answered, st.CutOff, st.TimedOut, 100*s.FalseTimeouts(), st.LeftOut)
	for _, q := range [...]struct {
		name string
		q    float64
	}{{"p50", 0.5}, {"p99", 0.99}, {"p99.9", 0.999}} {
		switch d, known := s.quantile(q.q); known {
		case reached:
			text += fmt.Sprintf(", %s %v", q.name, round(d))
		case beyond:
			text += fmt.Sprintf(", %s over %v", q.name, round(d))
		}
	}
	return text
}

// round cuts d to three digits, which is more than a bucket can tell.
func round(d time.Duration) time.Duration {
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit)
}
