// Package ctxnode holds the one context type behind every curfew scope, task
// and budget: a Node has a lifetime, a View is a context.Context onto it.
//
// A Node moves one way:
//
//	alive ──EndLocked──▶ ended ──Release──▶ told (its std children and its own children know)
//	  └───────────────────────Close: no callback of it runs any more
//
// The standard library looks a context's cancellation up by a private key, and
// only a real std cancel context answers it. A custom type that merely has
// Done, Err and AfterFunc loses the cause, and costs a goroutine for every std
// child behind a context.WithValue. A Node therefore owns one real std cancel
// context. It is made when somebody first asks for Done, or for the std key
// through Value, and hangs under a private shim that std asks for the error
// and the cause when the node ends. A node nobody asks costs one allocation.
//
// Nodes of ours are linked to each other directly: no std context, no
// goroutine and no lock of the standard library stands between them.
package ctxnode

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// An Ending says how a node ended. It is made once and shared by every node
// that the same event ends, so all of them answer the same cause.
type Ending struct {
	Cause error     // what context.Cause answers; unused when For is set
	Err   error     // context.Canceled or context.DeadlineExceeded
	At    time.Time // when it happened; zero when nobody is to know
	// For, when set, makes the cause for one node on demand, so that an end
	// nobody asks about, such as that of work that went well, allocates nothing.
	For func(n *Node) error
	// Nameless, when set, is what For would make of a node without a path.
	Nameless *Ending

	once sync.Once
	ctx  context.Context
}

// carrier returns a cancelled std context that carries the cause under std's
// private key.
func (e *Ending) carrier() context.Context {
	e.once.Do(func() {
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(e.Cause)
		e.ctx = ctx
	})
	return e.ctx
}

// Hooks are the parts of package budget that a node needs, which it cannot
// import: budget stands a floor above. Package budget sets them once, in init.
var Hooks struct {
	// Enter resolves limit (a *budget.Limit) against parent, from now on, which is
	// the present when it is zero, and starts n on the resulting work deadline.
	// After an error n was not started.
	Enter func(n *Node, parent context.Context, limit any, now time.Time) error
	// CleanupTime returns what the limit of n keeps for cleanups, 0 for nothing.
	CleanupTime func(n *Node) time.Duration
	// Expired returns the cause of a node whose own deadline passed.
	Expired func(n *Node) error
	// Foreign returns the cause of a node whose parent, not a node, ended.
	Foreign func(n *Node, parent context.Context) error
}

// A Watcher is an Owner that is told when its node has ended. watched says that
// a Watcher above was told of the same end and looks after all that is below;
// Ended reports whether this one does, or that one. A Quiet node's is then not told.
type Watcher interface {
	Ended(e *Ending, watched bool) bool
}

// A Node is the lifetime shared by the contexts of one scope, one limited task
// or one budget. Set the exported fields, then call Start; a Node must not be
// copied or reused, because contexts and std children outlive the work.
type Node struct {
	View // the node's own context; its Owner is that of the node, such as a scope

	Name  string // one element of the path; empty adds none
	Limit any    // the *budget.Limit it was entered with, for causes; nil for none

	parent   context.Context // where it was started, and where values come from
	deadline time.Time       // zero: none
	up       *Node           // the node whose end ends this one; nil: none
	above    *View           // where the node was opened, for paths; nil at a root

	ending atomic.Pointer[Ending] // nil while alive; set under Mu, see ended
	std    atomic.Pointer[shim]   // nil until asked; written under Mu
	flag   atomic.Uint32          // Flagged once ending is set, see Flag, then closed; before, deaf or 0

	Lazy bool // be told of the end of a parent that is no node only once somebody asks, see listen
	how  how

	// Under Mu.

	Quiet     bool  // its Owner need not be told of an end that a Watcher above was told of
	callbacks uint8 // timer and bridge callbacks that may still run: one of each, and a late one of an alarm before

	// Idle is woken when a callback of the node has run, and by the owner for its
	// own conditions.
	Idle Cond

	children   *Node   // first child; nil once those below have been told of the end
	prev, next *Node   // siblings; under the Mu of up
	alarm      *Alarm  // of its own deadline; nil: stopped, or the parent's end is relied on
	bridge     *bridge // to a parent that is no node
	seldom     *seldom // what few nodes have; nil for the others

	// Mu protects what is said to be under it, and whatever the owner puts there: a
	// scope changes its counts and ends its node in one step. It stands last, away
	// from ending: all work looks at that, also while others come for the lock.
	Mu sync.Mutex
}

