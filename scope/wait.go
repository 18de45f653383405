package scope

import (
	"fmt"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/curfew-go/curfew/internal/ctxnode"
)

// Wait returns when no task of the scope runs, also none started meanwhile. It
// is for the body: afterwards the Value of every task started before is there.
//
// The error is nil when nothing has failed or been cut so far, else an [*Error],
// as Run would return. A body that catches it and returns nil does not un-fail
// the scope. A task that waits for its own scope would wait for itself: that
// panics, with the task's name, at the latest when the body returns or waits.
func (s *Scope) Wait() error {
	c := s.c
	c.node.Mu.Lock()
	if c.live > 0 && (c.waiters != nil || c.phase >= closing) {
		// One of several waiters is not the body, or the body is no longer there.
		c.suspectLocked()
		c.node.Mu.Unlock()
		c.mustNotBeTask()
		c.node.Mu.Lock()
	}
	if c.live > 0 {
		w := &waiter{next: c.waiters}
		if w.next != nil {
			w.next.prev = w
		}
		c.waiters = w
		for c.live > 0 {
			c.node.Idle.Wait()
			if w.suspect {
				w.suspect = false
				c.node.Mu.Unlock()
				c.mustNotBeTaskOr(w)
				c.node.Mu.Lock()
			}
		}
		c.dropLocked(w)
	}
	c.waited = c.sequence
	verdict := c.verdictLocked()
	c.node.Mu.Unlock()
	if verdict == nil {
		return nil
	}
	return verdict
}

// A waiter is a goroutine blocked in Scope.Wait.
//
// Which goroutine calls Wait cannot be told without looking at its stack, which
// is too dear for every call. It need not be: a task that waits for its own
// scope is harmless until the body waits too, or has returned. Only then do all
// waiters look at their own stacks, and the task finds itself there.
type waiter struct {
	prev, next *waiter
	suspect    bool
}

func (c *core) suspectLocked() {
	for w := c.waiters; w != nil; w = w.next {
		w.suspect = true
	}
	c.node.Idle.Broadcast()
}

func (c *core) dropLocked(w *waiter) {
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		c.waiters = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	}
}

// mustNotBeTaskOr is mustNotBeTask for a listed waiter: it leaves the list
// before the panic.
func (c *core) mustNotBeTaskOr(w *waiter) {
	ok := false
	defer func() {
		if !ok {
			c.node.Mu.Lock()
			c.dropLocked(w)
			c.node.Mu.Unlock()
		}
	}()
	c.mustNotBeTask()
	ok = true
}

// mustNotBeTask panics when the calling goroutine runs a task of c, or of a
// scope below it.
func (c *core) mustNotBeTask() {
	onStack := tasksOnStack()
	if len(onStack) == 0 {
		return
	}
	if name := c.findTask(onStack); name != "" {
		panic(fmt.Sprintf("scope: Wait: task %q waits for its own scope %q", name, c.node.Path()))
	}
}

// findTask returns the name of the live task of c, or of a scope below it,
// whose address is among onStack.
func (c *core) findTask(onStack []uintptr) string {
	c.node.Mu.Lock()
	for t := c.tasks; t != nil; t = t.next {
		for _, addr := range onStack {
			if addr == reflect.ValueOf(t).Pointer() {
				c.node.Mu.Unlock()
				return t.name
			}
		}
	}
	c.node.Mu.Unlock()
	return findBelow(&c.node, onStack)
}

func findBelow(n *ctxnode.Node, onStack []uintptr) string {
	for _, child := range n.Children() {
		var name string
		if c, ok := child.Owner.(*core); ok {
			name = c.findTask(onStack)
		} else {
			name = findBelow(child, onStack)
		}
		if name != "" {
			return name
		}
	}
	return ""
}

// tasksOnStack returns the addresses of the tasks whose run method stands on
// the calling goroutine's stack.
func tasksOnStack() []uintptr {
	buf := make([]byte, 16<<10)
	for {
		n := runtime.Stack(buf, false)
		if n < len(buf) {
			buf = buf[:n]
			break
		}
		buf = make([]byte, 2*len(buf))
	}
	var found []uintptr
	rest := string(buf)
	for {
		_, after, ok := strings.Cut(rest, runFrame)
		if !ok {
			return found
		}
		rest = after
		end := strings.IndexFunc(after, func(r rune) bool {
			return !strings.ContainsRune("0123456789abcdefx", r)
		})
		if end < 0 {
			return found
		}
		if addr, err := strconv.ParseUint(after[:end], 0, 64); err == nil {
			found = append(found, uintptr(addr))
		}
	}
}

// runFrame is how task.run begins in a stack; the receiver's address follows.
const runFrame = "/scope.(*task).run("

// join waits until the last task has ended; from then on the scope starts none.
func (c *core) join() {
	c.node.Mu.Lock()
	defer c.node.Mu.Unlock()
	for c.live > 0 {
		c.node.Idle.Wait()
	}
	c.phase = cleaning
}

// joinWithin is join with the bound of a body's panic: the later of the panic
// grace and a straggler's grace after the deadline. It reports whether the
// tasks ended within it.
func (c *core) joinWithin() bool {
	expired := false
	clock := c.panicClock()
	if clock.forever {
		c.join()
		return true
	}
	var timer *time.Timer
	c.node.Mu.Lock()
	defer c.node.Mu.Unlock()
	for c.live > 0 && !expired {
		if timer == nil {
			timer = time.AfterFunc(time.Until(clock.due), func() {
				c.node.Mu.Lock()
				defer c.node.Mu.Unlock()
				if left := clock.leftLocked(); left > 0 {
					timer.Reset(left)
					return
				}
				expired = true
				c.node.Idle.Broadcast()
			})
			defer timer.Stop()
		}
		c.node.Idle.Wait()
	}
	if c.live > 0 {
		return false
	}
	c.phase = cleaning
	return true
}
