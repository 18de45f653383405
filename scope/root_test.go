package scope_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/stress"
	"github.com/curfew-go/curfew/scope"
)

type requestKey struct{}

// drainWithin drains r in d.
func drainWithin(t *testing.T, r *scope.Root, d time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	return r.Drain(ctx)
}

func TestRootWorkKeepsTheValuesAndDropsTheEndOfItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := scope.NewRoot("shop")
		request, cancel := context.WithTimeout(context.WithValue(context.Background(), requestKey{}, "r-1"), time.Second)
		done := make(chan struct{})
		require.NoError(t, scope.Run(request, "checkout", budget.Inherited(), func(ctx context.Context, _ *scope.Scope) error {
			return root.Go(ctx, "mail", budget.Within(time.Minute), func(ctx context.Context) error {
				defer close(done)
				time.Sleep(10 * time.Second)
				assert.NoError(t, ctx.Err(), "the request is long over")
				assert.Equal(t, "r-1", ctx.Value(requestKey{}))
				left, _ := budget.Remaining(ctx)
				assert.Equal(t, 50*time.Second, left)
				return scope.Run(ctx, "send", budget.Inherited(), func(ctx context.Context, s *scope.Scope) error {
					assert.Equal(t, "curfew(shop/mail/send)", fmt.Sprint(ctx))
					s.Cancel(nil)
					return nil
				})
			})
		}))
		cancel()
		<-done
		require.NoError(t, drainWithin(t, root, time.Second))
	})
}

// TestALimitOfRootWorkStartsAtTheCall: time spent waiting to run counts.
func TestALimitOfRootWorkStartsAtTheCall(t *testing.T) {
	root := scope.NewRoot("shop")
	never := func(context.Context) error { t.Error("it ran"); return nil }
	assert.ErrorIs(t, root.Go(t.Context(), "x", budget.Within(-1), never), context.DeadlineExceeded)
	assert.ErrorIs(t, root.Go(t.Context(), "x", budget.Until(time.Now().Add(-time.Hour)), never), context.DeadlineExceeded)
	assert.Equal(t, budget.LocalBudgetRejected, budget.KindOf(root.Go(t.Context(), "x", budget.Within(time.Second).Require(time.Minute), never)))
	bounded, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	assert.ErrorIs(t, root.Go(bounded, "x", budget.Inherited(), never), budget.ErrNoDeadline, "there is nobody to inherit from")
	require.NoError(t, drainWithin(t, root, time.Second), "nothing of it is left behind")
}

func TestDrainStopsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := scope.NewRoot("shop")
		start := time.Now()
		var mu sync.Mutex
		var order []string
		note := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, fmt.Sprint(what, " ", time.Since(start)))
		}
		root.Cleanup("first", func(context.Context) error { note("cleanup first"); return nil })
		root.Cleanup("second", func(context.Context) error { note("cleanup second"); return nil })
		require.NoError(t, root.Serve("consumer", func(ctx context.Context) error {
			<-scope.Stopping(ctx)
			note("consumer stops taking")
			time.Sleep(time.Second) // brings the last message to an end
			assert.NoError(t, ctx.Err())
			note("consumer ended")
			return nil
		}))
		require.NoError(t, root.Go(t.Context(), "mail", budget.Within(time.Hour), func(ctx context.Context) error {
			<-ctx.Done()
			assert.Equal(t, budget.Shutdown, budget.KindOf(context.Cause(ctx)))
			note("mail cancelled")
			return context.Cause(ctx)
		}))
		synctest.Wait()
		err := drainWithin(t, root, 10*time.Second)
		assert.ErrorContains(t, err, `task "mail" cut short`, "somebody must hear that it was not done")
		assert.Equal(t, []string{
			"consumer stops taking 0s", "consumer ended 1s", "mail cancelled 8s", "cleanup second 8s", "cleanup first 8s",
		}, order)

		never := func(context.Context) error { t.Error("it ran"); return nil }
		for _, err := range []error{root.Serve("late", never), root.Go(t.Context(), "late", budget.Within(1), never)} {
			assert.ErrorIs(t, err, scope.ErrClosed)
			assert.Equal(t, budget.Shutdown, budget.KindOf(err))
			assert.ErrorContains(t, err, "task late")
		}
		assert.ErrorIs(t, recovered(func() { root.Cleanup("late", never) }).(error), scope.ErrClosed)
		assert.Equal(t, budget.Shutdown, budget.KindOf(context.Cause(root.Context())))
	})
}

