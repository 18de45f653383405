package scope

import (
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// A live stack costs a profile of all goroutines, for which the world stops:
// about a second with 100,000 of them. So there is one for all reports of the
// process, and a new one after stacksFresh at the earliest.
const (
	stacksFresh = 10 * time.Second
	stacksMax   = 64 << 20 // bytes of a profile; what does not fit has no stack
)

// stacks is a profile: the stacks of the goroutines of tasks.
type stacks struct {
	number uint32                // how many were taken up to this one
	byTask map[uintptr]taskStack // by the task's address
}

// A taskStack is the stack of a goroutine that runs a task.
type taskStack struct {
	text      string
	innermost uintptr // the address of the task for which the others on it wait
}

// shared is the profile that all reports share.
var shared struct {
	mu    sync.Mutex
	taken time.Time
	stacks
	// count is how many profiles were taken. A task that began at the present
	// count is not in the profile: what stands there at its address is another,
	// which has ended since.
	count atomic.Uint32
}

// recentStacks returns the shared profile, taken anew when it is too old.
func recentStacks() stacks {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	now := time.Now()
	if age := now.Sub(shared.taken); shared.byTask == nil || ofBubble(now) || age < 0 || age >= stacksFresh {
		shared.number = shared.count.Add(1)
		shared.taken, shared.byTask = now, allStacks()
	}
	return shared.stacks
}

// ofBubble reports whether an instant is one of a synctest bubble, which has no
// monotonic part. It says nothing about what happened in another bubble, or outside.
func ofBubble(now time.Time) bool { return now == now.Round(0) }

// of returns the stack of t's goroutine, empty when it is not in the profile.
func (s stacks) of(t *task) taskStack {
	if t.profiles >= s.number {
		return taskStack{}
	}
	return s.byTask[uintptr(unsafe.Pointer(t))]
}

// told gives the stragglers their stacks, and returns those to tell of: the others
// only wait for tasks that stand among them, too.
func told(found []overdueTask) []*overdueTask {
	stacks := recentStacks()
	var among map[uintptr]bool // made once one is asked for
	isAmong := func(addr uintptr) bool {
		if among == nil {
			among = make(map[uintptr]bool, len(found))
			for i := range found {
				if t := found[i].task; t != nil {
					among[uintptr(unsafe.Pointer(t))] = true
				}
			}
		}
		return among[addr]
	}
	all := make([]*overdueTask, 0, len(found))
	for i := range found {
		g := &found[i]
		if g.task != nil {
			on := stacks.of(g.task)
			g.stack = on.text
			runsOther := on.innermost != uintptr(unsafe.Pointer(g.task)) && on.innermost != 0 && isAmong(on.innermost)
			if runsOther || waitsForTasks(g.stack) {
				continue
			}
		}
		all = append(all, g)
	}
	return all
}

// allStacks profiles all goroutines and keeps those of tasks.
func allStacks() map[uintptr]taskStack {
	// Large enough for most, since each try costs as much as all of it.
	buf := make([]byte, min(max(runtime.NumGoroutine()<<10, 1<<20), stacksMax))
	for {
		n := runtime.Stack(buf, true)
		if n < len(buf) || len(buf) >= stacksMax {
			buf = buf[:n]
			break
		}
		buf = make([]byte, min(2*len(buf), stacksMax))
	}
	found := map[uintptr]taskStack{}
	for rest := string(buf); rest != ""; {
		var one string
		one, rest, _ = strings.Cut(rest, "\n\n")
		var on taskStack
		for after := one; ; {
			addr, next, ok := nextRunFrame(after)
			if !ok {
				break
			}
			if addr != 0 {
				if on.innermost == 0 {
					on = taskStack{strings.Clone(one), addr}
				}
				found[addr] = on
			}
			after = next
		}
	}
	return found
}

// waitsForTasks reports whether a stack is that of a goroutine that waits for
// other tasks.
func waitsForTasks(stack string) bool {
	for _, frame := range waitFrames {
		if strings.Contains(stack, frame) {
			return true
		}
	}
	return false
}

var waitFrames = func() []string {
	run := runtime.FuncForPC(runEntry).Name()
	prefix := strings.TrimSuffix(run, "(*task).run")
	return []string{prefix + "(*core).joinLocked(", prefix + "(*Scope).Wait(", prefix + "(*task).wait("}
}()
