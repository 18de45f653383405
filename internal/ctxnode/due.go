package ctxnode

import (
	"context"
	"sync"
	"time"
)

// How the word of a deadline, or of a parent's end, reaches a node: by a timer,
// by a bridge to a parent that is no node, or by looking when neither has come.

// arm starts the timer of the node's own deadline. now is what the clock says, zero
// when nobody has just looked.
func (n *Node) arm(now time.Time) {
	n.Mu.Lock()
	defer n.Mu.Unlock()
	if n.ending.Load() != nil {
		return
	}
	n.armAlone(now)
}

// armAlone is arm for a node that nobody else knows yet, or whose lock the caller holds.
// What it writes comes before the alarm: the state of that is all that orders the two.
func (n *Node) armAlone(now time.Time) {
	n.callbacks++
	setAlarm(&n.alarm, now, n.deadline, (*ringing)(n))
}

// A ringing is a node as its alarm sees it.
type ringing Node

// Ring is part of Ringer.
func (r *ringing) Ring() {
	n := (*Node)(r)
	n.expire()
	if n.Owner == nil && n.how&under == 0 {
		// A budget's context that expired needs no cancel to be forgotten, as
		// with std. A scope's or a task's is found below its parent while it runs.
		n.Stop()
	}
	n.called()
}

// silenceLocked stops the alarm. The caller holds Mu.
func (n *Node) silenceLocked() {
	if n.alarm != nil && n.alarm.Stop() {
		n.callbacks--
	}
	n.alarm = nil
}

// Disarm stops the alarm of n's deadline. Whoever calls it ends n in time, by
// ExpireIfDue, or calls Rearm: many that wait for one thing can do with one timer.
func (n *Node) Disarm() {
	n.Mu.Lock()
	defer n.Mu.Unlock()
	n.silenceLocked()
}

// Rearm undoes Disarm.
func (n *Node) Rearm() {
	if n.how&armed != 0 {
		n.arm(time.Time{})
	}
}

// follow ends n when parent, which is not a node, ends.
func (n *Node) follow(parent context.Context) {
	n.Mu.Lock()
	n.callbacks++
	n.Mu.Unlock()
	b, _ := bridges.Get().(*bridge)
	if b == nil {
		b = &bridge{}
		b.told = b.parentEnded
	}
	b.node, b.parent = n, parent
	// Not under Mu: parent's methods are not ours.
	b.stop = context.AfterFunc(parent, b.told)
	n.Mu.Lock()
	n.bridge = b
	n.Mu.Unlock()
}

// A bridge waits for the end of a parent that is not a node. It serves one node after
// another, as an alarm does.
type bridge struct {
	node   *Node
	parent context.Context
	told   func()      // parentEnded
	stop   func() bool // only while it stands
}

var bridges sync.Pool // of *bridge

func (b *bridge) parentEnded() {
	b.node.End(&Ending{Cause: Hooks.Foreign(b.node, b.parent), Err: b.parent.Err(), At: time.Now()})
	b.node.called()
}

// down takes b down and reports whether parentEnded will not be called. It must not be
// called again then: b is somebody else's.
func (b *bridge) down() bool {
	if !b.stop() {
		return false
	}
	b.node, b.parent, b.stop = nil, nil, nil
	bridges.Put(b)
	return true
}

// listen makes a Lazy node follow its parent, which costs more than all else about
// a node that serves one short request and asks for nothing. Until somebody needs to
// be told, Err looks at the parent itself.
func (n *Node) listen() {
	if n.flag.Load() == deaf && n.flag.CompareAndSwap(deaf, 0) {
		n.follow(n.parent)
	}
}

// look ends a node that does not listen when its parent has ended.
func (n *Node) look() {
	if err := n.parent.Err(); err != nil && n.ending.Load() == nil {
		n.End(&Ending{Cause: Hooks.Foreign(n, n.parent), Err: err, At: time.Now()})
	}
}

// called notes that a timer or bridge callback of n has run.
func (n *Node) called() {
	n.Mu.Lock()
	n.callbacks--
	n.Idle.Wake()
	n.Mu.Unlock()
}

// expire ends n because its own deadline passed.
func (n *Node) expire() {
	if n.ending.Load() != nil {
		return
	}
	n.End(&Ending{Cause: Hooks.Expired(n), Err: context.DeadlineExceeded, At: n.deadline})
}

// ExpireIfDue ends n, or the ancestor whose deadline n shares, when the clock
// says that the deadline has passed although its timer has not fired: timers
// are late on a busy machine, and an error that work brings back after the
// deadline must not be taken for what ended it.
func (n *Node) ExpireIfDue() {
	if !n.deadline.IsZero() && n.ending.Load() == nil && time.Until(n.deadline) <= 0 {
		n.due()
	}
}

// due ends n, whose deadline has passed.
func (n *Node) due() {
	for a := n; a != nil; a = a.up {
		if a.how&armed != 0 && !a.deadline.After(n.deadline) {
			a.expire()
			return
		}
	}
	// The deadline is that of a parent which is no node: it ended, or is about
	// to. Where it has it from a node of ours, that one tells.
	for v := n.above; v != nil && v.node.how&detached == 0; v = v.node.above {
		if v.node.how&armed != 0 && v.node.deadline.Equal(n.deadline) {
			v.node.expire()
			break
		}
	}
	if err := n.parent.Err(); err != nil {
		n.End(&Ending{Cause: Hooks.Foreign(n, n.parent), Err: err, At: time.Now()})
		return
	}
	n.expire()
}

// CatchUp ends n when it is due although nobody has told it yet: its deadline
// has passed, but the timer is late, or something above has ended, and the word
// is on its way. What the end of another context makes work return must not be
// taken for what ended n.
func (n *Node) CatchUp() {
	n.ExpireIfDue()
	n.hear()
}

// CatchUpAt is CatchUp for a caller that has just looked at the clock: now is what it
// read.
func (n *Node) CatchUpAt(now time.Time) {
	if !n.deadline.IsZero() && n.ending.Load() == nil && !n.deadline.After(now) {
		n.due()
	}
	n.hear()
}

// hear ends n when something above has ended.
func (n *Node) hear() {
	for n.ending.Load() == nil {
		below, e := n.nearestEnd()
		if e == nil {
			return
		}
		below.End(e) // and with it all down to n, but for a race with another end
	}
}

// nearestEnd returns the nearest end above n that has not reached it, and the
// node right below it.
func (n *Node) nearestEnd() (below *Node, e *Ending) {
	for a := n; ; a = a.up {
		if a.how&follows != 0 {
			if err := a.parent.Err(); err != nil {
				return a, &Ending{Cause: Hooks.Foreign(a, a.parent), Err: err, At: time.Now()}
			}
		}
		if a.up == nil {
			return nil, nil
		}
		if e := a.up.ended(); e != nil {
			return a, e
		}
	}
}
