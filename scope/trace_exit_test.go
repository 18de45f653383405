package scope_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
)

// exiting is a Trace whose functions all call Goexit, as those of a test do that
// call FailNow.
var exiting = &scope.Trace{
	TaskEnded:         func(string, string, error, time.Duration) { goexit() },
	TaskSkipped:       func(string, string, error) { goexit() },
	TaskPanicked:      func(*scope.PanicError) { goexit() },
	TaskFailed:        func(string, string, error) { goexit() },
	TaskRestarted:     func(string, string, error, time.Duration) { goexit() },
	Straggler:         func(scope.Straggler) { goexit() },
	OrphanEnded:       func(string, string, error, time.Duration) { goexit() },
	CleanupLeftBehind: func(string, string, time.Duration) { goexit() },
}

// TestAGoexitInATraceKeepsNoScopeOpen: a function of a Trace that ends its goroutine
// hides nothing from those who wait for the task on it.
func TestAGoexitInATraceKeepsNoScopeOpen(t *testing.T) {
	boom := errors.New("boom")
	for name, body := range map[string]func(ctx context.Context, s *scope.Scope) error{
		"task": func(_ context.Context, s *scope.Scope) error {
			s.Go("t", func(context.Context) error { return nil })
			return nil
		},
		"on the caller's goroutine": func(ctx context.Context, _ *scope.Scope) error {
			return scope.Each(ctx, "each", 1, []int{1}, func(context.Context, int) error { return nil })
		},
		"on that of a helper": func(ctx context.Context, _ *scope.Scope) error {
			return scope.Each(ctx, "each", 8, make([]int, 20), func(context.Context, int) error { return nil })
		},
		"failure": func(_ context.Context, s *scope.Scope) error {
			s.Go("t", func(context.Context) error { return boom })
			return nil
		},
		"skipped": func(_ context.Context, s *scope.Scope) error {
			s.Cancel(nil)
			s.Go("t", func(context.Context) error { return nil })
			return nil
		},
		"restart": func(_ context.Context, s *scope.Scope) error {
			s.Restart(scope.Backoff{}).Go("t", func(context.Context) error { return boom })
			return nil
		},
		"orphan": func(_ context.Context, s *scope.Scope) error {
			s.SetStragglers(time.Second, scope.Abandon)
			s.Cancel(nil)
			s.Go("deaf", deafFor(5*time.Second))
			return nil
		},
		"panic of a task": func(_ context.Context, s *scope.Scope) error {
			s.Go("t", func(context.Context) error { panic(boom) })
			return nil
		},
		"panic of a cleanup": func(_ context.Context, s *scope.Scope) error {
			s.Cleanup("c", func(context.Context) error { panic(boom) })
			return nil
		},
		"cleanup left behind": func(_ context.Context, s *scope.Scope) error {
			s.Cleanup("c", deafFor(5*time.Second))
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				var s1 *scope.Scope
				done := make(chan struct{})
				go func() { // Run may end its goroutine
					defer close(done)
					defer func() { recover() }()
					scope.Run(scope.WithTrace(t.Context(), exiting), "x", budget.Within(time.Minute), func(ctx context.Context, s *scope.Scope) error {
						s1 = s
						return body(ctx, s)
					})
				}()
				<-done
				assert.Less(t, time.Since(start), 5*time.Second)
				time.Sleep(10 * time.Second)
				assert.Zero(t, s1.Stats().Live)
				assert.Zero(t, s1.Stats().Orphans)
			})
		})
	}
}

// TestATraceMayCallBackIntoTheScope: also the one that is told of a straggler.
func TestATraceMayCallBackIntoTheScope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s1 *scope.Scope
		ran := 0
		ctx := scope.WithTrace(t.Context(), &scope.Trace{Straggler: func(scope.Straggler) {
			s1.Go("called back", func(context.Context) error { ran++; return nil })
			assert.Equal(t, 1, s1.Stats().Stragglers)
		}})
		err := scope.Run(ctx, "x", budget.Within(time.Minute), func(_ context.Context, s *scope.Scope) error {
			s1 = s
			s.SetSlots(2)
			s.Limit(budget.Within(time.Second)).Go("deaf", deafFor(10*time.Second))
			return nil
		})
		assert.NoError(t, err)
		assert.Equal(t, 1, ran)
	})
}
