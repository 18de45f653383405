package scope_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/stress"
	"github.com/curfew-go/curfew/scope"
)

// TestOneEndWins: of several ends at one instant exactly one is the cause, it
// is the one in the verdict, and no real failure is lost with the others.
func TestOneEndWins(t *testing.T) {
	const runs = 10_000
	e0, e1 := errors.New("e0"), errors.New("e1")
	won := map[string]int{}
	for i := range stress.Rounds(runs) {
		parent, cancel := context.WithCancel(t.Context())
		var cause error
		err := scope.Run(parent, "shop", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
			at := startLine(4)
			s.Go("fails", func(context.Context) error { at(); return e0 })
			s.Go("fails too", func(context.Context) error { at(); return e1 })
			go func() { at(); s.Cancel(errJoin) }()
			go func() { at(); cancel() }()
			<-ctx.Done()
			cause = context.Cause(ctx)
			return nil
		})
		cancel()
		require.ErrorIs(t, err, e0)
		require.ErrorIs(t, err, e1)
		var e *scope.Error
		require.ErrorAs(t, err, &e)
		k := e.Cause.Kind
		switch budget.KindOf(cause) {
		case budget.SiblingFailed:
			require.Equal(t, budget.Failed, k)
			require.Len(t, e.Failures, 1)
			require.Len(t, e.Late, 1)
			require.ErrorIs(t, cause, e.Cause.Err)
			require.NotErrorIs(t, err, context.Canceled)
			won[e.Cause.Task]++
		case budget.Cancelled:
			require.Equal(t, budget.Cancelled, k)
			require.ErrorIs(t, err, errJoin)
			require.Empty(t, e.Failures)
			require.Len(t, e.Late, 2)
			won["Cancel"]++
		case budget.ParentCancelled:
			require.Equal(t, budget.ParentCancelled, k)
			require.NotErrorIs(t, err, errJoin)
			require.Len(t, e.Late, 2)
			won["parent"]++
		default:
			t.Fatalf("run %d: %v", i, cause)
		}
	}
	t.Logf("%v", won)
	assert.Len(t, won, 4, "each of them won at times")
}

// TestPanicsAtOnceAreAllReportedAndTheFirstIsRaised: of tasks that panic at one
// instant the one that ended the scope is re-raised, and none is lost.
func TestPanicsAtOnceAreAllReportedAndTheFirstIsRaised(t *testing.T) {
	const runs, n = 2_000, 3
	raised := map[string]int{}
	for range stress.Rounds(runs) {
		ctx, reports := quiet()
		var cause *budget.Cause
		v := recovered(func() {
			scope.Run(ctx, "shop", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
				s.SetPanicGrace(-1)
				at := startLine(n)
				for i := range n {
					s.Go(fmt.Sprint(i), func(context.Context) error { at(); return explode(i) })
				}
				_ = s.Wait()
				require.ErrorAs(t, context.Cause(ctx), &cause)
				return nil
			})
		})
		pe, ok := v.(*scope.PanicError)
		require.True(t, ok)
		require.Equal(t, "shop/"+cause.Task, pe.Task, "the one that ended the scope")
		require.Same(t, cause.Err, pe)
		require.Len(t, reports(), n)
		raised[cause.Task]++
	}
	t.Logf("%v", raised)
	assert.Greater(t, len(raised), 1)
}

// TestTheBodysPanicStandsBeforeATasks: both panic, the body's own goes on with
// its own value; the task's has been reported.
func TestTheBodysPanicStandsBeforeATasks(t *testing.T) {
	for range stress.Rounds(1_000) {
		ctx, reports := quiet()
		v := recovered(func() {
			scope.Run(ctx, "shop", budget.Within(time.Hour), func(_ context.Context, s *scope.Scope) error {
				s.SetPanicGrace(-1)
				at := startLine(2)
				s.Go("bad", func(context.Context) error { at(); return explode("task") })
				at()
				return explode("body")
			})
		})
		require.Equal(t, "body", v)
		require.Len(t, reports(), 1)
		require.Equal(t, "task", reports()[0].Value)
	}
}

// TestManyWaitForOneTask: all of them get the outcome, at whatever instant they
// come, and each may come again.
func TestManyWaitForOneTask(t *testing.T) {
	const waiters = 8
	boom := errors.New("boom")
	for i := range stress.Rounds(2_000) {
		_ = scope.Run(t.Context(), "shop", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
			at := startLine(waiters + 1)
			task := scope.Fork(s, "task", func(context.Context) (int, error) {
				at()
				if i%2 == 0 {
					return 7, boom
				}
				return 7, nil
			})
			var all sync.WaitGroup
			for range waiters {
				all.Go(func() {
					at()
					for range 2 {
						v, err := task.Wait(context.WithoutCancel(ctx))
						if i%2 == 0 {
							assert.Zero(t, v)
							assert.Same(t, boom, err)
						} else {
							assert.Equal(t, 7, v)
							assert.NoError(t, err)
							assert.Equal(t, 7, task.Value())
						}
					}
				})
			}
			all.Wait()
			return nil
		})
		if t.Failed() {
			return
		}
	}
}