// TestDrainWaitsForScopesOfRequests: also where net/http has put a context of its
// own between them and the Root.
func TestDrainWaitsForScopesOfRequests(t *testing.T) {
	for name, c := range map[string]struct {
		takes time.Duration
		after time.Duration
		left  []string
	}{
		"one that ends by itself": {time.Second, time.Second, nil},
		"one that is deaf":        {time.Minute, 9 * time.Second, []string{"search/profile"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				root := scope.NewRoot("shop")
				request, cancel := context.WithCancel(root.Context())
				done := make(chan struct{})
				go func() {
					defer close(done)
					defer cancel()
					scope.Run(request, "search", budget.Within(time.Hour), func(_ context.Context, s *scope.Scope) error {
						s.Go("profile", deafFor(c.takes))
						return nil
					})
				}()
				synctest.Wait()
				start := time.Now()
				err := drainWithin(t, root, 10*time.Second)
				assert.Equal(t, c.after, time.Since(start))
				var names []string
				if e := (*scope.DrainError)(nil); errors.As(err, &e) {
					for _, g := range e.Left {
						names = append(names, strings.TrimPrefix(g.Scope+"/"+g.Task, "shop/"))
					}
				}
				assert.Equal(t, c.left, names, "%v", err)
				<-done
			})
		})
	}
}

func TestCase53_OneStuckHookDoesNotStopTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := scope.NewRoot("shop")
		var ran []string
		stuck := make(chan struct{})
		for _, name := range []string{"a", "b", "stuck", "d", "e"} {
			root.Cleanup(name, func(context.Context) error {
				if name == "stuck" {
					<-stuck
				}
				ran = append(ran, name)
				return nil
			})
		}
		start := time.Now()
		err := drainWithin(t, root, 10*time.Second)
		assert.Equal(t, []string{"e", "d", "b", "a"}, ran)
		assert.ErrorIs(t, err, scope.ErrCleanupTimeout)
		assert.ErrorContains(t, err, `"stuck"`)
		assert.LessOrEqual(t, time.Since(start), 10*time.Second)
		close(stuck)
	})
}

func TestDrainReportsWhatDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := scope.NewRoot("shop")
		release := make(chan struct{})
		require.NoError(t, root.Serve("deaf", func(context.Context) error { waitDeaf(release); return nil }))
		require.NoError(t, root.Go(t.Context(), "job", budget.Within(time.Hour), func(ctx context.Context) error {
			return scope.Run(ctx, "inner", budget.Inherited(), func(_ context.Context, s *scope.Scope) error {
				s.Go("deaf too", func(context.Context) error { waitDeaf(release); return nil })
				return nil
			})
		}))
		start := time.Now()
		err := drainWithin(t, root, 10*time.Second)
		assert.Equal(t, 9*time.Second, time.Since(start), "a tenth is kept for cleanups")
		var e *scope.DrainError
		require.ErrorAs(t, err, &e)
		assert.Equal(t, "shop", e.Root)
		var names []string
		for _, g := range e.Left {
			names = append(names, g.Scope+"/"+g.Task)
			assert.Equal(t, time.Second, g.Overdue)
			assert.Contains(t, g.Stack, "scope_test.waitDeaf")
			assert.Contains(t, g.Function, "root_test.go:")
		}
		assert.ElementsMatch(t, []string{"shop/deaf", "shop/job/inner/deaf too"}, names)
		assert.ErrorContains(t, err, "shop/deaf")
		assert.Equal(t, err, drainWithin(t, root, time.Second), "a second call gives the same report")
		close(release)
	})
}

func TestDrainNeedsADeadlineAndObeysItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := scope.NewRoot("shop")
		require.NoError(t, root.Serve("loop", func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }))
		assert.ErrorIs(t, root.Drain(context.Background()), budget.ErrNoDeadline)
		require.NoError(t, root.Go(t.Context(), "still open", budget.Within(time.Hour), func(context.Context) error { return nil }))

		start := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		time.AfterFunc(time.Second, cancel) // a second SIGTERM
		assert.NoError(t, root.Drain(ctx))
		assert.Equal(t, time.Second, time.Since(start), "it cancels at once")
	})
}

func TestConcurrentDrainsShareOneReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := scope.NewRoot("shop")
		require.NoError(t, root.Serve("loop", func(ctx context.Context) error { <-ctx.Done(); return nil }))
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { assert.NoError(t, drainWithin(t, root, 10*time.Second)) })
		}
		wg.Wait()
	})
}

