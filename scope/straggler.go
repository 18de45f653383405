package scope

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"runtime"
	"slices"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/time/rate"

	"github.com/curfew-go/curfew/internal/ctxnode"
)

// ErrAbandoned is matched by the outcome of a task that did not obey the end of
// its context and that its scope went on without: see [Scope.SetStragglers].
var ErrAbandoned = errors.New("scope: task abandoned")

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
// a second for the whole process; then, by default, s goes on waiting. Work in a Detached block has a bound of its own and is no straggler
// meanwhile; a negative grace reports nobody.
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
	c.ownGrace, c.grace, c.then = true, grace, then
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
	defer c.node.Mu.Unlock()
	if watched && !c.ownGrace {
		return true
	}
	if c.grace >= 0 && c.phase < cleaning && (c.phase == open || c.live > 0) {
		c.watchLocked(c.grace, time.Now(), c.node.PausedLocked(time.Now()))
	}
	return true
}

// Ended is called when the context of a task with one of its own has ended.
func (t *task) Ended(e *ctxnode.Ending, watched bool) bool {
	if e == scopeClosed {
		return watched
	}
	if t.more != nil && t.more.hold != nil && !t.more.lent {
		t.more.hold.drop()
	}
	c := t.core
	c.node.Mu.Lock()
	defer c.node.Mu.Unlock()
	if watched || c.grace < 0 || t.done {
		return watched
	}
	began, paused := time.Now(), c.node.PausedLocked(time.Now())
	time.AfterFunc(c.grace, func() { c.overdue(t, began, paused) })
	return true
}

// watchLocked arms the look at who still runs. It finds nobody when the scope has
// closed meanwhile.
func (c *core) watchLocked(grace time.Duration, began time.Time, paused time.Duration) {
	c.watch = time.AfterFunc(grace, func() { c.overdue(nil, began, paused) })
}

// overdue reports those who still run: t, or with a nil t all below c. The clock
// began, with pauses of the sum paused behind it, when their context ended.
func (c *core) overdue(t *task, began time.Time, paused time.Duration) {
	now := time.Now()
	c.node.Mu.Lock()
	if c.phase == closed || t != nil && t.done {
		c.node.Mu.Unlock()
		return
	}
	left := c.grace - now.Sub(began) + c.node.PausedLocked(now) - paused
	if left > 0 {
		timer := time.AfterFunc(max(left, 10*time.Millisecond), func() { c.overdue(t, began, paused) })
		if t == nil {
			c.watch = timer
		}
		c.node.Mu.Unlock()
		return
	}
	c.node.Mu.Unlock()

	var found []overdueTask
	if t != nil {
		found = t.appendOverdue(found, false)
		if t.node != nil {
			found = appendBelow(found, t.node, false)
		}
	} else {
		found = c.appendOverdue(found, false)
	}
	deliver(found)
}

// whoRuns returns all tasks that run in c and below it, but for those that only
// wait for others.
func whoRuns(c *core) []Straggler {
	found := c.appendOverdue(nil, true)
	c.node.Mu.Lock()
	var hung []*core // in the tree, with a context that net/http or others made
	for in := c.inner; in != nil; in = in.place.next {
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
		all = append(all, g.Straggler)
	}
	return all
}

// An overdueTask is a straggler on its way into a report.
type overdueTask struct {
	core *core
	task *task // nil: the body
	Straggler
}

