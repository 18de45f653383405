package ctxnode

import (
	"context"
	"time"
)

// A View is a context.Context onto a Node, with the name and the values of whom it
// belongs to. All views of a node end together. Every
// context that curfew hands out is a *View, or a std child of one.
type View struct {
	node *Node
	// Owner is whom the context belongs to: a Holder, or, where it is the node's own, the
	// owner of the node; nil for nobody. It does not change.
	Owner any
}

// A Holder is what a context belongs to that is a node's, but not its own: a task,
// which runs in the lifetime of its scope.
type Holder interface {
	// TaskName is one element of the path; empty adds none.
	TaskName() string
	// Values is where values come from, a context derived from one of the node;
	// nil: the node's parent. It must not change.
	Values() context.Context
}

// Init makes v a view of n that belongs to of.
func (v *View) Init(n *Node, of Holder) { v.node, v.Owner = n, of }

// holder returns whom v belongs to, nil when it is the node's own context.
func (v *View) holder() Holder {
	if v == &v.node.View {
		return nil
	}
	h, _ := v.Owner.(Holder)
	return h
}

// viewKey is the key under which a context answers the nearest View.
type viewKey struct{}

// Find returns the nearest view from which ctx gets its values, nil when there
// is none. It says nothing about whose end ends ctx.
func Find(ctx context.Context) *View {
	if v, ok := direct(ctx); ok {
		return v
	}
	v, _ := ctx.Value(viewKey{}).(*View)
	return v
}

// Node returns the node that v looks onto.
func (v *View) Node() *Node { return v.node }

// Task returns the name of the task v belongs to, empty when it is the node's
// own context.
func (v *View) Task() string {
	if h := v.holder(); h != nil {
		return h.TaskName()
	}
	return ""
}

// Deadline is part of context.Context.
func (v *View) Deadline() (time.Time, bool) {
	return v.node.deadline, !v.node.deadline.IsZero()
}

// Done is part of context.Context. The first call makes the node's std context.
func (v *View) Done() <-chan struct{} { return v.node.shim().done }

// Err is part of context.Context: one load while the node is alive. As with
// std contexts it is nil until Done is closed.
func (v *View) Err() error {
	e := v.node.ending.Load()
	if e == nil {
		if v.node.flag.Load() != deaf {
			return nil
		}
		v.node.look()
		if e = v.node.ending.Load(); e == nil {
			return nil
		}
	}
	if sh := v.node.std.Load(); sh != nil && !sh.closed() {
		return nil
	}
	return e.Err
}

// Value is part of context.Context.
func (v *View) Value(key any) any {
	if _, ok := key.(viewKey); ok {
		return v
	}
	if key == stdKey {
		return v.node.stdValue()
	}
	if h := v.holder(); h != nil {
		if values := h.Values(); values != nil {
			return values.Value(key)
		}
	}
	return v.node.parent.Value(key)
}

// String names the context in the texts of std contexts derived from it.
func (v *View) String() string { return "curfew(" + v.Path() + ")" }

// Path returns the names of all scopes and tasks from the root down to v,
// joined by slashes. It is made on demand: a path costs nothing until asked.
func (v *View) Path() string {
	if v.node.above == nil && v.holder() == nil {
		return v.node.Name
	}
	size := 0
	for u := v; u != nil; u = u.node.above {
		size += lenOf(u.node.Name) + lenOf(u.Task())
	}
	if size == 0 {
		return ""
	}
	// Written from the end, in a loop: a task that is cut short asks, on a small stack.
	var most [64]byte // of most paths, which then are one piece of memory
	b := most[:]
	if size > len(b) {
		b = make([]byte, size)
	}
	at := len(b)
	for u := v; u != nil; u = u.node.above {
		at = putBefore(b, at, u.Task())
		at = putBefore(b, at, u.node.Name)
	}
	return string(b[at+1:])
}

// lenOf returns what name takes in a path, with the slash before it.
func lenOf(name string) int {
	if name == "" {
		return 0
	}
	return 1 + len(name)
}

// putBefore writes a slash and name into b, so that they end at at, and returns where
// they begin.
func putBefore(b []byte, at int, name string) int {
	if name == "" {
		return at
	}
	at -= len(name)
	copy(b[at:], name)
	at--
	b[at] = '/'
	return at
}

// EndPath is the path that stands in the cause when n's own deadline passes: that of
// n, or what its Owner calls it, where the node has no name of its own.
func (n *Node) EndPath() string {
	if o, ok := n.Owner.(interface{ EndPath() string }); ok {
		return o.EndPath()
	}
	return n.Path()
}

// nameless reports whether v has no path.
func (v *View) nameless() bool {
	for v != nil && v.node.Name == "" && v.Task() == "" {
		v = v.node.above
	}
	return v == nil
}

// Above returns the view in which n was opened, nil at a root.
func (n *Node) Above() *View { return n.above }

// HangsUnder returns the view in which n was opened when its end ends n, nil when
// it does not.
func (n *Node) HangsUnder() *View {
	if n.how&detached != 0 || n.above == nil || n.up != n.above.node {
		return nil
	}
	return n.above
}

// Within reports whether v looks onto n or onto a node opened inside it.
func (v *View) Within(n *Node) bool {
	for ; v != nil; v = v.node.above {
		if v.node == n {
			return true
		}
	}
	return false
}
