package scope

// How a scope counts its tasks, and how those who wait for the last one hear of it.
//
// Two counts only grow: begun, written under node.Mu by who starts a task, and over,
// written without it by who ends one. They differ by the tasks that are live, services
// apart. Each is written by one side only, and stands where the other does not read it:
// one count that goes up and down would take its cache line from processor to processor
// twice for each task (BenchmarkGo).
//
// So who ends a task cannot see that it was the last. Who waits says in awaited what
// over will be then, and looks at over once more; who ends a task adds to over, and
// looks at awaited then. Of two that do so at the same time, one sees the other. The
// counts may wrap: no more than 1<<32 tasks are live.

// busyLocked reports whether a task runs that is no service.
func (c *core) busyLocked() bool { return c.over.Load() != c.begun.Load() }

// liveLocked returns how many tasks are live.
func (c *core) liveLocked() int { return int(c.begun.Load()-c.over.Load()) + c.services }

// countLocked counts n more tasks as live.
func (c *core) countLocked(n int) {
	begun := c.begun.Load() + uint32(n)
	c.begun.Store(begun)
	if c.node.Idle.Awaited() {
		c.awaited.Store(begun)
	}
}

// numberLocked gives t the next number.
func (c *core) numberLocked(t *task) {
	c.sequence++
	t.seq = c.sequence
}

// begunLocked returns how many tasks were begun, services among them.
func (c *core) begunLocked() int { return int(c.sequence) - c.unbegun }

// idleLocked waits for Idle, on which who ends the last task signals. busy is what
// busyLocked has just answered: when that has changed, there is no wait.
func (c *core) idleLocked(busy bool) {
	c.awaited.Store(c.begun.Load())
	if busy && !c.busyLocked() {
		return
	}
	c.node.Idle.Wait(&c.node.Mu)
}

// sweepEvery is after how many tasks somebody looks whether most of those in the list
// have ended alone. To look takes a cache line from those that end.
const sweepEvery = 128

// sweepLocked takes those from the list that have ended alone, when they are more than
// half of it, so that the cost of the walk is shared. What was cut short stays for the
// verdict.
func (c *core) sweepLocked() {
	if c.listedLocked() <= 2*c.liveLocked() {
		return
	}
	left := uint32(0)
	for t := c.tasks; t != nil; {
		next := t.next
		if t.stage.Load() == endedAlone {
			c.unlinkLocked(t)
		} else {
			left++
		}
		t = next
	}
	c.unswept = left - uint32(c.sequence)
}

// listedLocked returns how many tasks stand in the list at most: what the last sweep has
// left, and all that were begun since. unswept is the one less the number of the other.
func (c *core) listedLocked() int { return int(uint32(c.sequence) + c.unswept) }