// appendOverdue adds the stragglers of c and of all that is open below it. With
// again, also those reported already and those of scopes that look after their
// own.
func (c *core) appendOverdue(to []overdueTask, again bool) []overdueTask {
	c.node.Mu.Lock()
	var live []*task
	for t := c.tasks; t != nil; t = t.next {
		if t.mode&marker == 0 && (again || t.mode&service == 0) {
			live = append(live, t)
		}
	}
	if again {
		for t := c.left; t != nil; t = t.next {
			live = append(live, t)
		}
	}
	// A body that waits for its tasks is not what keeps the scope.
	e := c.node.Ending()
	body := c.phase == open && c.waiters == nil && c.taskWaits == 0 && (again || !c.bodyReported) && e != nil && c.body != 0
	c.bodyReported = c.bodyReported || body
	c.node.Mu.Unlock()
	for _, t := range live {
		to = t.appendOverdue(to, again)
	}
	if body && !c.bodyInside() {
		to = append(to, overdueTask{core: c, Straggler: Straggler{
			Scope: c.node.Path(), Function: writtenIn(c.body), Overdue: sinceEnd(e),
		}})
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

// appendOverdue adds t, unless it has ended or been reported.
func (t *task) appendOverdue(to []overdueTask, again bool) []overdueTask {
	c := t.core
	c.node.Mu.Lock()
	e := t.ending()
	late := e != nil && (again && (!t.done || t.abandoned) || !t.done && !t.reported)
	t.reported = t.reported || late
	c.node.Mu.Unlock()
	if !late {
		return to
	}
	return append(to, overdueTask{core: c, task: t, Straggler: Straggler{
		Scope: c.node.Path(), Task: t.name, Function: where(t.work.origin()), Overdue: sinceEnd(e),
	}})
}

func sinceEnd(e *ctxnode.Ending) time.Duration {
	if e.At.IsZero() {
		return 0
	}
	return time.Since(e.At)
}

// deliver reports stragglers, and does what their scopes want done about them.
func deliver(found []overdueTask) {
	if len(found) == 0 {
		return
	}
	for _, g := range told(found) {
		g.core.countStraggler()
		if tr := g.core.trace(); tr != nil && tr.Straggler != nil {
			tr.Straggler(g.Straggler)
		} else {
			logStraggler(g.Straggler)
		}
	}
	for i := range found {
		g := &found[i]
		switch g.core.thenWhat() {
		case Crash:
			panic(fmt.Sprintf("scope: %v\n\n%s", g.Straggler, g.Stack))
		case Abandon:
			if g.task != nil {
				g.core.abandon(g.task)
			}
		}
	}
}

// The log must not become the next thing that a slow machine suffers from: when
// one dependency hangs, thousands of tasks may overstay at once, each with its
// stack, or thousands of background tasks fail. So the process logs five such
// reports, then one a second, and counts the others. In a synctest bubble all are logged: its clock cannot tell when the last
// was, and a test would depend on those that ran before it.
var (
	logged   = rate.NewLimiter(rate.Every(time.Second), 5)
	unlogged atomic.Int64
)

func logStraggler(g Straggler) {
	logSome(slog.LevelWarn, "scope: straggler", "scope", g.Scope, "task", g.Task, "function", g.Function,
		"overdue", g.Overdue, "stack", g.Stack)
}

func logSome(level slog.Level, message string, args ...any) {
	if !ofBubble(time.Now()) && !logged.Allow() {
		unlogged.Add(1)
		return
	}
	if n := unlogged.Swap(0); n > 0 {
		args = append(args, "unlogged", n)
	}
	slog.Default().Log(context.Background(), level, message, args...)
}

func (c *core) countStraggler() {
	c.node.Mu.Lock()
	c.stragglers++
	c.node.Mu.Unlock()
}

func (c *core) thenWhat() Then {
	c.node.Mu.Lock()
	defer c.node.Mu.Unlock()
	return c.then
}

// abandon goes on without t. What it would have brought back is cut off.
func (c *core) abandon(t *task) {
	c.node.Mu.Lock()
	node := t.context().Node()
	own := node.Ending()
	if t.done || t.settling || own == nil {
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
	c.orphans++
	t.next = c.left
	if t.next != nil {
		t.next.prev = t
	}
	c.left = t
	c.node.Idle.Broadcast()
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
		c.node.Idle.Wait()
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

// where names a function and the place where it is written.
func where(f any) string {
	v := reflect.ValueOf(f)
	if v.Kind() != reflect.Func {
		return unknownFunction
	}
	return writtenIn(v.Pointer())
}

// writtenIn names the function that begins at entry.
func writtenIn(entry uintptr) string {
	fn := runtime.FuncForPC(entry)
	if fn == nil {
		return unknownFunction
	}
	file, line := fn.FileLine(fn.Entry())
	return fmt.Sprintf("%s %s:%d", fn.Name(), file, line)
}

const unknownFunction = "unknown function"

// entryOf returns where the function f begins. To keep f itself for reports would
// move every closure that is a body to the heap, and reflect does as well.
func entryOf[F any](f F) uintptr {
	return **(**uintptr)(unsafe.Pointer(&f))
}

// noteOverrun keeps the longest time that a task went on after its context's end.
func (c *core) noteOverrun(d time.Duration) {
	if d == 0 {
		return
	}
	c.node.Mu.Lock()
	c.overrun = max(c.overrun, d)
	c.node.Mu.Unlock()
}
