package latency

import (
	"math"
	"time"
)

// refreshes is how often in a window the answers are worked out anew.
const refreshes = 60

// Never is the hedge delay while there is none to tell: the hedge is not sent.
const Never time.Duration = math.MaxInt64

// answers are what is kept for a while.
type answers struct {
	at                      time.Duration // since start
	typical, timeout, hedge time.Duration
	median                  time.Duration // or what it is at least, where typical is 0
}

// Typical returns the median: how long an attempt takes, and so the least time
// worth starting one with. It is 0 while there are too few attempts to tell, and
// when so many are cut off that the median lies beyond them: were it then what the
// median is at least, who requires it would start nothing that could show that the
// target is well again. It fits retrybudget.Policy.Typical.
func (o *Observed) Typical() time.Duration { return o.current().typical }

// Timeout returns the timeout for the wanted rate of false timeouts. When too
// many attempts are cut off to see that far, it is twice the longest time that
// ten attempts were seen to last, until answers show up or Max is reached: a
// target that became slower than its timeout is found again. While there are too
// few attempts to tell it is Initial, or the same double when that is more.
func (o *Observed) Timeout() time.Duration { return o.current().timeout }

// HedgeDelay returns how long to wait for an attempt before a second one is
// sent beside it, and Never while there are too few attempts to tell. It fits
// race.Config.After.
func (o *Observed) HedgeDelay() time.Duration { return o.current().hedge }

// current returns the answers, worked out anew when they are old. One goroutine
// does that; the others go on with the old ones.
func (o *Observed) current() *answers {
	a := o.latest.Load()
	if a != nil {
		if age := time.Since(o.start) - a.at; age >= 0 && age < o.c.Window/refreshes || !o.mu.TryLock() {
			return a
		}
	} else {
		o.mu.Lock()
		if a = o.latest.Load(); a != nil { // somebody else was first
			o.mu.Unlock()
			return a
		}
	}
	defer o.mu.Unlock()
	return o.answerLocked()
}

func (o *Observed) answerLocked() *answers {
	a := &answers{at: time.Since(o.start), hedge: Never}
	all := &o.scratch
	*all = Snapshot{}
	o.readLocked(all)
	if o.peers != nil && a.at < o.peersEnd {
		all.Add(o.peers)
	}
	var seen bool
	if a.median, seen = all.Quantile(0.5); seen {
		a.typical = a.median
	}
	switch d, known := all.quantile(1 - o.c.FalseTimeouts); known {
	case reached:
		a.timeout = min(d, o.c.Max)
	case beyond:
		a.timeout = min(2*d, o.c.Max)
	case tooFew:
		a.timeout = min(max(2*d, o.c.Initial), o.c.Max)
	}
	// When the quantile lies beyond what is seen, at most the wanted share lasts
	// as long as what is seen, and hedging there costs no more than was wanted.
	if d, _ := all.Quantile(o.c.HedgeAt); d > 0 {
		a.hedge = d
	}
	o.latest.Store(a)
	return a
}
