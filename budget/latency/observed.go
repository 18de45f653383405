package latency

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/curfew-go/curfew/budget"
)

// An Observed is what a caller has seen of one target: record every attempt,
// then ask. All methods may be called by any number of goroutines. It holds
// about 110 KB, so have one for each target and operation, not for each user.
// Make one with New.
//
// The answers (Typical, Timeout, HedgeDelay) are worked out when asked for and
// kept for a sixtieth of the window; a Snapshot is always fresh.
type Observed struct {
	c      Config
	slice  time.Duration
	start  time.Time
	ring   [slices]slice
	latest atomic.Pointer[answers]

	mu       sync.Mutex // for turning a slice and reading all; never held while waiting
	scratch  Snapshot   // guarded by mu
	peers    *Snapshot  // guarded by mu; nil when there are none
	peersEnd time.Duration
}

// New returns an Observed that has seen nothing. It panics when a field of c is
// outside of what Config says.
func New(c Config) *Observed {
	c.complete()
	return &Observed{c: c, slice: max(c.Window/slices, 1), start: time.Now()}
}

// Record counts one attempt that took so long and ended with err, by
// budget.KindOf(err). nil is an answer. What ended by a deadline, a timeout or a
// cancel was cut off. What was refused before it began is left out. Any other
// failure is left out when it came sooner than the median, or than what the median
// is at least, also while there is none to tell, and was cut off otherwise.
//
// It costs under 60 ns besides reading the clock, up to 100 ns while all other
// processors count the same latency at the same time. It allocates nothing, but
// for an error that wraps another and no *budget.Cause, which budget.KindOf
// searches (BenchmarkRecord).
func (o *Observed) Record(took time.Duration, err error) {
	if err == nil {
		o.live().answered[bucketOf(took)].Add(1)
		return
	}
	switch kind := kindOf(err); kind {
	case budget.DeadlineExceeded, budget.DependencyTimeout:
		s := o.live()
		s.cutOff[bucketOf(took)].Add(1)
		s.timedOut.Add(1)
	case budget.ExpiredOnArrival, budget.LocalBudgetRejected:
		o.live().leftOut.Add(1)
	default:
		if kind.Sentinel() == nil {
			if median := o.current().median; median == 0 || took < median {
				o.live().leftOut.Add(1)
				return
			}
		}
		o.CutOff(took)
	}
}

// kindOf is budget.KindOf, at less cost for the errors that cut-off attempts
// mostly end with.
func kindOf(err error) budget.Kind {
	switch err {
	case context.DeadlineExceeded:
		return budget.DeadlineExceeded
	case context.Canceled:
		return budget.Cancelled
	}
	if c, ok := errors.AsType[*budget.Cause](err); ok && c != nil && c.Kind != budget.Failed {
		return c.Kind // also of a *url.Error: what net/http returns holds the cause of the context
	}
	return budget.KindOf(err)
}

// CutOff counts one attempt that was cut off after so long by something other
// than its timeout. Record finds most of these by itself; what it cannot see is
// that a deadline was the caller's own, and shorter than the timeout.
func (o *Observed) CutOff(took time.Duration) {
	o.live().cutOff[bucketOf(took)].Add(1)
}

// FalseTimeouts returns the wanted share of false timeouts and the one that this
// process has seen in the window, as Snapshot.FalseTimeouts counts it.
func (o *Observed) FalseTimeouts() (wanted, seen float64) {
	return o.c.FalseTimeouts, o.Snapshot().FalseTimeouts()
}

// Snapshot returns what the window holds now, of this process alone.
func (o *Observed) Snapshot() *Snapshot {
	s := new(Snapshot)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.readLocked(s)
	return s
}

// SetPeers makes the answers count what other processes have seen beside what
// this one has. It replaces what an earlier SetPeers gave, and is forgotten
// after one Window. Each snapshot must be of another process and all from the
// present; they are not kept. Without any it forgets the peers at once.
func (o *Observed) SetPeers(snapshots ...*Snapshot) {
	var sum *Snapshot
	if len(snapshots) > 0 {
		sum = new(Snapshot)
		for _, s := range snapshots {
			sum.Add(s)
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.peers, o.peersEnd = sum, time.Since(o.start)+o.c.Window
	o.latest.Store(nil)
}
