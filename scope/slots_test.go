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
	"github.com/curfew-go/curfew/internal/stress"
	"github.com/curfew-go/curfew/scope"
)

// A gauge counts how many are inside at once, and the most that ever were.
type gauge struct{ now, most atomic.Int64 }

func (g *gauge) enter() {
	n := g.now.Add(1)
	for m := g.most.Load(); n > m && !g.most.CompareAndSwap(m, n); m = g.most.Load() {
	}
}

func (g *gauge) leave() { g.now.Add(-1) }

// TestCase35_AWaitForASlotEndsWithTheCancel: the wait ends in the same instant of
// the bubble, and the task is not started.
func TestCase35_AWaitForASlotEndsWithTheCancel(t *testing.T) {
	ends := map[string]struct {
		limit time.Duration
		end   func(s *scope.Scope)
		after time.Duration
		kind  budget.Kind
	}{
		"cancel":   {time.Hour, func(s *scope.Scope) { s.Cancel(errors.New("enough")) }, 5 * time.Second, budget.Cancelled},
		"deadline": {3 * time.Second, nil, 3 * time.Second, budget.DeadlineExceeded},
		"sibling": {time.Hour, func(s *scope.Scope) {
			s.Service().Go("fails", func(context.Context) error { return errors.New("boom") }) // needs no slot
		}, 5 * time.Second, budget.SiblingFailed},
	}
	for name, c := range ends {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				var waited time.Duration
				var outcome error
				var skipped []string
				ctx := scope.WithTrace(t.Context(), &scope.Trace{TaskSkipped: func(_, task string, _ error) { skipped = append(skipped, task) }})
				err := scope.Run(ctx, "shop", budget.Within(c.limit), func(ctx context.Context, s *scope.Scope) error {
					s.SetSlots(1)
					s.Go("busy", func(ctx context.Context) error {
						time.Sleep(10 * time.Second) // deaf
						return nil
					})
					if c.end != nil {
						time.AfterFunc(5*time.Second, func() { c.end(s) })
					}
					waits := scope.Fork(s, "waits", func(context.Context) (int, error) {
						t.Error("it was started")
						return 0, nil
					})
					waited = time.Since(start)
					_, outcome = waits.Wait(context.Background())
					return nil
				})
				assert.Equal(t, c.after, waited)
				assert.Equal(t, []string{"waits"}, skipped)
				assert.Equal(t, c.kind, budget.KindOf(outcome), "Task.Wait gives the cause")
				assert.ErrorContains(t, err, "not begun: 1")
			})
		})
	}
}

func TestCase29_ALimitReachesATaskThatWaitsForASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		require.NoError(t, scope.Run(t.Context(), "outer", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
			s.SetSlots(1)
			s.Go("busy", func(context.Context) error { time.Sleep(10 * time.Second); return nil })
			start := time.Now()
			err := scope.Run(ctx, "inner", budget.Within(100*time.Millisecond), func(_ context.Context, s *scope.Scope) error {
				s.Go("queued", func(context.Context) error { t.Error("it ran"); return nil })
				return nil
			})
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			assert.Equal(t, 100*time.Millisecond, time.Since(start))
			return nil
		}))
	})
}

