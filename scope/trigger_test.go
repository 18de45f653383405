package scope_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
)

// TestOfFailuresThatRaceOneIsTheTriggerEverywhere: tasks fail at one instant, while a
// deadline, a Cancel or nothing else ends the scope. What the verdict, the contexts and
// the std contexts below say is the same event.
func TestOfFailuresThatRaceOneIsTheTriggerEverywhere(t *testing.T) {
	const n = 4
	var byTask, byCancel atomic.Int64
	for round := range 500 {
		start := make(chan struct{})
		var cause, below error
		err := scope.Run(context.Background(), "shop", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
			s.Go("obeys", obedient)
			s.Go("derives", func(ctx context.Context) error {
				child, cancel := context.WithCancel(context.WithValue(ctx, ctxKey{}, 1))
				defer cancel()
				<-child.Done()
				below = context.Cause(child)
				return child.Err()
			})
			for i := range n {
				s.Go(fmt.Sprint("fails", i), func(context.Context) error {
					<-start
					return fmt.Errorf("boom %d", i)
				})
			}
			close(start)
			if round%2 == 0 {
				s.Cancel(errJoin)
			}
			<-ctx.Done()
			cause = context.Cause(ctx)
			return nil
		})
		var e *scope.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, cause, below, "one event, one cause")
		switch c := cause.(*budget.Cause); c.Kind {
		case budget.SiblingFailed:
			byTask.Add(1)
			require.Len(t, e.Failures, 1)
			te := e.Failures[0].(*scope.TaskError)
			require.Equal(t, te.Task, c.Task)
			require.Equal(t, te.Err, c.Err)
			require.Equal(t, te.Task, e.Cause.Task)
			require.Len(t, e.Late, n-1+2)
		default:
			byCancel.Add(1)
			require.Equal(t, budget.Cancelled, c.Kind)
			require.Empty(t, e.Failures)
			require.Len(t, e.Late, n+2)
		}
	}
	assert.NotZero(t, byTask.Load(), "where nothing else ends the scope it is always a task")
	t.Logf("ended by a task %d times, by Cancel %d", byTask.Load(), byCancel.Load())
}

type ctxKey struct{}

// TestATaskThatFailsHasItsStragglersCountedAGraceLater, whether others wait for it or not.
func TestATaskThatFailsHasItsStragglersCountedAGraceLater(t *testing.T) {
	const grace = 200 * time.Millisecond
	for _, awaited := range []bool{false, true} {
		for _, deaf := range []time.Duration{grace - time.Millisecond, grace + time.Millisecond} {
			synctest.Test(t, func(t *testing.T) {
				boom := errors.New("boom")
				var stats func() scope.Stats
				err := scope.Run(t.Context(), "shop", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
					stats = s.Stats
					s.SetStragglers(grace, scope.Wait)
					s.Go("deaf", func(context.Context) error {
						time.Sleep(time.Second + deaf)
						return nil
					})
					failing := scope.Fork(s, "fails", func(context.Context) (int, error) {
						time.Sleep(time.Second)
						return 0, boom
					})
					if awaited {
						_, err := failing.Wait(context.WithoutCancel(ctx))
						assert.ErrorIs(t, err, boom)
					}
					return nil
				})
				assert.ErrorIs(t, err, boom)
				late := 0
				if deaf > grace {
					late = 1
				}
				assert.Equal(t, late, stats().Stragglers)
				assert.Equal(t, deaf, stats().Overrun)
			})
		}
	}
}
