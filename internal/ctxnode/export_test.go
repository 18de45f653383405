package ctxnode

// What the tests outside of the package need to see.

// StdKey is the learned private key of package context.
var StdKey = stdKey

// HasStd reports whether n has made its std context.
func (n *Node) HasStd() bool { return n.std.Load() != nil }

// Linked returns how many nodes hang directly below n.
func (n *Node) Linked() int {
	n.Mu.Lock()
	defer n.Mu.Unlock()
	return len(n.childrenLocked())
}

// Callbacks returns how many timer and bridge callbacks of n may still run.
func (n *Node) Callbacks() int {
	n.Mu.Lock()
	defer n.Mu.Unlock()
	return int(n.callbacks)
}
