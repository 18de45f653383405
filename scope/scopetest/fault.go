package scopetest

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/curfew-go/curfew/scope/internal/lab"
)

// A Point is an instant in the life of a task or a cleanup.
type Point uint8

const (
	// Spawn is when a task is started, on the goroutine that calls Go, Fork or
	// the like, before it waits for a slot. A task that is skipped has it too; the
	// items of Map and Each do not.
	Spawn = Point(lab.Spawn)
	// Start is on the task's goroutine, before its function. A task that Restart
	// starts again comes by each time.
	Start = Point(lab.Start)
	// Join is on the task's goroutine, after its function has returned and before
	// anybody learns of it, but for the value of an attempt in a race, which counts
	// as soon as it is returned. A function that panicked does not get there.
	Join = Point(lab.Join)
	// Cleanup is on a cleanup's goroutine, before its function. A cleanup has no
	// other points, and its path is that of its scope with its own name.
	Cleanup = Point(lab.Cleanup)
)

var pointNames = [...]string{Spawn: "Spawn", Start: "Start", Join: "Join", Cleanup: "Cleanup"}

// String returns the name of the point.
func (p Point) String() string {
	if int(p) < len(pointNames) {
		return pointNames[p]
	}
	return fmt.Sprintf("Point(%d)", uint8(p))
}

// A Place is where a fault happens: At makes one, and its methods say what happens
// there.
type Place struct {
	pattern string
	point   Point
}

// At returns the place p in the life of every task whose path matches pattern:
// the names of its scopes and its own, joined by slashes, as in "page/price". The
// pattern is that of [path.Match], so "page/*" means all tasks of one scope. The
// items of a Map and the functions of a race are called by their number, as in
// "page/prices/3". A malformed or empty pattern and an unknown Point panic.
//
// To be deterministic a test names one task: of several that match, which one
// comes first is the scheduler's choice.
func At(pattern string, p Point) Place {
	mustBePattern("At", pattern)
	if p > Cleanup {
		panic(fmt.Sprintf("scopetest: At(%q): unknown %v", pattern, p))
	}
	return Place{pattern, p}
}

// String returns the place as it is written.
func (p Place) String() string { return fmt.Sprintf("At(%q, %v)", p.pattern, p.point) }

// A Fault is something that happens at a Place once it is given to [Inject], which
// takes it once. It may be asked from any goroutine.
type Fault struct {
	place    Place
	what     action
	name     string
	times    int // 0: always
	hits     atomic.Int64
	injected atomic.Pointer[string] // where, for reports; nil: not yet
}

// Fail makes the task or the cleanup fail with err: at Spawn, Start and Cleanup
// without running its function, at Join in place of what that returned. A nil err
// panics.
func (p Place) Fail(err error) *Fault {
	if err == nil {
		panic(fmt.Sprintf("scopetest: %v.Fail: nil error", p))
	}
	return &Fault{place: p, what: fail{err}, name: fmt.Sprintf("Fail(%q)", err.Error())}
}

// Panic makes the goroutine at the place panic with value: at Spawn that of the
// caller of Go, else that of the task or the cleanup. A nil value panics at once.
func (p Place) Panic(value any) *Fault {
	if value == nil {
		panic(fmt.Sprintf("scopetest: %v.Panic: nil value", p))
	}
	return &Fault{place: p, what: panics{value}, name: fmt.Sprintf("Panic(%v)", value)}
}

// Goexit makes the goroutine at the place end by [runtime.Goexit], as t.FailNow in
// a task does: at Spawn that of the caller of Go.
func (p Place) Goexit() *Fault { return &Fault{place: p, what: goexit{}, name: "Goexit()"} }

// Delay makes the goroutine at the place wait for d, and obey meanwhile: when the
// context of the task ends first, the wait does, and at Start and Cleanup the
// function is not run; the error is then the context's cause. At Join what the
// function returned stands. A d of zero or less panics.
func (p Place) Delay(d time.Duration) *Fault {
	mustBePositive(p, "Delay", d)
	return &Fault{place: p, what: delay(d), name: fmt.Sprintf("Delay(%v)", d)}
}

// Deaf makes the goroutine at the place wait for d and ignore the end of its
// context, as a call without a context does. Then it goes on as if nothing had
// happened. A d of zero or less panics.
func (p Place) Deaf(d time.Duration) *Fault {
	mustBePositive(p, "Deaf", d)
	return &Fault{place: p, what: deaf(d), name: fmt.Sprintf("Deaf(%v)", d)}
}

func mustBePositive(p Place, verb string, d time.Duration) {
	if d <= 0 {
		panic(fmt.Sprintf("scopetest: %v.%s(%v): must be positive", p, verb, d))
	}
}

// Times makes f happen to the first n that come by, and to none after them. By
// default it happens to all. It returns f, before it is given to Inject; n below 1
// and a later call panic.
func (f *Fault) Times(n int) *Fault {
	if n < 1 {
		panic(fmt.Sprintf("scopetest: %v: Times(%d): must be at least 1", f, n))
	}
	if f.injected.Load() != nil {
		panic(fmt.Sprintf("scopetest: %v: Times after Inject", f))
	}
	f.times = n
	return f
}

// Hits returns how often f has happened so far.
func (f *Fault) Hits() int { return int(f.hits.Load()) }

// String returns the fault as it is written.
func (f *Fault) String() string {
	s := f.place.String() + "." + f.name
	if f.times > 0 {
		s += fmt.Sprintf(".Times(%d)", f.times)
	}
	return s
}
