package ctxnode

import (
	"context"
	"time"
)

// How a node begins, and below whom it hangs.

// Start begins the life of n with the values of parent, a deadline (zero for
// none) and, unless detached, the end of parent. When arm is set the node ends
// itself at the deadline; otherwise the parent's own end at the same instant
// is relied on. A parent that has ended ends n at once.
func (n *Node) Start(parent context.Context, deadline time.Time, arm bool) {
	n.StartAt(time.Time{}, parent, deadline, arm)
}

// StartAt is Start for a caller that has just looked at the clock: now is what it
// read, on this goroutine, or zero when it did not.
func (n *Node) StartAt(now time.Time, parent context.Context, deadline time.Time, arm bool) {
	n.start(parent, deadline)
	var up *Node // the node whose end is that of parent
	if v := n.above; v != nil {
		// Attach directly only where the ancestor's end is the parent's end:
		// WithoutCancel and std children keep our values, but not our end.
		if _, own := direct(parent); own || parent.Done() != nil && v.Done() == parent.Done() {
			up = v.node
		}
	}
	follow := false
	switch {
	case up != nil && n.how&under == 0:
		n.up = up
	case up != nil: // a node has one place in the tree
		follow = n.up != up
	case n.Lazy && n.how&under == 0:
		n.how |= follows
		n.flag.Store(deaf)
		arm = !deadline.IsZero() // also when it is parent's, which may not be heard
	case parent.Done() == nil:
		// A parent that never ends does not bring about a deadline either.
		_, bounded := parent.Deadline()
		arm = arm || bounded
	default:
		follow = true
	}
	// From here on others find n, and read how it hangs.
	if follow {
		n.how |= follows
	}
	if arm {
		n.how |= armed
	}
	if n.up != nil {
		n.adopted()
	}
	if follow {
		n.follow(parent)
	}
	switch {
	case arm && n.up == nil && !follow:
		n.armAlone(now)
	case arm:
		n.arm(now)
	}
}

// Adopt begins the life of n with the values, the end and the deadline of parent, and
// reports whether it did: it does not when parent has no deadline, when that has passed,
// seen from now, or from the present when now is zero, and when parent has ended.
func (n *Node) Adopt(parent context.Context, now time.Time) bool {
	// To ask how long it is until an instant costs half of asking what time it is.
	// In a synctest bubble the two clocks have nothing to do with each other, and
	// a deadline of the outside lies in the past: what is below looks again.
	deadline, ok := parent.Deadline()
	if !ok || deadline == deadline.Round(0) || timeUntil(deadline, now) <= 0 || parent.Err() != nil {
		return false
	}
	if v, ok := direct(parent); ok { // Start, where there is nothing to find out
		n.node, n.parent, n.deadline, n.above, n.up = n, parent, deadline, v, v.node
		n.adopted()
		return true
	}
	n.Start(parent, deadline, false)
	return true
}

// timeUntil returns how long it is from now, or with a zero now from the present, to t.
func timeUntil(t, now time.Time) time.Duration {
	if now.IsZero() {
		return time.Until(t)
	}
	return t.Sub(now)
}

// StartBeside begins the life of n with the values of parent, and with a deadline
// (zero for none) that it reports and does not end at: whoever started it ends it.
func (n *Node) StartBeside(parent context.Context, deadline time.Time) {
	n.start(parent, deadline)
}

// StartDetached begins the life of n with the values of parent alone: neither
// the end nor the deadline of parent reaches it. The clocks of all nodes above
// stand still while it lives (see Paused).
func (n *Node) StartDetached(parent context.Context, deadline time.Time) {
	n.start(parent, deadline)
	n.how |= detached | armed
	if n.above != nil {
		n.above.pauseAll()
	}
	n.armAlone(time.Time{})
}

// PutUnder makes the end of up end n, beside that of its parent context. It is for a
// node that has not been started.
func (n *Node) PutUnder(up *Node) {
	n.up = up
	n.how |= under
}

// Under returns what PutUnder was called with, nil when it was not called.
func (n *Node) Under() *Node {
	if n.how&under == 0 {
		return nil
	}
	return n.up
}

// StartEnded begins and ends the life of n at once, with the values of parent.
func (n *Node) StartEnded(parent context.Context, deadline time.Time, e *Ending) {
	n.start(parent, deadline)
	n.End(e)
}

func (n *Node) start(parent context.Context, deadline time.Time) {
	if parent == nil {
		panic("curfew: nil context")
	}
	n.node = n
	n.parent = parent
	n.deadline = deadline
	n.above = Find(parent)
}

// adopted links n below up; an up that has ended ends n at once.
func (n *Node) adopted() {
	up := n.up
	up.listen()
	up.Mu.Lock()
	e := up.ending.Load()
	if e == nil {
		n.next = up.children
		if n.next != nil {
			n.next.prev = n
		}
		up.children = n
	}
	up.Mu.Unlock()
	if e != nil {
		n.End(up.ended())
	}
}
