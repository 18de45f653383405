package ctxnode

// How a node that is no longer needed goes.

// Release tells std children and child nodes that n has ended. It runs without
// Mu: a hundred thousand waiters take tens of milliseconds to wake, and each
// of them needs the lock to end.
func (n *Node) Release() { n.release(false) }

func (n *Node) release(watched bool) {
	if sh := n.std.Load(); sh != nil {
		sh.end()
	}
	if w, ok := n.Owner.(Watcher); ok {
		watched = w.Ended(n.ending.Load(), watched)
	}
	n.Mu.Lock()
	n.silenceLocked()
	children := n.childrenLocked()
	n.Mu.Unlock()
	// They stay in the list until they are closed: what still runs below an
	// ended node is found by walking down from it.
	for _, c := range children {
		c.end(n.ended(), watched) // a child that outlives n learns about n, not about itself
	}
	if n.detached && n.above != nil {
		n.above.resumeAll()
	}
}

// FinishLocked is the first half of Close, for the Owner of n, which holds Mu and
// changes something else in the same step. It is not told of the end. The caller
// must call Finish with the answer after unlocking.
func (n *Node) FinishLocked(e *Ending) Rest {
	var r Rest
	if n.EndLocked(e) {
		if n.std.Load() != nil || n.children != nil || n.detached {
			r = restTell
		}
	} else if n.std.Load() != nil {
		r = restAgain
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
	restTell  Rest = 1 << iota // those who hang below do not know yet
	restAgain                  // they may not know yet
	restWait                   // callbacks may still run
)

// Finish is the second half of Close.
func (n *Node) Finish(r Rest) {
	switch {
	case r&restTell != 0:
		n.release(false)
	case r&restAgain != 0:
		n.std.Load().end()
	}
	n.leave()
	if r&restWait != 0 {
		n.Stop()
		n.quiesce()
	}
}

// Close ends n with e, unless it has ended, takes it from its parent, and waits
// until no callback of it runs any more.
func (n *Node) Close(e *Ending) {
	if !n.End(e) {
		if sh := n.std.Load(); sh != nil {
			sh.end() // whoever ended n may not have got here yet; it does no harm twice
		}
	}
	n.Stop()
	n.quiesce()
}

// Leave is Close for a node whose callbacks nobody has to wait for.
func (n *Node) Leave(e *Ending) {
	n.Mu.Lock()
	r := n.FinishLocked(e)
	n.Mu.Unlock()
	if r&restTell != 0 {
		n.release(false)
	}
	n.leave()
	if r&restWait != 0 {
		n.Stop()
	}
}

// quiesce waits until no callback of n runs.
func (n *Node) quiesce() {
	n.Mu.Lock()
	for n.callbacks > 0 {
		n.Idle.Wait()
	}
	n.Mu.Unlock()
}

// leave takes n from its parent.
func (n *Node) leave() {
	if up := n.up; up != nil {
		up.Mu.Lock()
		if n.linked {
			up.removeLocked(n)
		}
		up.Mu.Unlock()
	}
}

// Stop takes n from its parent and stops its callbacks, without waiting for
// one that runs. It is for a node that has ended.
func (n *Node) Stop() {
	n.leave()
	n.Mu.Lock()
	n.silenceLocked()
	b := n.bridge
	n.bridge = nil
	n.Mu.Unlock()
	if b != nil && b.down() { // not under Mu: see follow
		n.called()
	}
}
