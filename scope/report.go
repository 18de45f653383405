package scope

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/time/rate"
)

// An overdueTask is a straggler on its way into a report. When very many tasks are
// cancelled at once, many are on it, and few of them are put into words: see logSome.
type overdueTask struct {
	core    *core
	task    *task // nil: the body
	origin  any   // the function of task: an All that has returned does not know it any more
	overdue time.Duration
	stack   string
}

// overdueLocked puts t, which runs, on its way.
func (t *task) overdueLocked(now time.Time) overdueTask {
	return overdueTask{core: t.core, task: t, origin: t.work.origin(t), overdue: sinceEnd(now, t.ending())}
}

// words puts g into words.
func (g *overdueTask) words() Straggler {
	s := Straggler{Scope: g.core.node.Path(), Overdue: g.overdue, Stack: g.stack}
	if g.task == nil {
		s.Function = writtenIn(g.core.body)
	} else {
		s.Task, s.Function = g.task.title(), where(g.origin)
	}
	return s
}

// deliver reports stragglers, and does what their scopes want done about them.
func deliver(found []overdueTask) {
	if len(found) == 0 {
		return
	}
	for _, g := range told(found) {
		g.core.countStraggler()
		if tr := g.core.trace(); tr != nil && tr.Straggler != nil {
			tr.Straggler(g.words())
		} else if mayLog() {
			s := g.words()
			logNow(slog.LevelWarn, "scope: straggler", "scope", s.Scope, "task", s.Task, "function", s.Function,
				"overdue", s.Overdue, "stack", s.Stack)
		}
	}
	for i := range found {
		g := &found[i]
		switch g.core.thenWhat() {
		case Crash:
			panic(fmt.Sprintf("scope: %v\n\n%s", g.words(), g.stack))
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
// reports, then one a second, and counts the others. In a synctest bubble all are
// logged: its clock cannot tell when the last was, and a test would depend on those
// that ran before it.
var (
	logged   = rate.NewLimiter(rate.Every(time.Second), 5)
	unlogged atomic.Int64
)

func logSome(level slog.Level, message string, args ...any) {
	if mayLog() {
		logNow(level, message, args...)
	}
}

// mayLog reports whether the next report is to be logged, and counts it if not.
func mayLog() bool {
	if ofBubble(time.Now()) || logged.Allow() {
		return true
	}
	unlogged.Add(1)
	return false
}

func logNow(level slog.Level, message string, args ...any) {
	if n := unlogged.Swap(0); n > 0 {
		args = append(args, "unlogged", n)
	}
	slog.Default().Log(context.Background(), level, message, args...)
}

func (c *core) countStraggler() {
	c.node.Mu.Lock()
	c.ownLocked().stragglers++
	c.node.Mu.Unlock()
}

func (c *core) thenWhat() Then {
	c.node.Mu.Lock()
	defer c.node.Mu.Unlock()
	return c.then
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
