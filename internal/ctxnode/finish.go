package ctxnode

// How a node that is no longer needed goes.

// Release tells std children and child nodes that n has ended. It runs without
// Mu: a hundred thousand waiters take tens of milliseconds to wake, and each
// of them needs the lock to end.
func (n *Node) Release() { n.release(n.ending.Load(), false) }

// release tells the Owner that n has ended with e, unless e is nil.
//
// A task that fails calls it, on a goroutine whose stack is small: what tells others needs
// little room here, and nobody waits for a stack that grows.
func (n *Node) release(e *Ending, watched bool) {
	n.EndStd()
	if w, ok := n.Owner.(Watcher); ok && e != nil {
		watched = w.Ended(e, watched)
	}
	n.EndBelow(watched)
}

// EndStd, and EndBelow unless LeafLocked says that it is not needed, are Release for an
// Owner that need not be told.
func (n *Node) EndStd() {
	if sh := n.std.Load(); sh != nil {
		sh.end()
	}
}

// LeafLocked reports whether nothing hangs below n, which has ended, so that EndBelow
// has nothing to do.
func (n *Node) LeafLocked() bool {
	n.silenceLocked()
	return n.children == nil && n.how&detached == 0
}

// EndBelow ends the children of n, which has ended.
//
//go:noinline
func (n *Node) EndBelow(watched bool) {
	n.Mu.Lock()
	n.silenceLocked()
	children := n.unlinkedLocked()
	n.Mu.Unlock()
	for _, c := range children {
		c.end(n.ended(), watched) // a child that outlives n learns about n, not about itself
	}
	if n.how&detached != 0 && n.above != nil {
		n.above.resumeAll()
	}
}

// unlinkedLocked takes all from the list of n, which has ended, and keeps them where they
// are found until they are closed: by walking down from an ended node one learns what
// still runs below it.
func (n *Node) unlinkedLocked() []*Node {
	if n.children == nil {
		return nil
	}
	few := 0 // how many there are, of very many some: to walk along them twice costs more
	for c := n.children; c != nil && few < 64; c = c.next {
		few++
	}
	told := make([]*Node, 0, few)
	for c := n.children; c != nil; {
		next := c.next
		c.prev, c.next = nil, nil
		told = appendOpen(told, c)
		c = next
	}
	n.children = nil
	if n.Owner != nil || n.flag.Load() != closed {
		n.ownLocked().told = told
	}
	return told
}

// FinishLocked is the first half of Close, for the Owner of n, which holds Mu and
// changes something else in the same step. It is not told of the end. The caller
// must call Finish with the answer after unlocking.
func (n *Node) FinishLocked(e *Ending) Rest {
	var r Rest
	first := n.endLocked(e, closed)
	if !first {
		n.flag.Store(closed)
		if n.seldom != nil {
			n.forgetLocked()
		}
	}
	if first && (n.children != nil || n.how&detached != 0) {
		r = restTell
	} else if n.std.Load() != nil {
		r = restStd
	}
	n.silenceLocked()
	if n.callbacks > 0 || n.bridge != nil {
		r |= restWait
	}
	return r
}

// Rest is what FinishLocked leaves to be done. Mostly it is nothing: nobody has
// asked for Done, and no timer is on its way.
type Rest uint8

const (
	restTell Rest = 1 << iota // those who hang below do not know yet
	restStd                   // only those who hang below the std context may not
	restWait                  // callbacks may still run
)

// Finish is the second half of Close.
//
// A task whose scope has asked for Done comes by here with a small stack: see tell.
func (n *Node) Finish(r Rest) {
	n.tell(r)
	n.leave()
	if r&restWait != 0 {
		n.Stop()
		n.quiesce()
	}
}

// FinishUnder is Finish for a caller that does something else under the Mu of up right
// after. When it answers true n still stands in the list of up: see RemoveLocked.
func (n *Node) FinishUnder(up *Node, r Rest) (linked bool) {
	if n.up != up || r&restWait != 0 {
		n.Finish(r)
		return false
	}
	n.tell(r)
	return true
}

func (n *Node) tell(r Rest) {
	switch {
	case r&restTell != 0:
		n.release(nil, false)
	case r&restStd != 0:
		if sh := n.std.Load(); !sh.closed() {
			sh.end() // whoever ended n has not got there yet: it does no harm twice
		}
	}
}

// part is Finish for who has no use for the end of callbacks.
func (n *Node) part(r Rest) {
	n.tell(r)
	n.leave()
	if r&restWait != 0 {
		n.Stop()
	}
}

// Close ends n with e, unless it has ended, takes it from its parent, and waits
// until no callback of it runs any more. The Owner is not told: it closes n.
func (n *Node) Close(e *Ending) {
	n.Mu.Lock()
	r := n.FinishLocked(e)
	n.Mu.Unlock()
	n.Finish(r)
}

// Leave is Close for a node whose callbacks nobody has to wait for.
func (n *Node) Leave(e *Ending) {
	n.Mu.Lock()
	r := n.FinishLocked(e)
	n.Mu.Unlock()
	n.part(r)
}

// quiesce waits until no callback of n runs.
func (n *Node) quiesce() {
	n.Mu.Lock()
	for n.callbacks > 0 {
		n.Idle.Wait(&n.Mu)
	}
	n.Mu.Unlock()
}

// leave takes n from its parent, unless that has ended: very many may leave it at once,
// and each would come for its lock. By then it is enough that n is closed.
func (n *Node) leave() {
	up := n.up
	if up == nil || up.flag.Load() >= Flagged {
		return
	}
	up.Mu.Lock()
	up.RemoveLocked(n)
	up.Mu.Unlock()
}

// forgetLocked lets go of those who hung below n at its end and are closed: whoever
// keeps one of them, such as a transport its context, must not keep all the others. Of a
// node without an Owner it lets go of all, which nobody looks for: whoever walks down
// goes by what is closed, and nobody begins at such a node. The caller holds Mu, and
// closes n.
//
//go:noinline
func (n *Node) forgetLocked() {
	var open []*Node // not in place: they may be about to be told
	if n.Owner != nil {
		for _, c := range n.seldom.told {
			open = appendOpen(open, c)
		}
	}
	n.seldom.told = open
}

// Stop takes n from its parent and stops its callbacks, without waiting for
// one that runs. It is for a node that has ended.
func (n *Node) Stop() {
	n.Mu.Lock()
	n.flag.Store(closed) // here, since who ends n says so under the lock
	n.silenceLocked()
	if n.seldom != nil {
		n.forgetLocked()
	}
	b := n.bridge
	n.bridge = nil
	n.Mu.Unlock()
	n.leave()
	if b != nil && b.down() { // not under Mu: see follow
		n.called()
	}
}
