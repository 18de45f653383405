package scope

import (
	"errors"
	"fmt"

	"github.com/curfew-go/curfew/internal/ctxnode"
)

// ErrAbandoned is matched by the outcome of a task that did not obey the end of
// its context and that its scope went on without: see [Scope.SetStragglers].
var ErrAbandoned = errors.New("scope: task abandoned")

// abandon goes on without t. What it would have brought back is cut off.
func (c *core) abandon(t *task) {
	c.node.Mu.Lock()
	node := t.context().Node()
	if t.done || node.Ending() == nil || !t.advance(left) {
		c.node.Mu.Unlock()
		return
	}
	t.abandoned = true
	c.node.Mu.Unlock()

	err := fmt.Errorf("%w: %w", ErrAbandoned, node.Cause())
	switch {
	case t.mode&attempt != 0:
		t.work.(attemptWork).finished(err)
	case t.mode&optional != 0:
		c.miss(t, &TaskError{Err: err})
	default:
		c.recordAbandoned(&TaskError{Task: t.name, Err: err}, node)
	}
	c.node.Mu.Lock()
	t.leaveLocked(err)
	own := c.ownLocked()
	own.orphans++
	t.next = c.left
	if t.next != nil {
		t.next.prev = t
	}
	own.left = t
	c.node.Idle.Wake()
	c.node.Mu.Unlock()
}

// orphanEnded is the end of a task that was abandoned.
func (t *task) orphanEnded(err error) {
	c := t.core
	overrun := t.overrun()
	t.close()
	c.node.Mu.Lock()
	// Whoever abandons t may not have got to the end of it.
	for !t.done {
		c.node.Idle.Wait(&c.node.Mu)
	}
	if t.prev != nil {
		t.prev.next = t.next
	} else {
		c.left = t.next
	}
	if t.next != nil {
		t.next.prev = t.prev
	}
	t.prev, t.next = nil, nil
	c.orphans--
	c.node.Mu.Unlock()
	c.noteOverrun(overrun)
	c.leaveTree()
	if tr := c.trace(); tr != nil && tr.OrphanEnded != nil {
		tr.OrphanEnded(c.node.Path(), t.name, err, overrun)
	}
}

// recordAbandoned notes that a task was abandoned: as cut when the scope's own end
// came before, else as a failure.
func (c *core) recordAbandoned(te *TaskError, own *ctxnode.Node) {
	c.node.CatchUp()
	cut := c.node.Ending() != nil && own.Cause() == c.node.Cause()
	c.node.Mu.Lock()
	first := c.recordLocked(te, cut && c.node.Ending() != nil)
	c.node.Mu.Unlock()
	if first {
		c.node.Release()
	}
}
