package scope_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
)

// TestAScopeForgetsTasksThatEnded: tasks end without taking themselves from the list,
// and a scope that goes on for long must not keep them.
func TestAScopeForgetsTasksThatEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		err := scope.Run(t.Context(), "long", budget.Within(time.Hour), func(_ context.Context, s *scope.Scope) error {
			over := make(chan struct{})
			s.Go("stays", func(context.Context) error { <-over; return nil })
			most := 0
			for range 2000 {
				s.Go("short", func(context.Context) error { return nil })
				synctest.Wait()
				most = max(most, scope.Listed(s))
			}
			assert.Equal(t, 1, s.Stats().Live)
			assert.Equal(t, 2001, s.Stats().Started)
			assert.LessOrEqual(t, most, 150)
			close(over)
			return nil
		})
		require.NoError(t, err)
	})
}

// TestWhoWaitsForATaskHearsOfItsEnd: whether the wait began before the task ended,
// after it, or at that very moment.
func TestWhoWaitsForATaskHearsOfItsEnd(t *testing.T) {
	for range 500 {
		err := scope.Run(t.Context(), "shop", budget.Within(time.Minute), func(ctx context.Context, s *scope.Scope) error {
			release := make(chan struct{})
			await := func(context.Context) (int, error) { <-release; return 7, nil }
			early, same := scope.Fork(s, "early", await), scope.Fork(s, "same", await)
			late := scope.Fork(s, "late", func(context.Context) (int, error) { return 7, nil })
			s.Go("waits", func(ctx context.Context) error {
				v, err := early.Wait(ctx)
				assert.Equal(t, 7, v)
				return err
			})
			close(release)
			for _, task := range []*scope.Task[int]{same, late} {
				v, err := task.Wait(ctx)
				assert.NoError(t, err)
				assert.Equal(t, 7, v)
			}
			return nil
		})
		require.NoError(t, err)
	}
}

// TestWhatIsCutShortIsToldOnceAndTheLongestOverrunIsKept: such tasks end without the
// lock, with their context's error or with its cause.
func TestWhatIsCutShortIsToldOnceAndTheLongestOverrunIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stats func() scope.Stats
		err := scope.Run(t.Context(), "shop", budget.Within(time.Hour), func(_ context.Context, s *scope.Scope) error {
			stats = s.Stats
			for i, why := range []func(context.Context) error{context.Context.Err, context.Cause, context.Context.Err} {
				s.Go([]string{"a", "b", "c"}[i], func(ctx context.Context) error {
					<-ctx.Done()
					time.Sleep(time.Duration(i) * time.Millisecond)
					return why(ctx)
				})
			}
			s.Go("fails", func(context.Context) error { return errors.New("no") })
			return s.Wait()
		})
		var e *scope.Error
		require.ErrorAs(t, err, &e)
		var cut []string
		for _, late := range e.Late {
			var te *scope.TaskError
			require.ErrorAs(t, late, &te)
			assert.True(t, te.Induced)
			cut = append(cut, te.Task)
		}
		assert.ElementsMatch(t, []string{"a", "b", "c"}, cut)
		assert.Equal(t, 2*time.Millisecond, stats().Overrun)
		assert.NotErrorIs(t, err, context.Canceled)
	})
}
