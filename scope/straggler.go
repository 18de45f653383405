package scope

import (
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/curfew-go/curfew/internal/ctxnode"
)

// Then is what a scope does about its stragglers once they are reported.
type Then uint8

const (
	Wait    Then = iota // go on waiting: nothing is left behind. The default
	Abandon             // return without them; they are orphans until they end
	Crash               // panic, which ends the process
)

// A Straggler is a task, or the body of a scope, that still runs although its
// context ended a grace ago.
type Straggler struct {
	Scope    string        // path of the scope
	Task     string        // its name; empty for the scope's body
	Function string        // the function it runs, and where it is written
	Overdue  time.Duration // since its context ended
	// Stack is that of its goroutine, empty when there is none to show: one
	// profile of the process serves all reports for ten seconds, so the task
	// may be missing in it.
	Stack string
}

// String names who still runs, and for how long, in one line without the stack.
func (g Straggler) String() string {
	who := "task " + g.Scope + "/" + g.Task
	if g.Task == "" {
		who = "body of scope " + g.Scope
	}
	return fmt.Sprintf("%s (%s) still runs %v after its context ended", who, g.Function, g.Overdue.Round(time.Millisecond))
}

// SetStragglers says what happens to tasks of s that still run a grace after the
// end of their context, 100 ms without a call. They are reported, to
// Trace.Straggler or else to slog.Default at level Warn, five at once and then one
// a second for the whole process; then, by default, s goes on waiting. Work in a
// Detached block has a bound of its own and is no straggler meanwhile; a negative
// grace reports nobody.
//
// To Abandon is to let Run return while the task goes on using what it was given:
// only what can be left alone may be abandoned. It is counted in Stats.Orphans and
// stays in the live tree until it ends, which Trace.OrphanEnded tells of. The
// body is never abandoned, since Run runs it.
//
// SetStragglers is for the first lines of the body.
func (s *Scope) SetStragglers(grace time.Duration, then Then) {
	if then > Crash {
		panic(fmt.Sprintf("scope: SetStragglers: unknown Then %d", then))
	}
	c := s.c
	c.node.Mu.Lock()
	defer c.node.Mu.Unlock()
	own := c.ownLocked()
	own.ownGrace, own.grace, own.then = true, grace, then
	c.node.Quiet = false
}

// Ended is called when the scope's context has ended. It reports whether c looks
// after the stragglers of all scopes below, too.
func (c *core) Ended(e *ctxnode.Ending, watched bool) bool {
	if e == scopeClosed {
		return watched
	}
	if c.slots.Load() != nil {
		c.dropSlots()
	}
	c.node.Mu.Lock()
	if !watched || c.ownGrace {
		c.watchEndLocked(time.Now())
	}
	c.node.Mu.Unlock()
	return true
}

// watchEndLocked has a look taken, a grace later, at who still runs; now is the
// present, just read.
func (c *core) watchEndLocked(now time.Time) {
	if c.grace >= 0 && c.phase < cleaning && (c.phase == open || c.liveLocked() > 0 || c.helpers > 0) {
		own := c.ownLocked()
		own.watchBegan, own.watchPaused = now, c.node.PausedLocked(now)
		own.watch = ctxnode.SetAlarm(now, now.Add(c.grace), (*watching)(c)) // not by watchLocked: see Node.release
	}
}

// Ended is called when the context of a task with one of its own has ended.
func (t *task) Ended(e *ctxnode.Ending, watched bool) bool {
	if e == scopeClosed {
		return watched
	}
	if t.mode&attempt != 0 {
		t.work.(attemptWork).contextEnded()
	}
	c := t.core
	c.node.Mu.Lock()
	defer c.node.Mu.Unlock()
	t.letGo() // under the lock: an attempt has its claim only after its context
	if watched || c.grace < 0 || t.overLocked() {
		return watched
	}
	began, paused := time.Now(), c.node.PausedLocked(time.Now())
	time.AfterFunc(c.grace, func() { c.overdue(t, began, paused) })
	return true
}

// watchLocked arms the look at who still runs. It finds nobody when the scope has
// closed meanwhile.
func (c *core) watchLocked(now time.Time, wait time.Duration) {
	c.ownLocked().watch = ctxnode.SetAlarm(now, now.Add(wait), (*watching)(c))
}

// A watching is a core as the alarm of its watch sees it.
type watching core

// Ring is part of ctxnode.Ringer.
func (w *watching) Ring() {
	c := (*core)(w)
	c.node.Mu.Lock()
	began, paused := c.watchBegan, c.watchPaused
	c.node.Mu.Unlock()
	c.overdue(nil, began, paused)
}