// TestCase36_NestedWorkOnFullSlotsCompletes: who waits for others lends its slot,
// in every way there is to wait.
func TestCase36_NestedWorkOnFullSlotsCompletes(t *testing.T) {
	child := func(g *gauge) func(context.Context) error {
		return func(context.Context) error {
			g.enter()
			defer g.leave()
			time.Sleep(time.Second)
			return nil
		}
	}
	parents := map[string]func(ctx context.Context, s *scope.Scope, g *gauge) error{
		"Go and join": func(ctx context.Context, _ *scope.Scope, g *gauge) error {
			return scope.Run(ctx, "children", budget.Inherited(), func(_ context.Context, s *scope.Scope) error {
				for i := range 10 {
					s.Go(fmt.Sprint("child-", i), child(g))
				}
				return nil
			})
		},
		"Wait": func(ctx context.Context, _ *scope.Scope, g *gauge) error {
			return scope.Run(ctx, "children", budget.Inherited(), func(_ context.Context, s *scope.Scope) error {
				for i := range 10 {
					s.Go(fmt.Sprint("child-", i), child(g))
				}
				return s.Wait()
			})
		},
		"Task.Wait": func(ctx context.Context, _ *scope.Scope, g *gauge) error {
			return scope.Run(ctx, "children", budget.Inherited(), func(ctx context.Context, s *scope.Scope) error {
				for i := range 10 {
					k := scope.Fork(s, fmt.Sprint("child-", i), func(ctx context.Context) (int, error) { return i, child(g)(ctx) })
					if v, err := k.Wait(ctx); err != nil || v != i {
						return fmt.Errorf("%d: %w", v, err)
					}
				}
				return nil
			})
		},
		"siblings": func(_ context.Context, s *scope.Scope, g *gauge) error {
			for i := range 10 {
				s.Go(fmt.Sprint("child-", i), child(g))
			}
			return nil
		},
		"All": func(ctx context.Context, _ *scope.Scope, g *gauge) error {
			var fs []func(context.Context) (int, error)
			for i := range 10 {
				fs = append(fs, func(ctx context.Context) (int, error) { return i, child(g)(ctx) })
			}
			_, err := scope.All(ctx, "children", fs...)
			return err
		},
		"Map": func(ctx context.Context, _ *scope.Scope, g *gauge) error {
			return scope.Each(ctx, "children", 4, make([]int, 10), func(ctx context.Context, _ int) error { return child(g)(ctx) })
		},
		"MapSeq": func(ctx context.Context, _ *scope.Scope, g *gauge) error {
			for _, err := range scope.MapSeq(ctx, "children", 4, func(yield func(int) bool) {
				for i := 0; i < 10 && yield(i); i++ {
				}
			}, func(ctx context.Context, i int) (int, error) { return i, child(g)(ctx) }) {
				if err != nil {
					return err
				}
			}
			return nil
		},
		"Start": func(ctx context.Context, _ *scope.Scope, g *gauge) error {
			return scope.Run(ctx, "children", budget.Inherited(), func(_ context.Context, s *scope.Scope) error {
				for i := range 10 {
					if _, err := scope.Start(s, fmt.Sprint("child-", i), func(ctx context.Context, ready func(int)) error {
						err := child(g)(ctx)
						ready(i)
						return err
					}); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	for name, parent := range parents {
		for _, n := range []int{1, 2, 16} {
			t.Run(fmt.Sprint(name, " on ", n), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var g gauge
					start := time.Now()
					var stats scope.Stats
					require.NoError(t, scope.Run(t.Context(), "shop", budget.Within(24*time.Hour), func(_ context.Context, s *scope.Scope) error {
						s.SetSlots(n)
						for i := range 100 {
							s.Go(fmt.Sprint("parent-", i), func(ctx context.Context) error { return parent(ctx, s, &g) })
						}
						err := s.Wait()
						stats = s.Stats()
						return err
					}))
					assert.LessOrEqual(t, g.most.Load(), int64(n))
					assert.EqualValues(t, n, g.most.Load(), "and they are used")
					assert.Equal(t, n, stats.Slots)
					assert.Empty(t, stats.Holding)
					assert.Empty(t, stats.Waiting)
					assert.GreaterOrEqual(t, time.Since(start), time.Duration(1000/n)*time.Second)
				})
			})
		}
	}
}

// TestCase28_SlotsAreNeverLost: the wait for a slot ends in the very instant in
// which one comes free.
func TestCase28_SlotsAreNeverLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var granted, refused int
		for range stress.Rounds(5000) {
			require.NoError(t, scope.Run(t.Context(), "shop", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
				s.SetSlots(1)
				s.Go("holds", func(context.Context) error { time.Sleep(time.Second); return nil })
				scope.Run(ctx, "inner", budget.Within(time.Second), func(_ context.Context, inner *scope.Scope) error {
					before := inner.Stats().Started
					inner.Go("waits", func(context.Context) error { return nil })
					if inner.Stats().Started > before {
						granted++
					} else {
						refused++
					}
					return nil
				})
				s.Wait()
				st := s.Stats()
				require.Empty(t, st.Holding)
				require.Empty(t, st.Waiting)
				return nil
			}))
		}
		t.Logf("%d granted, %d refused", granted, refused)
		assert.NotZero(t, granted)
		assert.NotZero(t, refused)
	})
}

func TestStatsShowWhoHoldsAndWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		require.NoError(t, scope.Run(t.Context(), "shop", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
			s.SetSlots(1)
			s.Go("first", func(context.Context) error { time.Sleep(time.Second); return nil })
			go s.Go("second", func(context.Context) error { return nil })
			synctest.Wait()
			st := s.Stats()
			assert.Equal(t, []string{"shop/first"}, st.Holding)
			assert.Equal(t, []string{"shop/second"}, st.Waiting)
			time.Sleep(2 * time.Second)
			return nil
		}))
	})
}

func TestSetSlotsRefusesNonsense(t *testing.T) {
	for name, c := range map[string]struct {
		misuse func(*scope.Scope)
		says   string
	}{
		"zero":           {func(s *scope.Scope) { s.SetSlots(0) }, "SetSlots(0)"},
		"negative":       {func(s *scope.Scope) { s.SetSlots(-3) }, "SetSlots(-3)"},
		"twice":          {func(s *scope.Scope) { s.SetSlots(1); s.SetSlots(2) }, "already"},
		"after a task":   {func(s *scope.Scope) { s.Go("x", func(context.Context) error { return nil }); s.SetSlots(2) }, "already"},
		"limited stream": {func(s *scope.Scope) { s.Service().Limit(budget.Within(1)) }, "service"},
		"optional":       {func(s *scope.Scope) { s.Optional(budget.Within(1)).Service() }, "service"},
	} {
		t.Run(name, func(t *testing.T) {
			scope.Run(t.Context(), "shop", budget.Within(time.Hour), func(_ context.Context, s *scope.Scope) error {
				assert.Contains(t, fmt.Sprint(recovered(func() { c.misuse(s) })), c.says)
				return nil
			})
		})
	}
}
