package ctxnode

import "time"

// A stopwatch sums the time during which at least one bounded block that must
// not be cut short, a Detached block or a cleanup, was open below a node.
type stopwatch struct {
	open  int
	since time.Time // when open became positive
	sum   time.Duration
}

// pauseAll starts the stopwatch of v's node and of all nodes above it.
func (v *View) pauseAll() {
	now := time.Now()
	for ; v != nil; v = v.node.above {
		n := v.node
		n.Mu.Lock()
		w := &n.ownLocked().pause
		if w.open == 0 {
			w.since = now
		}
		w.open++
		n.Mu.Unlock()
	}
}

// resumeAll undoes one pauseAll.
func (v *View) resumeAll() {
	now := time.Now()
	for ; v != nil; v = v.node.above {
		n := v.node
		n.Mu.Lock()
		w := &n.seldom.pause
		w.open--
		if w.open == 0 {
			w.sum += now.Sub(w.since)
		}
		n.Mu.Unlock()
	}
}

// PausedLocked returns for how long, up to now, detached blocks were open below
// n: work that is shielded on purpose and has a bound of its own, so that a
// clock that waits for n's owner to unwind does not count it. The caller holds
// n.Mu.
func (n *Node) PausedLocked(now time.Time) time.Duration {
	if n.seldom == nil {
		return 0
	}
	w := &n.seldom.pause
	if w.open > 0 {
		return w.sum + now.Sub(w.since)
	}
	return w.sum
}
