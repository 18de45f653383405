package scope

import (
	"fmt"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"github.com/curfew-go/curfew/internal/ctxnode"
)

// Wait returns when no task of the scope runs, also none started meanwhile, but
// for services. It is for the body: afterwards the Value of every task started
// before is there.
//
// The error is nil when nothing has failed or been cut so far, else an [*Error],
// as Run would return. A body that catches it and returns nil does not un-fail
// the scope. A task that waits for its own scope would wait for itself: that
// panics, with the task's name, at the latest when the body returns or waits.
func (s *Scope) Wait() error {
	c := s.c
	c.node.Mu.Lock()
	if c.busyLocked() && (c.waiters != nil || c.taskWaits > 0 || c.phase >= closing) {
		// One of several waiters is not the body, or the body is no longer there.
		c.suspectLocked()
		c.node.Mu.Unlock()
		c.mustNotWait(nil)
		c.node.Mu.Lock()
	}
	if c.busyLocked() {
		w := &waiter{next: c.waiters}
		if w.next != nil {
			w.next.prev = w
		}
		c.waiters = w
		back := c.lendLocked()
		for c.busyLocked() {
			c.idleLocked(true)
			if w.suspect {
				w.suspect = false
				c.node.Mu.Unlock()
				c.mustNotWaitAs(w, back)
				c.node.Mu.Lock()
			}
		}
		c.dropLocked(w)
		c.waited = c.sequence // before back, which lets go of the lock
		if back != nil {
			back()
		}
	} else {
		c.waited = c.sequence
	}
	verdict := c.verdictLocked()
	c.node.Mu.Unlock()
	if verdict == nil {
		return nil
	}
	return verdict
}

