package scope_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime/pprof"
	"runtime/trace"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
)

// An eventLog writes down what a Trace is called with.
type eventLog struct {
	mu     sync.Mutex
	events []string
}

func (l *eventLog) add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, fmt.Sprintf(format, args...))
}

func (l *eventLog) trace(who string) *scope.Trace {
	return &scope.Trace{
		TaskStarted: func(sc, task string) { l.add("%s: %s/%s started", who, sc, task) },
		TaskEnded: func(sc, task string, err error, overrun time.Duration) {
			l.add("%s: %s/%s ended %v %v", who, sc, task, err, overrun)
		},
	}
}

func TestATraceSeesEveryTaskBelow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log eventLog
		ctx := scope.WithTrace(t.Context(), log.trace("a"))
		boom := errors.New("boom")
		scope.Run(ctx, "shop", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
			s.Go("first", func(ctx context.Context) error {
				return scope.Run(ctx, "inner", budget.Inherited(), func(ctx context.Context, s *scope.Scope) error {
					s.Go("deep", func(context.Context) error { return nil })
					return nil
				})
			})
			s.Wait()
			_, err := scope.Map(ctx, "map", 1, []int{0}, func(context.Context, int) (int, error) { return 0, nil })
			require.NoError(t, err)
			s.Go("slow", func(ctx context.Context) error { <-ctx.Done(); time.Sleep(time.Second); return nil })
			return boom
		})
		assert.Equal(t, []string{
			"a: shop/first started",
			"a: shop/first/inner/deep started",
			"a: shop/first/inner/deep ended <nil> 0s",
			"a: shop/first ended <nil> 0s",
			"a: shop/map/0 started",
			"a: shop/map/0 ended <nil> 0s",
			"a: shop/slow started",
			"a: shop/slow ended <nil> 1s",
		}, log.events)
	})
}

// TestTracesCompose: the inner one is called first, as with httptrace.
func TestTracesCompose(t *testing.T) {
	var log eventLog
	inner := log.trace("inner")
	inner.TaskEnded = nil
	inner.TaskSkipped = func(_, task string, _ error) { log.add("inner: %s skipped", task) }
	outer := scope.WithTrace(t.Context(), log.trace("outer"))
	both := scope.WithTrace(outer, inner)
	run := func(ctx context.Context) {
		scope.Run(ctx, "shop", budget.Within(time.Hour), func(_ context.Context, s *scope.Scope) error {
			s.Go("task", func(context.Context) error { return nil })
			s.Wait()
			s.Cancel(nil)
			s.Go("late", func(context.Context) error { return nil })
			return nil
		})
	}
	run(both)
	assert.Equal(t, []string{"inner: shop/task started", "outer: shop/task started", "outer: shop/task ended <nil> 0s", "inner: late skipped"}, log.events)
	log.events = nil
	run(outer)
	assert.Equal(t, []string{"outer: shop/task started", "outer: shop/task ended <nil> 0s"}, log.events, "the outer one is unchanged")
	assert.Contains(t, recovered(func() { scope.WithTrace(t.Context(), nil) }), "nil Trace")
}

// TestCase62_ScopeAndTaskStandInProfilesAndInTheTree: both names are labels of the
// goroutine, beside those that the caller has set.
func TestCase62_ScopeAndTaskStandInProfilesAndInTheTree(t *testing.T) {
	root := scope.NewRoot("shop")
	profile := func() string {
		var b bytes.Buffer
		require.NoError(t, pprof.Lookup("goroutine").WriteTo(&b, 1))
		return b.String()
	}
	labelled := pprof.WithLabels(root.Context(), pprof.Labels("tenant", "t-1"))
	require.NoError(t, scope.Run(root.Context(), "checkout", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
		begun, release := make(chan struct{}, 3), make(chan struct{})
		park := func(context.Context) error { begun <- struct{}{}; <-release; return nil }
		s.Go("fetch-user", park)
		s.Go("fetch-orders", park)
		pprof.Do(labelled, pprof.Labels(), func(ctx context.Context) {
			go scope.Run(ctx, "pricing", budget.Within(time.Hour), func(_ context.Context, s *scope.Scope) error {
				s.Go("quote", park)
				return nil
			})
		})
		for range 3 {
			<-begun
		}
		seen := profile()
		assert.Contains(t, seen, `# labels: {"scope":"checkout", "task":"fetch-user"}`)
		assert.Contains(t, seen, `# labels: {"scope":"checkout", "task":"fetch-orders"}`)
		assert.Contains(t, seen, `# labels: {"scope":"pricing", "task":"quote", "tenant":"t-1"}`)
		var b strings.Builder
		require.NoError(t, root.WriteText(&b))
		assert.Regexp(t, `scope checkout: open, age \S+, \S+ left`, b.String())
		assert.Regexp(t, `task fetch-user: running, age \S+, \S+ left`, b.String())
		close(release)
		return nil
	}))
	require.NoError(t, drainWithin(t, root, time.Minute))
}

// TestLabelsAreGivenBack: an item that ran on the caller's goroutine leaves that
// with the labels of its own task.
func TestLabelsAreGivenBack(t *testing.T) {
	root := scope.NewRoot("shop")
	require.NoError(t, scope.Run(root.Context(), "checkout", budget.Within(time.Hour), func(_ context.Context, s *scope.Scope) error {
		s.Go("fan-out", func(ctx context.Context) error {
			if err := scope.Each(ctx, "items", 1, []int{1, 2}, func(context.Context, int) error { return nil }); err != nil {
				return err
			}
			var b bytes.Buffer
			pprof.Lookup("goroutine").WriteTo(&b, 1)
			assert.Contains(t, b.String(), `# labels: {"scope":"checkout", "task":"fan-out"}`)
			assert.NotContains(t, b.String(), `"scope":"items"`)
			return nil
		})
		return nil
	}))
}

// TestScopesAndTasksStandInAnExecutionTrace reads the names from the trace's
// string table.
func TestScopesAndTasksStandInAnExecutionTrace(t *testing.T) {
	var b bytes.Buffer
	if err := trace.Start(&b); err != nil {
		t.Skip("somebody else takes a trace: ", err)
	}
	err := scope.Run(t.Context(), "traced-scope", budget.Within(time.Hour), func(_ context.Context, s *scope.Scope) error {
		s.Go("traced-task", func(context.Context) error { return nil })
		return nil
	})
	trace.Stop()
	require.NoError(t, err)
	assert.Contains(t, b.String(), "traced-scope")
	assert.Contains(t, b.String(), "traced-task")
}
