package scopetest_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/curfew-go/curfew/scope"
)

// A recorder is a testing.TB that notes failures and ends when it is told.
type recorder struct {
	testing.TB
	ctx    context.Context
	cancel context.CancelFunc

	mu       sync.Mutex
	failures []string
	fatal    bool
	cleanups []func()
}

func record(t testing.TB) *recorder {
	named := context.WithValue(context.Background(), nameKey{}, t.Name())
	ctx, cancel := context.WithCancel(scope.WithTrace(named, &quiet))
	t.Cleanup(cancel)
	return &recorder{TB: t, ctx: ctx, cancel: cancel}
}

type nameKey struct{}

// quiet takes what scopes report of what the tests leave behind, on purpose.
var quiet = scope.Trace{
	Straggler:         func(scope.Straggler) {},
	TaskPanicked:      func(*scope.PanicError) {},
	CleanupLeftBehind: func(string, string, time.Duration) {},
}

func (r *recorder) Context() context.Context { return r.ctx }

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	r.fatal = true
	runtime.Goexit()
}

func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }

// end ends the test as package testing does, and returns its failures.
func (r *recorder) end() []string {
	r.cancel()
	for i := len(r.cleanups); i > 0; i-- {
		r.cleanups[i-1]()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failures
}

// A timedRecorder is a recorder whose test binary has a timeout.
type timedRecorder struct {
	*recorder
	left time.Duration
}

func (r timedRecorder) Deadline() (time.Time, bool) { return time.Now().Add(r.left), true }

// lineBelow returns the place d lines below its call.
func lineBelow(d int) string {
	_, file, line, _ := runtime.Caller(1)
	return fmt.Sprintf("%s:%d", file, line+d)
}

// goexits reports whether f ends its goroutine by Goexit.
func goexits(f func()) bool {
	returned := false
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
		returned = true
	}()
	<-done
	return !returned
}

func oneLine(failures []string) string { return strings.Join(failures, "\n") }
