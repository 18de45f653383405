package ctxnode

import (
	"context"
	"sync/atomic"
)

// Flagged is what the flag of a node that has ended says: more than any number of
// turns that a loop counts down, so that one comparison answers for both.
const Flagged = 1 << 31

// closed is the flag of a node that its owner has closed.
const closed = Flagged | 1

// Flag returns a word that is 0 while n is alive and Flagged or more from the instant
// of its end: whoever ended n finds it set, and nobody has to be told or taken from a
// list. As with Ending, Err may answer nil for a moment more.
func (n *Node) Flag() *atomic.Uint32 {
	n.listen()
	return &n.flag
}

// EndOf returns the node whose end is the end of ctx, nil when there is none: ctx is
// a view, or a std context that adds no more than values to one.
func EndOf(ctx context.Context) *Node {
	if v, ok := ctx.(*View); ok {
		return v.node
	}
	if v := Find(ctx); v != nil && v.Done() == ctx.Done() {
		return v.node
	}
	return nil
}

// Tells reports whether ctx tells of its end whoever is registered with it: it has an
// AfterFunc of its own, or its end is that of a std context. Of the end of any other
// context package context hears by a goroutine, one for each registration.
func Tells(ctx context.Context) bool {
	if _, ok := ctx.(interface{ AfterFunc(func()) func() bool }); ok {
		return true
	}
	std, ok := ctx.Value(stdKey).(context.Context)
	return ok && std.Done() == ctx.Done()
}
