package race_test

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
)

// An aKey is the key of a value in a context.
type aKey struct{}

// startLine returns a function that n goroutines call to go on together, or a
// few yields apart, so that each of them is the faster one at times. It spins:
// a channel would wake them one after the other.
func startLine(n int64) (wait func()) {
	var there atomic.Int64
	return func() {
		there.Add(1)
		for there.Load() < n {
			runtime.Gosched()
		}
		for range rand.IntN(4) {
			runtime.Gosched()
		}
	}
}

// inScope runs body in a scope with a minute's time, and fails for its error.
func inScope(t *testing.T, body func(context.Context, *scope.Scope)) {
	t.Helper()
	assert.NoError(t, scope.Run(context.Background(), "request", budget.Within(time.Minute), func(ctx context.Context, s *scope.Scope) error {
		body(ctx, s)
		return nil
	}))
}

// after returns an attempt that answers v when d has passed, unless it is
// cancelled.
func after[T any](d time.Duration, v T) func(context.Context) (T, error) {
	return afterErr(d, v, nil)
}

// failsAfter returns an attempt that fails when d has passed, unless it is
// cancelled.
func failsAfter(d time.Duration, err error) func(context.Context) (string, error) {
	return afterErr(d, "", err)
}

func afterErr[T any](d time.Duration, v T, err error) func(context.Context) (T, error) {
	return func(ctx context.Context) (T, error) {
		select {
		case <-time.After(d):
			return v, err
		case <-ctx.Done():
			var zero T
			return zero, context.Cause(ctx)
		}
	}
}

// deaf returns an attempt that answers v when d has passed, whatever its context
// says.
func deaf[T any](d time.Duration, v T) func(context.Context) (T, error) {
	return func(context.Context) (T, error) {
		time.Sleep(d)
		return v, nil
	}
}

// byAttempt returns a function for a hedge whose attempts do what fs say.
func byAttempt[T any](fs ...func(context.Context) (T, error)) func(context.Context) (T, error) {
	var began atomic.Int64
	return func(ctx context.Context) (T, error) { return fs[began.Add(1)-1](ctx) }
}

// every returns an After that always answers d.
func every(d time.Duration) func() time.Duration { return func() time.Duration { return d } }

// A countingGate refuses from the nth question on, and counts.
type countingGate struct {
	grants        int64
	asked, denied atomic.Int64
}

func (g *countingGate) TryTake() bool {
	if g.asked.Add(1) > g.grants {
		g.denied.Add(1)
		return false
	}
	return true
}

// A bin counts how often each value was disposed of.
type bin struct {
	mu   sync.Mutex
	seen map[int]int
}

func (b *bin) put(v int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.seen == nil {
		b.seen = map[int]int{}
	}
	b.seen[v]++
}

func (b *bin) contents() map[int]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := map[int]int{}
	for v, n := range b.seen {
		c[v] = n
	}
	return c
}

// backToBase waits until no more goroutines run than did before.
func backToBase(t *testing.T, base int) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > base; runtime.Gosched() {
		if time.Now().After(end) {
			t.Errorf("%d goroutines, %d at the start", runtime.NumGoroutine(), base)
			return
		}
	}
}