// lendLocked lends the slot of the calling task, and returns the call that takes it
// back, with node.Mu held as well; nil where there are no slots.
func (c *core) lendLocked() (backLocked func()) {
	if c.slots.Load() == nil {
		return nil
	}
	c.node.Mu.Unlock()
	back := c.lendSlot()
	c.node.Mu.Lock()
	return func() {
		c.node.Mu.Unlock()
		back()
		c.node.Mu.Lock()
	}
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
	c.node.Idle.Wake()
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

// mustNotWaitAs is mustNotWait for a listed waiter: before the panic it leaves the
// list and takes back the slot it has lent.
func (c *core) mustNotWaitAs(w *waiter, backLocked func()) {
	ok := false
	defer func() {
		if !ok {
			c.node.Mu.Lock()
			c.dropLocked(w)
			if backLocked != nil {
				backLocked()
			}
			c.node.Mu.Unlock()
		}
	}()
	c.mustNotWait(nil)
	ok = true
}

// mustNotWait panics when the calling goroutine is, or is waited for by, what it
// is about to wait for: the task t, or with a nil t any task of c.
func (c *core) mustNotWait(t *task) {
	for _, u := range tasksOnStack() {
		switch {
		case !u.inside(c, t):
		case t != nil:
			panic(fmt.Sprintf("scope: Wait: task %q waits for itself", t.title()))
		default:
			panic(fmt.Sprintf("scope: Wait: task %q waits for its own scope %q", u.title(), c.node.Path()))
		}
	}
}

// inside reports whether u is t, or runs in a scope that was opened inside t;
// with a nil t, whether that holds for any task of c that others wait for, which
// a service is not. What opened a scope waits for its tasks.
func (u *task) inside(c *core, t *task) bool {
	for u != nil {
		if t == nil && u.core == c && u.mode&service == 0 || t == u {
			return true
		}
		u = taskOf(u.core.node.Above())
	}
	return false
}

// taskOf returns the innermost task in which v was handed out, nil when none.
func taskOf(v *ctxnode.View) *task {
	for v != nil {
		if t, ok := v.Owner.(*task); ok {
			return t
		}
		v = v.Node().Above()
	}
	return nil
}

// onTask reports whether the calling goroutine runs a task, of whatever scope.
// It costs far less than a stack that shows which.
func onTask() bool {
	var pcs [64]uintptr
	for skip := 2; ; skip += len(pcs) {
		n := runtime.Callers(skip, pcs[:])
		for _, pc := range pcs[:n] {
			if f := runtime.FuncForPC(pc - 1); f != nil && (f.Entry() == runEntry || f.Entry() == runHereEntry) {
				return true
			}
		}
		if n < len(pcs) {
			return false
		}
	}
}

// tasksOnStack returns the tasks whose run or runHere method stands on the
// calling goroutine's stack, innermost first.
func tasksOnStack() []*task {
	if !onTask() {
		return nil
	}
	buf := make([]byte, 16<<10)
	for {
		n := runtime.Stack(buf, false)
		if n < len(buf) {
			buf = buf[:n]
			break
		}
		buf = make([]byte, 2*len(buf))
	}
	var found []*task
	for rest := string(buf); ; {
		addr, after, ok := nextRunFrame(rest)
		if !ok {
			return found
		}
		rest = after
		if addr != 0 {
			// The frame is one of this goroutine's own: run uses t again when
			// its function has returned, so t is alive while we stand above it.
			found = append(found, *(**task)(unsafe.Pointer(&addr)))
		}
	}
}

// nextRunFrame finds the next frame of a task's run or runHere in the text of a
// stack, and returns the task's address, 0 where the runtime does not vouch for
// it, and the text after it.
func nextRunFrame(stack string) (addr uintptr, after string, ok bool) {
	_, after, ok = strings.Cut(stack, runFrame)
	if !ok {
		return 0, "", false
	}
	args := strings.TrimPrefix(after, "Here")
	if !strings.HasPrefix(args, "(") {
		return 0, after, true
	}
	args = args[1:]
	end := strings.IndexFunc(args, func(r rune) bool { return !strings.ContainsRune("0123456789abcdefx", r) })
	if end < 0 || args[end] == '?' {
		return 0, after, true
	}
	n, err := strconv.ParseUint(args[:end], 0, 64)
	if err != nil {
		return 0, after, true
	}
	return uintptr(n), after, true
}

// runFrame is how the line of task.run, or runHere, begins in a stack; the
// receiver's address follows.
var runFrame = "\n" + runtime.FuncForPC(runEntry).Name()

// Where the two begin.
var (
	runEntry     = reflect.ValueOf((*task).run).Pointer()
	runHereEntry = reflect.ValueOf((*task).runHere).Pointer()
)

// join waits until the last task has ended; from then on the scope starts none.
// Services are told to end once everybody else has.
func (c *core) join() {
	c.node.Mu.Lock()
	defer c.node.Mu.Unlock()
	c.joinLocked()
}

func (c *core) joinLocked() {
	var back func()
	if c.liveLocked() > 0 { // also for services: their last work may need slots
		back = c.lendLocked()
	}
	for {
		busy := c.busyLocked()
		if !busy && c.services == 0 && c.helpers == 0 {
			break
		}
		if busy || !c.endServicesLocked() {
			c.idleLocked(busy)
		}
	}
	c.phase = cleaning // before back, which lets go of the lock
	if c.watch != nil && c.watch.Stop() {
		c.unusual.watch = nil
	}
	if back != nil {
		back()
	}
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
	for !expired {
		busy := c.busyLocked()
		if !busy && c.services == 0 && c.helpers == 0 {
			break
		}
		if !busy && c.endServicesLocked() {
			continue
		}
		if timer == nil {
			timer = time.AfterFunc(time.Until(clock.due), func() {
				c.node.Mu.Lock()
				defer c.node.Mu.Unlock()
				if left := clock.leftLocked(); left > 0 {
					timer.Reset(left)
					return
				}
				expired = true
				c.node.Idle.Wake()
			})
			defer timer.Stop()
		}
		c.idleLocked(busy)
	}
	if c.liveLocked() > 0 || c.helpers > 0 {
		return false
	}
	c.phase = cleaning
	return true
}
