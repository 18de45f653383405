package scope_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/stress"
	"github.com/curfew-go/curfew/scope"
)

// TestTheContextHasEndedWhenRunReturns: whoever ends a scope at the instant at
// which it closes, its context is done right after Run, and says why.
func TestTheContextHasEndedWhenRunReturns(t *testing.T) {
	const runs = 5_000
	for name, end := range map[string]func(ctx context.Context, parent context.CancelFunc, s *scope.Scope){
		"Cancel":     func(_ context.Context, _ context.CancelFunc, s *scope.Scope) { s.Cancel(errJoin) },
		"the parent": func(_ context.Context, cancel context.CancelFunc, _ *scope.Scope) { cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			base := runtime.NumGoroutine()
			seen := map[budget.Kind]int{}
			for i := range stress.Rounds(runs) {
				parent, cancel := context.WithCancel(t.Context())
				var ctx context.Context
				var s1 *scope.Scope
				err := scope.Run(parent, "shop", budget.Within(time.Hour), func(c context.Context, s *scope.Scope) error {
					ctx, s1 = c, s
					if i%2 == 0 {
						c.Done() // a std context has to be told
						context.AfterFunc(c, func() {})
					}
					at := startLine(2)
					go func() { at(); end(c, cancel, s) }()
					at()
					return nil
				})
				require.NoError(t, err, "nothing was cut")
				require.ErrorIs(t, ctx.Err(), context.Canceled, "alive after Run")
				select {
				case <-ctx.Done():
				default:
					t.Fatal("not done after Run")
				}
				k := budget.KindOf(context.Cause(ctx))
				require.False(t, k == budget.Closed && s1.Stats().Late, "late, and nothing had ended it")
				seen[k]++
				cancel()
			}
			t.Logf("%v", seen)
			assert.Len(t, seen, 2, "the end came before and after")
			settle(t, base)
		})
	}
}

// TestDeadlineRacingTheClose: a timer that fires while the scope closes does
// not turn success into failure, and leaves nothing behind.
func TestDeadlineRacingTheClose(t *testing.T) {
	const runs = 5_000
	base := runtime.NumGoroutine()
	late := 0
	for i := range stress.Rounds(runs) {
		var ctx context.Context
		var s1 *scope.Scope
		err := scope.Run(t.Context(), "shop", budget.Within(time.Duration(20+i%200)*time.Microsecond), func(c context.Context, s *scope.Scope) error {
			ctx, s1 = c, s
			d, _ := c.Deadline()
			s.Go("until then", func(context.Context) error {
				for time.Now().Before(d) {
					runtime.Gosched()
				}
				return nil
			})
			return nil
		})
		if s1 == nil {
			require.Equal(t, budget.ExpiredOnArrival, budget.KindOf(err))
			continue
		}
		if err != nil { // the task came too late to be started
			require.Equal(t, 1, s1.Stats().Skipped)
			require.Equal(t, budget.DeadlineExceeded, budget.KindOf(err))
			continue
		}
		k := budget.KindOf(context.Cause(ctx))
		require.False(t, k == budget.Closed && s1.Stats().Late, "late, and the deadline had not passed")
		if k == budget.DeadlineExceeded {
			late++
		}
	}
	t.Logf("%d of %d late", late, stress.Rounds(runs))
	assert.NotZero(t, late)
	settle(t, base)
}

// TestParentEndingWhileTheScopeOpens: the body does not run, or runs with a
// context that ends; no end is lost in between.
func TestParentEndingWhileTheScopeOpens(t *testing.T) {
	const runs = 5_000
	for _, limit := range []budget.Limit{budget.Inherited(), budget.Within(time.Minute)} {
		for name, open := range map[string]func() (context.Context, context.CancelFunc){
			"std": func() (context.Context, context.CancelFunc) {
				return context.WithTimeout(context.Background(), time.Hour)
			},
			"budget": func() (context.Context, context.CancelFunc) {
				ctx, cancel, _ := budget.Enter(context.Background(), budget.Within(time.Hour))
				return ctx, cancel
			},
			"budget, behind a value": func() (context.Context, context.CancelFunc) {
				ctx, cancel, _ := budget.Enter(context.Background(), budget.Within(time.Hour))
				return context.WithValue(ctx, spanKey{}, 1), cancel
			},
		} {
			t.Run(name+", "+limit.String(), func(t *testing.T) {
				refused, ran := 0, 0
				for range stress.Rounds(runs) / 5 {
					ctx, cancel := open()
					at := startLine(2)
					go func() { at(); cancel() }()
					at()
					opened := false
					err := scope.Run(ctx, "shop", limit, func(ctx context.Context, s *scope.Scope) error {
						opened = true
						s.Go("task", obedient)
						<-ctx.Done()
						return nil
					})
					require.Error(t, err)
					require.ErrorIs(t, err, context.Canceled)
					require.NotErrorIs(t, err, context.DeadlineExceeded)
					if opened {
						ran++
					} else {
						refused++
					}
				}
				t.Logf("%d refused, %d ran", refused, ran)
			})
		}
	}
}

// TestCleanupRacingTheClose: a cleanup that an outsider registers as the scope
// closes runs or is refused; it is never lost.
func TestCleanupRacingTheClose(t *testing.T) {
	const runs = 10_000
	ran, refused := 0, 0
	for range stress.Rounds(runs) {
		var did atomic.Bool
		var v any
		tried := make(chan struct{})
		err := scope.Run(t.Context(), "shop", budget.Within(time.Hour), func(_ context.Context, s *scope.Scope) error {
			at := startLine(2)
			go func() {
				defer close(tried)
				at()
				v = recovered(func() {
					s.Cleanup("late", func(ctx context.Context) error { did.Store(ctx.Err() == nil); return nil })
				})
			}()
			at()
			return nil
		})
		require.NoError(t, err)
		before := did.Load() // Run has returned: nothing more may run
		<-tried
		switch err, _ := v.(error); {
		case v == nil:
			require.True(t, before, "lost")
			ran++
		default:
			require.ErrorIs(t, err, scope.ErrClosed)
			require.False(t, did.Load(), "refused, and run")
			refused++
		}
	}
	t.Logf("%d ran, %d refused", ran, refused)
	assert.NotZero(t, ran)
	assert.NotZero(t, refused)
}