// TestRootGoRacingDrain: each is run to its end, or refused.
func TestRootGoRacingDrain(t *testing.T) {
	var begun, refused atomic.Int64
	for range stress.Rounds(2000) {
		root := scope.NewRoot("shop")
		at := startLine(3)
		var ran, ok atomic.Int64
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				at()
				switch err := root.Go(context.Background(), "job", budget.Within(time.Hour), func(context.Context) error { ran.Add(1); return nil }); {
				case err == nil:
					ok.Add(1)
					begun.Add(1)
				case errors.Is(err, scope.ErrClosed):
					refused.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		at()
		require.NoError(t, drainWithin(t, root, time.Hour))
		during := ran.Load()
		wg.Wait()
		require.Equal(t, ok.Load(), ran.Load())
		require.Equal(t, during, ran.Load(), "Drain did not await one")
	}
	t.Logf("%d begun, %d refused", begun.Load(), refused.Load())
	assert.NotZero(t, begun.Load())
	assert.NotZero(t, refused.Load())
}

func TestDrainAfterIsTheLastLineOfAMain(t *testing.T) {
	boom := errors.New("boom")
	t.Run("until the signal", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			root := scope.NewRoot("shop")
			require.NoError(t, root.Serve("loop", func(ctx context.Context) error { <-scope.Stopping(ctx); return nil }))
			signal, stop := context.WithCancel(context.Background())
			time.AfterFunc(time.Hour, stop)
			start := time.Now()
			assert.NoError(t, root.DrainAfter(signal, 10*time.Second))
			assert.Equal(t, time.Hour, time.Since(start))
		})
	})
	t.Run("until a Serve fails", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			root := scope.NewRoot("shop")
			var failed []string
			root.SetTrace(&scope.Trace{TaskFailed: func(root, task string, err error) { failed = append(failed, fmt.Sprint(root, " ", task, " ", err)) }})
			require.NoError(t, root.Serve("bad", func(context.Context) error { time.Sleep(time.Second); return boom }))
			require.NoError(t, root.Serve("loop", func(ctx context.Context) error { <-scope.Stopping(ctx); return nil }))
			start := time.Now()
			err := root.DrainAfter(context.Background(), 10*time.Second)
			assert.ErrorIs(t, err, boom)
			assert.ErrorContains(t, err, `"bad"`)
			assert.Equal(t, time.Second, time.Since(start))
			assert.Equal(t, []string{"shop bad boom"}, failed)
		})
	})
	assert.Contains(t, recovered(func() { scope.NewRoot("x").DrainAfter(t.Context(), 0) }), "DrainAfter")
}

func TestRootWorkDoesNotCancelItsNeighbours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := scope.NewRoot("shop")
		var failed atomic.Int64
		root.SetTrace(&scope.Trace{TaskFailed: func(string, string, error) { failed.Add(1) }})
		var finished atomic.Bool
		require.NoError(t, root.Go(t.Context(), "bad", budget.Within(time.Hour), func(context.Context) error { return errors.New("boom") }))
		require.NoError(t, root.Go(t.Context(), "late", budget.Within(time.Second), func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }))
		require.NoError(t, root.Go(t.Context(), "good", budget.Within(time.Hour), func(ctx context.Context) error {
			time.Sleep(time.Minute)
			finished.Store(ctx.Err() == nil)
			return nil
		}))
		time.Sleep(2 * time.Minute)
		assert.True(t, finished.Load())
		assert.EqualValues(t, 2, failed.Load())
		assert.NoError(t, drainWithin(t, root, time.Second))
	})
}

func TestAPanicOfRootWorkEndsTheProcess(t *testing.T) {
	code, out, _ := runChild(t, "root work panics")
	assert.Equal(t, 2, code, out)
	assert.Contains(t, out, "ERROR scope: task panicked")
	assert.Contains(t, out, "panic: ouch")
	assert.Contains(t, out, "scope_test.explode")
}

func TestStoppingWithoutARoot(t *testing.T) {
	assert.Nil(t, scope.Stopping(t.Context()))
}

func TestRootRefusesNonsense(t *testing.T) {
	root := scope.NewRoot("shop")
	nothing := func(context.Context) error { return nil }
	var none context.Context
	for says, misuse := range map[string]func(){
		"NewRoot: empty name":         func() { scope.NewRoot("") },
		"Root.Go: empty name":         func() { root.Go(t.Context(), "", budget.Within(1), nothing) },
		`Root.Go("x"): nil function`:  func() { root.Go(t.Context(), "x", budget.Within(1), nil) },
		"Root.Go: nil context":        func() { root.Go(none, "x", budget.Within(1), nothing) },
		`Root.Serve("x"): nil functi`: func() { root.Serve("x", nil) },
		"Root.Serve: empty name":      func() { root.Serve("", nothing) },
		`Cleanup("x"): nil function`:  func() { root.Cleanup("x", nil) },
	} {
		assert.Contains(t, fmt.Sprint(recovered(misuse)), says)
	}
}
