package ctxnode

import (
	"sync"
	"time"
)

// An alarm is a timer that serves one node after another: a new one would be two of four
// allocations of a node that ends before its deadline (BenchmarkEnter, within).
type alarm struct {
	timer *time.Timer
	node  *Node // written while the timer is stopped
	again bool  // it may serve another one
}

var alarms sync.Pool // of *alarm, all of them stopped

// setAlarm returns an alarm that calls n.ring when the deadline of n has passed.
func setAlarm(n *Node) *alarm {
	now := time.Now()
	left := n.deadline.Sub(now)
	// In a synctest bubble a timer must be one that was made there, and nobody outside
	// gets it: time read there has no monotonic part.
	bubble := now == now.Round(0)
	if !bubble {
		if a, _ := alarms.Get().(*alarm); a != nil {
			a.node = n
			a.timer.Reset(left)
			return a
		}
	}
	a := &alarm{node: n, again: !bubble}
	a.timer = time.AfterFunc(left, func() { a.node.ring() })
	return a
}

// stop reports whether a will not ring any more. It must not be called again then:
// a is somebody else's.
func (a *alarm) stop() bool {
	if !a.timer.Stop() {
		return false
	}
	if a.again {
		a.node = nil
		alarms.Put(a)
	}
	return true
}
