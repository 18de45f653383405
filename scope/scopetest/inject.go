package scopetest

import (
	"context"
	"fmt"
	"path"
	"runtime"
	"time"

	"github.com/curfew-go/curfew/scope/internal/lab"
)

// Inject makes the faults happen in the scopes of the test that ctx belongs to,
// from now on and until the test ends. Faults of one place happen in the order in
// which they were injected; one that fails, panics or exits ends the row. A fault
// that never happened fails the test: it was aimed at a task that is not there.
//
// A ctx that does not come from [Context], a nil fault and one that was injected
// before panic.
func Inject(ctx context.Context, faults ...*Fault) {
	c := testerOf("Inject", ctx)
	at := "an unknown line"
	if _, file, line, ok := runtime.Caller(1); ok {
		at = fmt.Sprintf("%s:%d", file, line)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, f := range faults {
		if f == nil {
			panic(fmt.Sprintf("scopetest: Inject: fault %d is nil", i))
		}
		if !f.injected.CompareAndSwap(nil, &at) {
			panic(fmt.Sprintf("scopetest: Inject: %v was injected before", f))
		}
		c.faults = append(c.faults, f)
	}
}

// at lets the faults of a place happen.
func (c *tester) at(ctx context.Context, p lab.Point, scope, task string) error {
	full := scope + "/" + task
	c.mu.Lock()
	faults := c.faults // only ever appended to
	c.mu.Unlock()
	for _, f := range faults {
		if f.place.point != Point(p) || !f.meets(full) {
			continue
		}
		if err := f.what.happen(ctx, f.place.point); err != nil {
			return err
		}
	}
	return nil
}

// meets reports whether f happens to the task of that path, and counts it.
func (f *Fault) meets(full string) bool {
	if ok, _ := path.Match(f.place.pattern, full); !ok {
		return false
	}
	for {
		n := f.hits.Load()
		if f.times > 0 && n >= int64(f.times) {
			return false
		}
		if f.hits.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// An action is what a fault does. An error of it is that of the task.
type action interface {
	happen(ctx context.Context, p Point) error
}

type (
	fail   struct{ err error }
	panics struct{ value any }
	goexit struct{}
	delay  time.Duration
	deaf   time.Duration
)

func (a fail) happen(context.Context, Point) error   { return a.err }
func (a panics) happen(context.Context, Point) error { panic(a.value) }

func (goexit) happen(context.Context, Point) error {
	runtime.Goexit()
	return nil
}

func (a delay) happen(ctx context.Context, p Point) error {
	timer := time.NewTimer(time.Duration(a))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		if p == Start || p == Cleanup {
			return context.Cause(ctx)
		}
	}
	return nil
}

func (a deaf) happen(context.Context, Point) error {
	<-time.After(time.Duration(a))
	return nil
}
