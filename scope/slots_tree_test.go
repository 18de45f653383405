package scope_test

import (
	"context"
	"fmt"
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

// TestNestedMapsOnSharedSlots: four levels deep, ten thousand leaves, and never
// more than the slots allow at work, which is counted in the leaves and in Stats.
func TestNestedMapsOnSharedSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slots, fan = 16, 10
		var g gauge
		var leaves atomic.Int64
		ten := make([]int, fan)
		var s1 *scope.Scope
		var level func(depth int) func(context.Context, int) (int, error)
		level = func(depth int) func(context.Context, int) (int, error) {
			return func(ctx context.Context, _ int) (int, error) {
				if depth > 1 {
					below, err := scope.Map(ctx, "level", fan, ten, level(depth-1))
					sum := 0
					for _, n := range below {
						sum += n
					}
					return sum, err
				}
				g.enter()
				defer g.leave()
				time.Sleep(time.Millisecond)
				leaves.Add(1)
				assert.LessOrEqual(t, len(s1.Stats().Holding), slots, "tasks of all levels")
				return 1, nil
			}
		}
		start := time.Now()
		require.NoError(t, scope.Run(t.Context(), "shop", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
			s1 = s
			s.SetSlots(slots)
			sum, err := level(5)(ctx, 0)
			assert.Equal(t, 10_000, sum)
			return err
		}))
		assert.EqualValues(t, 10_000, leaves.Load())
		assert.EqualValues(t, slots, g.most.Load())
		assert.Less(t, time.Since(start), 10_000*time.Millisecond/slots*2, "the slots are kept busy")
	})
}

// TestACancelEndsNestedWaitsForSlotsInItsInstant: wherever in the tree they wait.
func TestACancelEndsNestedWaitsForSlotsInItsInstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ten := make([]int, 10)
		var level func(depth int) func(context.Context, int) error
		level = func(depth int) func(context.Context, int) error {
			return func(ctx context.Context, _ int) error {
				if depth > 1 {
					return scope.Each(ctx, "level", 10, ten, level(depth-1))
				}
				return lasting(time.Minute)(ctx)
			}
		}
		start := time.Now()
		waiting := 0
		err := scope.Run(t.Context(), "shop", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
			s.SetSlots(16)
			time.AfterFunc(90*time.Second, func() {
				waiting = len(s.Stats().Waiting)
				s.Cancel(nil)
			})
			return level(4)(ctx, 0)
		})
		assert.Equal(t, budget.Cancelled, budget.KindOf(err))
		assert.Equal(t, 90*time.Second, time.Since(start))
		assert.Positive(t, waiting)
	})
}

func TestCase03_AGoexitFreesTheSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		err := scope.Run(t.Context(), "shop", budget.Within(time.Hour), func(_ context.Context, s *scope.Scope) error {
			s.SetSlots(1)
			s.SetKeepGoing()
			s.Go("quits", func(context.Context) error { goexit(); return nil })
			s.Go("next", func(context.Context) error { return nil }) // waits for the slot
			s.Wait()
			assert.Empty(t, s.Stats().Holding)
			assert.Equal(t, 2, s.Stats().Started)
			return nil
		})
		assert.ErrorIs(t, err, scope.ErrGoexit)
		assert.ErrorContains(t, err, `"quits"`)
	})
}

// TestCancelledWorkHoldsNoSlot: a scope that was cancelled makes room for others,
// however deaf its tasks are.
func TestCancelledWorkHoldsNoSlot(t *testing.T) {
	deaf := func(context.Context) error { time.Sleep(time.Minute); return nil }
	for name, inner := range map[string]func(context.Context) error{
		"tasks": func(ctx context.Context) error {
			return scope.Run(ctx, "doomed", budget.Within(time.Second), func(_ context.Context, s *scope.Scope) error {
				s.Go("deaf-1", deaf)
				s.Go("deaf-2", deaf)
				return nil
			})
		},
		"items": func(ctx context.Context) error {
			ctx, cancel, err := budget.Enter(ctx, budget.Within(time.Second))
			if err != nil {
				return err
			}
			defer cancel()
			return scope.Each(ctx, "doomed", 2, make([]int, 2), func(ctx context.Context, _ int) error { return deaf(ctx) })
		},
		"limited tasks": func(ctx context.Context) error {
			return scope.Run(ctx, "doomed", budget.Within(time.Hour), func(_ context.Context, s *scope.Scope) error {
				s.Optional(budget.Within(time.Second)).Go("deaf-1", deaf)
				s.Optional(budget.Within(time.Second)).Go("deaf-2", deaf)
				return nil
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				require.NoError(t, scope.Run(t.Context(), "shop", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
					s.SetSlots(2)
					done := make(chan struct{})
					go func() { defer close(done); inner(ctx) }()
					synctest.Wait()
					s.Go("healthy", func(context.Context) error {
						assert.Equal(t, time.Second, time.Since(start), "as soon as the others were cancelled")
						return nil
					})
					<-done
					return nil
				}))
				assert.Equal(t, time.Minute, time.Since(start))
			})
		})
	}
}

func TestAnInnerScopeMaySetFewerSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var outer, inner gauge
		var both atomic.Int64
		require.NoError(t, scope.Run(t.Context(), "shop", budget.Within(24*time.Hour), func(ctx context.Context, s *scope.Scope) error {
			s.SetSlots(5)
			for i := range 20 {
				s.Go(fmt.Sprint("outer-", i), func(ctx context.Context) error {
					outer.enter()
					time.Sleep(time.Second)
					outer.leave()
					if i%2 == 0 {
						return nil
					}
					return scope.Run(ctx, "narrow", budget.Inherited(), func(_ context.Context, s *scope.Scope) error {
						s.SetSlots(2)
						var own gauge
						for j := range 10 {
							s.Go(fmt.Sprint("inner-", j), func(context.Context) error {
								outer.enter()
								inner.enter()
								own.enter()
								defer outer.leave()
								defer inner.leave()
								defer own.leave()
								time.Sleep(time.Second)
								return nil
							})
						}
						err := s.Wait()
						assert.LessOrEqual(t, own.most.Load(), int64(2))
						if own.most.Load() == 2 {
							both.Add(1)
						}
						return err
					})
				})
			}
			return nil
		}))
		assert.EqualValues(t, 5, outer.most.Load())
		assert.LessOrEqual(t, inner.most.Load(), int64(5))
		assert.NotZero(t, both.Load(), "and an inner scope gets as many as it may")
	})
}

// TestAMapInsideNarrowerSlotsKeepsToThem: also on the goroutine of a task that has
// a slot of the wider ones.
func TestAMapInsideNarrowerSlotsKeepsToThem(t *testing.T) {
	for _, outer := range []int{1, 2, 8} {
		t.Run(fmt.Sprint("outer ", outer), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var g gauge
				require.NoError(t, scope.Run(t.Context(), "shop", budget.Within(time.Hour), func(_ context.Context, s *scope.Scope) error {
					s.SetSlots(outer)
					s.Go("task", func(ctx context.Context) error {
						return scope.Run(ctx, "narrow", budget.Inherited(), func(ctx context.Context, s *scope.Scope) error {
							s.SetSlots(2)
							work := func(context.Context, int) (int, error) {
								g.enter()
								defer g.leave()
								time.Sleep(time.Second)
								return 0, nil
							}
							if _, err := scope.Map(ctx, "map", 10, make([]int, 20), work); err != nil {
								return err
							}
							_, err := scope.All(ctx, "all", func(ctx context.Context) (int, error) { return work(ctx, 0) },
								func(ctx context.Context) (int, error) { return work(ctx, 0) },
								func(ctx context.Context) (int, error) { return work(ctx, 0) })
							return err
						})
					})
					s.Wait()
					assert.Empty(t, s.Stats().Holding)
					return nil
				}))
				assert.EqualValues(t, min(outer, 2), g.most.Load())
			})
		})
	}
}

// What has ended is forgotten.
func TestCase41_AMillionShortTasksLeaveTheHeapFlat(t *testing.T) {
	n := 1_000_000
	if raceEnabled {
		n = 100_000
	}
	inUse := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapInuse + m.StackInuse)
	}
	require.NoError(t, scope.Run(t.Context(), "shop", budget.Within(time.Hour), func(_ context.Context, s *scope.Scope) error {
		s.SetSlots(64)
		nothing := func(context.Context) error { return nil }
		var base int64
		for i := range n {
			if i == 10_000 {
				s.Wait()
				base = inUse()
			}
			s.Go("short", nothing)
		}
		s.Wait()
		grown := inUse() - base
		t.Logf("after %d tasks in use: %+d KiB", n, grown/1024)
		assert.Less(t, grown, int64(1<<20))
		return nil
	}))
}
