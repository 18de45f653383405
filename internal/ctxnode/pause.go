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
		if n.pause == nil {
			n.pause = &stopwatch{}
		}
		if n.pause.open == 0 {
			n.pause.since = now
		}
		n.pause.open++
		n.Mu.Unlock()
	}
}

// resumeAll undoes one pauseAll.
func (v *View) resumeAll() {
	now := time.Now()
	for ; v != nil; v = v.node.above {
		n := v.node
		n.Mu.Lock()
		n.pause.open--
		if n.pause.open == 0 {
			n.pause.sum += now.Sub(n.pause.since)
		}
		n.Mu.Unlock()
	}
}

// PausedLocked returns for how long, up to now, detached blocks were open below
// n: work that is shielded on purpose and has a bound of its own, so that a
// clock that waits for n's owner to unwind does not count it. The caller holds
// n.Mu.
func (n *Node) PausedLocked(now time.Time) time.Duration {
	switch {
	case n.pause == nil:
		return 0
	case n.pause.open > 0:
		return n.pause.sum + now.Sub(n.pause.since)
	}
	return n.pause.sum
}