// seldom is what few nodes have.
type seldom struct {
	pause stopwatch
	told  []*Node // those who hung below when it ended, but for some that are closed
}

func (n *Node) ownLocked() *seldom {
	if n.seldom == nil {
		n.seldom = &seldom{}
	}
	return n.seldom
}

// How a node hangs in the world. It is written before others know the node.
type how uint8

const (
	armed    how = 1 << iota // it ends itself at the deadline
	detached                 // no parent's end or deadline reaches it
	follows                  // it ends with its parent context, which is no node
	under                    // up was set by PutUnder
)

// deaf is the flag of a Lazy node while it does not listen to its parent.
const deaf = 1

// End ends n, unless it has ended, and tells everybody below. It reports
// whether this call ended it.
func (n *Node) End(e *Ending) bool { return n.end(e, false) }

func (n *Node) end(e *Ending, watched bool) bool {
	n.Mu.Lock()
	first := n.EndLocked(e)
	// Nothing that hangs below is added once it has ended. Where very many nodes end
	// together nearly all are such leaves, and each is done with under one hold.
	leaf := first && n.children == nil && n.how&detached == 0 && (n.Owner == nil || n.Quiet && watched)
	if leaf {
		n.silenceLocked()
	}
	n.Mu.Unlock()
	switch {
	case leaf:
		if sh := n.std.Load(); sh != nil {
			sh.end()
		}
	case first:
		n.release(e, watched) // not what n.ending holds, which may have been made of e by now
	}
	return first
}

// EndLocked is the first half of End, for a caller that holds Mu and changes
// something else in the same step. When it answers true the caller must call
// Release after unlocking.
func (n *Node) EndLocked(e *Ending) bool { return n.endLocked(e, Flagged) }

func (n *Node) endLocked(e *Ending, flag uint32) bool {
	if n.ending.Load() != nil {
		return false
	}
	n.ending.Store(e)
	n.flag.Store(flag)
	return true
}

// RemoveLocked takes c, which has hung below n, from the list, unless it is gone. The
// caller holds the Mu of n.
func (n *Node) RemoveLocked(c *Node) {
	if c.prev == nil && n.children != c {
		return
	}
	if c.prev != nil {
		c.prev.next = c.next
	} else {
		n.children = c.next
	}
	if c.next != nil {
		c.next.prev = c.prev
	}
	c.prev, c.next = nil, nil
}

// Ending returns how n ended, nil while it is alive. Unlike Err it answers
// from the instant of the end, before Done is closed.
func (n *Node) Ending() *Ending { return n.ending.Load() }

// ended returns how n ended, nil while it is alive, with its cause. A cause
// that is made on demand is made once: all who ask, and all whom n ends, get
// the same one.
func (n *Node) ended() *Ending {
	e := n.ending.Load()
	if e == nil || e.For == nil {
		return e
	}
	made := e.Nameless
	if made == nil || !n.View.nameless() {
		made = &Ending{Cause: e.For(n), Err: e.Err, At: time.Now()}
	}
	n.ending.CompareAndSwap(e, made)
	return n.ending.Load()
}

// Cause returns why n ended, nil while it is alive.
func (n *Node) Cause() error {
	if e := n.ended(); e != nil {
		return e.Cause
	}
	return nil
}

// Detached reports whether n was started by StartDetached.
func (n *Node) Detached() bool { return n.how&detached != 0 }

// Parent returns the context in which n was started.
func (n *Node) Parent() context.Context { return n.parent }

// Children returns the nodes that end with n and are not closed yet, in no
// particular order; none of a closed n without an Owner.
func (n *Node) Children() []*Node {
	n.Mu.Lock()
	defer n.Mu.Unlock()
	return n.childrenLocked()
}

// childrenLocked returns the nodes that end with n and are not closed yet, in no
// particular order, also once n has ended. The caller holds Mu.
func (n *Node) childrenLocked() (all []*Node) {
	for c := n.children; c != nil; c = c.next {
		all = appendOpen(all, c)
	}
	if n.seldom != nil {
		for _, c := range n.seldom.told {
			all = appendOpen(all, c)
		}
	}
	return all
}

func appendOpen(to []*Node, n *Node) []*Node {
	if n.flag.Load() == closed {
		return to
	}
	return append(to, n)
}
