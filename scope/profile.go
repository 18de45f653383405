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

// stacks maps tasks, by address, to the stacks of their goroutines.
type stacks map[uintptr]string

// shared is the profile that all reports share.
var shared struct {
	mu    sync.Mutex
	taken time.Time
	stacks
	// count is how many profiles were taken. A task that began at the present
	// count is not in the profile: what stands there at its address is another,
	// which has ended since.
	count atomic.Uint64
}

// recentStacks returns the shared profile, taken anew when it is too old.
func recentStacks() stacks {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	now := time.Now()
	// Time without a monotonic part is that of a synctest bubble: it says nothing
	// about another bubble's profile.
	bubble := now == now.Round(0)
	if age := now.Sub(shared.taken); shared.stacks == nil || bubble || age < 0 || age >= stacksFresh {
		shared.count.Add(1)
		shared.taken, shared.stacks = now, allStacks()
	}
	return shared.stacks
}

// of returns the stack of t's goroutine, empty when it is not in the profile.
func (s stacks) of(t *task) string {
	if t.profiles == shared.count.Load() {
		return ""
	}
	return s[uintptr(unsafe.Pointer(t))]
}

// allStacks profiles all goroutines and keeps those of tasks. Each goes to the
// innermost task on it: those that run it on their own goroutine wait for it.
func allStacks() stacks {
	buf := make([]byte, 1<<20)
	for {
		n := runtime.Stack(buf, true)
		if n < len(buf) || len(buf) >= stacksMax {
			buf = buf[:n]
			break
		}
		buf = make([]byte, 2*len(buf))
	}
	found := stacks{}
	for rest := string(buf); rest != ""; {
		var one string
		one, rest, _ = strings.Cut(rest, "\n\n")
		for after := one; ; {
			addr, next, ok := nextRunFrame(after)
			if !ok {
				break
			}
			if addr != 0 {
				if _, known := found[addr]; !known {
					found[addr] = strings.Clone(one)
				}
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
	return []string{prefix + "(*core).join(", prefix + "(*Scope).Wait(", prefix + "(*task).wait("}
}()
