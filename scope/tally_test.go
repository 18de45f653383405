package scope_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
)

// Who waits for a scope and who ends its last task tell each other without a common
// lock. In a bubble a word that is lost shows at once: the clock goes on to the deadline.

func TestWhoWaitsHearsOfTheLastTaskAtAnyInterleaving(t *testing.T) {
	var blocked, through atomic.Int32 // by whether a task was left when the body came to wait
	for round := range 3000 {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			var ended atomic.Int32
			err := scope.Run(t.Context(), "shop", budget.Within(time.Hour), func(_ context.Context, s *scope.Scope) error {
				task := func(context.Context) error { ended.Add(1); return nil }
				for range 1 + round%3 {
					s.Go("one", task)
				}
				s.Go("parent", func(context.Context) error { // others come while the body waits already
					s.Go("child", func(ctx context.Context) error {
						s.Go("grandchild", task)
						return task(ctx)
					})
					return nil
				})
				for range round % 17 {
					runtime.Gosched()
				}
				if round%5 == 0 {
					synctest.Wait()
				}
				if s.Stats().Live == 0 {
					through.Add(1)
				} else {
					blocked.Add(1)
				}
				if round%2 == 0 {
					return nil // Run waits instead
				}
				err := s.Wait()
				assert.EqualValues(t, 3+round%3, ended.Load())
				assert.Zero(t, s.Stats().Live)
				s.Go("one more", task)
				return err
			})
			require.NoError(t, err)
			assert.EqualValues(t, 3+round%3+round%2, ended.Load())
			assert.Zero(t, time.Since(began), "nobody had to wait for the clock")
		})
	}
	assert.NotZero(t, through.Load(), "all have ended in the rounds that wait for that")
	t.Logf("waited for a task: %d, came after the last: %d", blocked.Load(), through.Load())
}

func TestWhatAServiceStartsWhileItEndsIsHeardOf(t *testing.T) {
	for range 500 {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			var ended atomic.Int32
			err := scope.Run(t.Context(), "shop", budget.Within(time.Hour), func(_ context.Context, s *scope.Scope) error {
				s.Service().Go("service", func(ctx context.Context) error {
					<-ctx.Done()
					for range 3 {
						s.Go("last", func(context.Context) error { ended.Add(1); return nil })
					}
					return nil
				})
				s.Go("first", func(context.Context) error { return nil })
				return nil
			})
			require.NoError(t, err)
			assert.EqualValues(t, 3, ended.Load())
			assert.Zero(t, time.Since(began))
		})
	}
}

// TestStatsCountWhatWasBegun: the number is taken from those that all tasks have.
func TestStatsCountWhatWasBegun(t *testing.T) {
	var stats func() scope.Stats
	err := scope.Run(t.Context(), "shop", budget.Within(time.Minute), func(_ context.Context, s *scope.Scope) error {
		stats = s.Stats
		nothing := func(context.Context) error { return nil }
		s.Go("a", nothing)
		s.Service().Go("b", nothing)
		s.Optional(budget.Within(time.Second)).Go("c", nothing)
		s.Limit(budget.Within(0)).Go("no time", nothing)
		s.Cancel(nil)
		s.Go("late", nothing)
		s.Optional(budget.Within(time.Second)).Go("late and optional", nothing)
		return nil
	})
	require.Error(t, err)
	assert.Equal(t, 4, stats().Started)
	assert.Zero(t, stats().Live)
}

// TestAnAllOfManyStartsEachOfThemOnce: its goroutines take their tasks themselves.
func TestAnAllOfManyStartsEachOfThemOnce(t *testing.T) {
	ctx, cancel, err := budget.Enter(t.Context(), budget.Within(time.Minute))
	require.NoError(t, err)
	defer cancel()
	for n := range 40 {
		var calls [40]atomic.Int32
		fs := make([]func(context.Context) (int, error), n)
		for i := range fs {
			fs[i] = func(ctx context.Context) (int, error) {
				calls[i].Add(1)
				return i, nil
			}
		}
		got, err := scope.All(ctx, "all", fs...)
		require.NoError(t, err)
		for i := range n {
			assert.Equal(t, i, got[i])
			assert.EqualValues(t, 1, calls[i].Load())
		}
	}
}
