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
	of   Holder // nil: the node's own context
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
func (v *View) Init(n *Node, of Holder) { v.node, v.of = n, of }

// Of returns whom v is the context of: its Holder, or the node's Owner.
func (v *View) Of() any {
	if v.of != nil {
		return v.of
	}
	return v.node.Owner
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
	if v.of == nil {
		return ""
	}
	return v.of.TaskName()
}

// Deadline is part of context.Context.
func (v *View) Deadline() (time.Time, bool) {
	return v.node.deadline, !v.node.deadline.IsZero()
}

// Done is part of context.Context. The first call makes the node's std context.
func (v *View) Done() <-chan struct{} { return v.node.shim().ctx.Done() }

// Err is part of context.Context: one load while the node is alive. As with
// std contexts it is nil until Done is closed.
func (v *View) Err() error {
	e := v.node.ending.Load()
	if e == nil {
		if !v.node.deaf.Load() {
			return nil
		}
		v.node.look()
		if e = v.node.ending.Load(); e == nil {
			return nil
		}
	}
	if sh := v.node.std.Load(); sh != nil && sh.ctx.Err() == nil {
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
	if v.of != nil {
		if values := v.of.Values(); values != nil {
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
	size := v.pathSize()
	if size == 0 {
		return ""
	}
	return string(v.appendPath(make([]byte, 0, size)))
}

// EndPath is the path that stands in the cause when n's own deadline passes: that of
// n, or what its Owner calls it, where the node has no name of its own.
func (n *Node) EndPath() string {
	if o, ok := n.Owner.(interface{ EndPath() string }); ok {
		return o.EndPath()
	}
	return n.Path()
}

func (v *View) pathSize() int {
	size := 0
	for v != nil {
		if task := v.Task(); task != "" {
			size += 1 + len(task)
		}
		if v.node.Name != "" {
			size += 1 + len(v.node.Name)
		}
		v = v.node.above
	}
	return size
}

func (v *View) appendPath(b []byte) []byte {
	if v.node.above != nil {
		b = v.node.above.appendPath(b)
	}
	for _, name := range [...]string{v.node.Name, v.Task()} {
		if name == "" {
			continue
		}
		if len(b) > 0 {
			b = append(b, '/')
		}
		b = append(b, name...)
	}
	return b
}

// Above returns the view in which n was opened, nil at a root.
func (n *Node) Above() *View { return n.above }

// HangsUnder returns the view in which n was opened when its end ends n, nil when
// it does not.
func (n *Node) HangsUnder() *View {
	if n.detached || n.above == nil || n.up != n.above.node {
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
