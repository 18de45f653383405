package race_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
	"github.com/curfew-go/curfew/scope/race"
)

// The caller lends its slot, so races complete on as few slots as there are.
func TestRacesInATreeOfSlotsCompleteAndStayWithinThem(t *testing.T) {
	for _, slots := range []int{1, 2, 7} {
		for _, inline := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				running, most := map[context.Context]bool{}, 0
				attempt := func(ctx context.Context) (int, error) {
					mu.Lock()
					running[ctx] = true
					n := 0
					for other := range running {
						if other.Err() == nil { // a loser no longer counts
							n++
						}
					}
					most = max(most, n)
					mu.Unlock()
					v, err := after(10*time.Millisecond, 1)(ctx)
					mu.Lock()
					delete(running, ctx)
					mu.Unlock()
					return v, err
				}
				inScope(t, func(ctx context.Context, s *scope.Scope) {
					s.SetSlots(slots)
					for range 20 {
						s.Go("task", func(ctx context.Context) error {
							if _, err := race.First(ctx, "first", attempt, attempt); err != nil {
								return err
							}
							return scope.Run(ctx, "inner", budget.Inherited(), func(ctx context.Context, s *scope.Scope) error {
								_, err := race.Config[int]{After: every(5 * time.Millisecond), Inline: inline}.Hedge(ctx, "hedge", attempt)
								return err
							})
						})
					}
					assert.NoError(t, s.Wait())
					assert.Empty(t, s.Stats().Holding)
					assert.Empty(t, s.Stats().Waiting)
				})
				assert.Equal(t, slots, most)
			})
		}
	}
}

func TestAHedgeThatWaitsForASlotDoesNotHoldUpThePrimarysAnswer(t *testing.T) {
	for _, inline := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			inScope(t, func(ctx context.Context, s *scope.Scope) {
				s.SetSlots(1)
				s.Go("task", func(ctx context.Context) error {
					began := time.Now()
					var hedges atomic.Int64
					v, err := race.Config[string]{After: every(10 * time.Millisecond), Inline: inline}.Hedge(ctx, "q", func(ctx context.Context) (string, error) {
						if race.Attempt(ctx) > 0 {
							hedges.Add(1)
						}
						return after(50*time.Millisecond, "primary")(ctx)
					})
					assert.NoError(t, err)
					assert.Equal(t, "primary", v)
					assert.Equal(t, 50*time.Millisecond, time.Since(began))
					synctest.Wait()
					assert.Equal(t, 1, s.Stats().Live, "the hedge has left the queue")
					assert.Zero(t, hedges.Load(), "it was never called")
					return nil
				})
			})
		})
	}
}

// A deaf loser no longer counts, so its slot is free for who comes next.
func TestADeafLoserDoesNotKeepItsSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		inScope(t, func(ctx context.Context, s *scope.Scope) {
			s.SetSlots(2)
			s.SetStragglers(-1, scope.Wait)
			s.Go("task", func(ctx context.Context) error {
				_, err := race.First(ctx, "q", deaf(time.Second, 1), after(10*time.Millisecond, 2))
				assert.NoError(t, err)
				for range 3 {
					_, err = race.First(ctx, "q", after(10*time.Millisecond, 1), after(20*time.Millisecond, 2))
					assert.NoError(t, err)
				}
				assert.Equal(t, 40*time.Millisecond, time.Since(began))
				return nil
			})
		})
		assert.Equal(t, time.Second, time.Since(began))
	})
}