// overdue reports those who still run: t, or with a nil t all below c. The clock
// began, with pauses of the sum paused behind it, when their context ended.
func (c *core) overdue(t *task, began time.Time, paused time.Duration) {
	now := time.Now()
	c.node.Mu.Lock()
	if c.phase == closed || t != nil && t.overLocked() {
		c.node.Mu.Unlock()
		return
	}
	left := c.grace - now.Sub(began) + c.node.PausedLocked(now) - paused
	if left > 0 {
		if wait := max(left, 10*time.Millisecond); t == nil {
			c.watchLocked(now, wait)
		} else {
			time.AfterFunc(wait, func() { c.overdue(t, began, paused) })
		}
		c.node.Mu.Unlock()
		return
	}
	if t == nil && c.leavingLocked(now.Sub(began)) && !ofBubble(now) {
		c.watchLocked(now, 10*time.Millisecond)
		c.node.Mu.Unlock()
		return
	}
	c.node.Mu.Unlock()

	var found []overdueTask
	if t != nil {
		c.node.Mu.Lock()
		if t.lateLocked(false) {
			found = append(found, t.overdueLocked(now))
		}
		c.node.Mu.Unlock()
		if t.node != nil {
			found = appendBelow(found, t.node, false)
		}
	} else {
		found = c.appendOverdue(found, false)
	}
	deliver(found)
}

const (
	crowd     = 10_000      // so many goroutines take the processors longer than a grace to let go
	crowdWait = time.Second // the longest that a report waits for that
)

// leavingLocked reports whether very many goroutines are on their way out, a time after
// the context of c ended. They are late since they wait for a processor, and to report
// one of them would stop the world for a profile of all, for seconds.
func (c *core) leavingLocked(after time.Duration) bool {
	n, saw := runtime.NumGoroutine(), c.watchSaw
	if n < crowd || after > c.grace+crowdWait {
		return false
	}
	c.ownLocked().watchSaw = n
	return saw == 0 || n < saw
}

// whoRuns returns all tasks that run in c and below it, but for those that only
// wait for others.
func whoRuns(c *core) []Straggler {
	found := c.appendOverdue(nil, true)
	c.node.Mu.Lock()
	var hung []*core // in the tree, with a context that net/http or others made
	for in := c.innerLocked(); in != nil; in = in.place.next {
		hung = append(hung, in)
	}
	c.node.Mu.Unlock()
	for _, in := range hung {
		if !slices.ContainsFunc(found, func(g overdueTask) bool { return g.core == in }) {
			found = in.appendOverdue(found, true)
		}
	}
	if len(found) == 0 {
		return nil
	}
	var all []Straggler
	for _, g := range told(found) {
		all = append(all, g.words())
	}
	return all
}

// appendOverdue adds the stragglers of c and of all that is open below it. With
// again, also those reported already and those of scopes that look after their
// own.
func (c *core) appendOverdue(to []overdueTask, again bool) []overdueTask {
	now := time.Now()
	c.node.Mu.Lock()
	live := c.everyLocked(func(t *task) bool { return (again || t.mode&service == 0) && t.lateLocked(again) })
	if again {
		for t := c.left; t != nil; t = t.next {
			if t.lateLocked(again) {
				live = append(live, t)
			}
		}
	}
	// A body that waits for its tasks is not what keeps the scope.
	e := c.node.Ending()
	body := c.phase == open && c.waiters == nil && c.taskWaits == 0 && (again || !c.bodyReported) && e != nil && c.body != 0
	if body {
		c.ownLocked().bodyReported = true
	}
	to = slices.Grow(to, len(live))
	for _, t := range live {
		to = append(to, t.overdueLocked(now))
	}
	c.node.Mu.Unlock()
	if body && !c.bodyInside() {
		to = append(to, overdueTask{core: c, overdue: sinceEnd(now, e)})
	}
	return appendBelow(to, &c.node, again)
}

// bodyInside reports whether the body of c is in a Run of its own, which tells of
// its own stragglers.
func (c *core) bodyInside() bool {
	for _, child := range c.node.Children() {
		if _, ok := child.Owner.(*core); ok && child.Above() == &c.node.View {
			return true
		}
	}
	return false
}

// appendBelow adds the stragglers of the scopes opened below n.
func appendBelow(to []overdueTask, n *ctxnode.Node, again bool) []overdueTask {
	for _, child := range n.Children() {
		switch o := child.Owner.(type) {
		case *core:
			o.node.Mu.Lock()
			own := o.ownGrace
			o.node.Mu.Unlock()
			if again || !own {
				to = o.appendOverdue(to, again)
			}
		default:
			to = appendBelow(to, child, again)
		}
	}
	return to
}

// lateLocked reports whether t is a straggler, and notes that it has been reported:
// but with again it is one once only.
func (t *task) lateLocked(again bool) bool {
	late := t.ending() != nil && (again && (!t.overLocked() || t.abandoned) || !t.overLocked() && !t.reported)
	t.reported = t.reported || late
	return late
}

// sinceEnd returns how long ago e was. A nil e is that of a task which was late in its
// scope's context, and has got one of its own since that does not know of the end yet.
func sinceEnd(now time.Time, e *ctxnode.Ending) time.Duration {
	if e == nil || e.At.IsZero() {
		return 0
	}
	return max(now.Sub(e.At), 0) // it may have ended since
}

// noteOverrun keeps the longest time that a task went on after its context's end.
func (c *core) noteOverrun(d time.Duration) {
	if d == 0 {
		return
	}
	c.node.Mu.Lock()
	c.overranLocked(d)
	c.node.Mu.Unlock()
}

func (c *core) overranLocked(d time.Duration) {
	if own := c.ownLocked(); own.overrun < d {
		own.overrun = d
	}
}
