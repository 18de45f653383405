package ctxnode

import (
	"context"
	"sync/atomic"
	"time"
)

// stdKey is the private key under which package context looks for its own
// cancel context. context.Cause asks any context for it, which is how we learn
// it; TestStdKeyIsLearned fails on a Go version where this stops being so.
var stdKey = learnStdKey()

func learnStdKey() any {
	var p keyProbe
	_ = context.Cause(&p)
	return p.key
}

// keyProbe is an ended context that notes the key it is asked for.
type keyProbe struct{ key any }

func (*keyProbe) Deadline() (time.Time, bool) { return time.Time{}, false }
func (*keyProbe) Done() <-chan struct{}       { return nil }
func (*keyProbe) Err() error                  { return context.Canceled }
func (p *keyProbe) Value(key any) any         { p.key = key; return nil }

// A shim stands between a node and its std cancel context. It is the std
// context's parent: std hands its cancel function to AfterFunc, and when the
// node ends we call that function, upon which std asks the shim for the error
// and the cause. So the std context ends with DeadlineExceeded or Canceled as
// fits, which no cancel function of the public API can do. Where Canceled is right
// that function is called all the same: it is told the cause, for which std otherwise
// asks the shim for a std context that carries it.
//
// Few ask more of a context than Done. While nobody has asked a node for std's
// private key nothing hangs below its std context, and nobody can have seen the
// cause there: it then ends without one, and who asks for it later gets it from
// the carrier of the node's ending.
type shim struct {
	n      *Node
	ctx    context.Context         // the std cancel context
	done   <-chan struct{}         // its Done
	f      func()                  // cancels ctx with our Err and, if anybody has asked, our cause
	cancel context.CancelCauseFunc // cancels ctx with Canceled; nil for gone
	key    atomic.Uint32           // whether anybody has got ctx for std's key, see ask
}

const (
	unasked uint32 = iota
	asked          // somebody has: ctx ends with our cause
	mute           // nobody had when the node told ctx: it has no cause, and nobody gets it any more
)

// ask reports whether ctx is what to answer for std's key.
func (sh *shim) ask() bool {
	return sh.key.Load() == asked || sh.key.CompareAndSwap(unasked, asked) || sh.key.Load() == asked
}

// never is the Done of every shim: not nil, because std takes nil for a parent
// that never ends, and never closed, because the end arrives by AfterFunc.
var never = make(chan struct{})

// gone is the shim of all nodes that had ended before anybody asked for Done. There is no
// std context behind it: std asks a parent whose Done is closed for nothing but the cause.
var gone = func() *shim {
	done := make(chan struct{})
	close(done)
	sh := &shim{done: done}
	sh.key.Store(mute)
	return sh
}()

// shim returns the node's std context and what belongs to it, made on first use.
func (n *Node) shim() *shim {
	if sh := n.std.Load(); sh != nil {
		return sh
	}
	n.listen()
	n.Mu.Lock()
	sh := n.std.Load()
	if sh == nil {
		if n.ending.Load() != nil {
			sh = gone
		} else {
			sh = &shim{n: n}
			// Std calls Done, Value and AfterFunc of the shim here; none takes Mu.
			sh.ctx, sh.cancel = context.WithCancelCause(sh)
			sh.done = sh.ctx.Done()
		}
		n.std.Store(sh)
	}
	n.Mu.Unlock() // not deferred, for a smaller frame: nothing here panics
	return sh
}

// stdValue answers std's private key: with the std context, so that std attaches
// children to it, unless it was told to end without the cause, or was never made; then
// with a carrier of the cause. It takes no lock once there is a shim: context.Cause is
// asked under Mu, too.
func (n *Node) stdValue() any {
	sh := n.std.Load()
	if sh == nil && n.ending.Load() == nil {
		sh = n.shim()
	}
	if sh != nil && sh.ask() {
		return sh.ctx.Value(stdKey)
	}
	return n.ended().carrier().Value(stdKey)
}

// closed reports whether Done is closed. It takes no lock, as Err of the std context
// does once that has ended: of very many who are woken together each asks.
func (sh *shim) closed() bool {
	select {
	case <-sh.done:
		return true
	default:
		return false
	}
}

// end cancels the std context; the node has ended.
func (sh *shim) end() {
	if sh == gone {
		return
	}
	sh.key.CompareAndSwap(unasked, mute)
	switch {
	case sh.f == nil || sh.Err() == context.Canceled: // f is nil where std did not use AfterFunc
		var cause error
		if sh.key.Load() == asked {
			cause = sh.n.ended().Cause
		}
		sh.cancel(cause)
	default:
		sh.f()
	}
}

// AfterFunc keeps f for the end of the node. Std holds the new context's lock
// while it calls AfterFunc, so f must not run here.
func (sh *shim) AfterFunc(f func()) func() bool {
	sh.f = f
	return func() bool { return false }
}

func (sh *shim) Deadline() (time.Time, bool) { return sh.n.Deadline() }
func (sh *shim) Done() <-chan struct{}       { return never }

func (sh *shim) Err() error {
	if e := sh.n.ending.Load(); e != nil {
		return e.Err
	}
	return nil
}

func (sh *shim) Value(key any) any {
	if key == stdKey {
		// While the node is alive there is nothing to answer, else std would attach
		// to the cancel context of our own parent.
		if e := sh.n.ending.Load(); e == nil || sh.key.Load() != asked {
			return nil
		}
		return sh.n.ended().carrier().Value(key)
	}
	return sh.n.View.Value(key)
}

func (sh *shim) String() string { return sh.n.View.String() }
