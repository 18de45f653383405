package bench

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// patience is how long a cancel may take before its tasks are counted as deaf.
const patience = 10 * time.Second

var errBoom = errors.New("boom")

// A canceller starts n tasks and one that fails, and returns what the group does.
// The task that fails calls fail, which returns the error to fail with.
type canceller func(n int, task, fail func(context.Context) error) error

// A trial is one cancel of n tasks, from the failure until the group returned.
type trial struct {
	parked, left atomic.Int64
	ready        chan struct{} // closed once all tasks are parked
	release      chan struct{} // closed when patience is over, to let deaf tasks go
	failed, seen time.Time     // seen is when the last task observed the end
	ignored      atomic.Int64
}

// measure runs one trial. wait is what a task does until its context ends, or until
// release is closed, whichever is first; it says whether that was the context.
func measure(n int, patience time.Duration, start canceller, wait func(ctx context.Context, release <-chan struct{}) bool) []Metric {
	t := &trial{ready: make(chan struct{}), release: make(chan struct{})}
	t.left.Store(int64(n))
	var once sync.Once
	letGo := func() { once.Do(func() { close(t.release) }) }
	var watchdog atomic.Pointer[time.Timer]
	_ = start(n, func(ctx context.Context) error {
		if t.parked.Add(1) == int64(n) {
			close(t.ready)
		}
		if !wait(ctx, t.release) {
			t.ignored.Add(1)
		}
		if t.left.Add(-1) == 0 {
			t.seen = time.Now()
		}
		return ctx.Err()
	}, func(context.Context) error {
		<-t.ready
		runtime.Gosched()
		watchdog.Store(time.AfterFunc(patience, letGo))
		t.failed = time.Now()
		return errBoom
	})
	returned := time.Now()
	watchdog.Load().Stop()
	if deaf := t.ignored.Load(); deaf > 0 {
		return []Metric{{"ignored", float64(deaf)}}
	}
	// What must return before its tasks have ended has told nothing about them.
	if t.left.Load() > 0 {
		letGo()
		return []Metric{{"ignored", float64(t.left.Load())}}
	}
	return []Metric{{"observed-ns", float64(t.seen.Sub(t.failed))}, {"returned-ns", float64(returned.Sub(t.failed))}}
}

// onDone waits on the context of the task itself.
func onDone(ctx context.Context, release <-chan struct{}) bool {
	select {
	case <-ctx.Done():
		return true
	case <-release:
		return false
	}
}

// onTimer is a task between two steps: it waits for a timer or the end.
func onTimer(ctx context.Context, release <-chan struct{}) bool {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return true
	case <-timer.C:
		return false
	case <-release:
		return false
	}
}

// onDerived waits on a context that package context has derived, as a client does
// that sets a timeout of its own.
func onDerived(ctx context.Context, release <-chan struct{}) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	return onDone(ctx, release)
}
