package retrybudget_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/curfew-go/curfew/internal/stress"
	"github.com/curfew-go/curfew/retrybudget"
)

func TestTenThousandTargetsChurningStayWithinOneBurstAndTheFloors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const held, burst, perSecond = 100, 5, 1
		s := retrybudget.NewSet(retrybudget.Config{Ratio: 0.1, Burst: burst, PerSecond: perSecond}, held)
		retries := 0
		for i := range 10_000 { // all in one instant
			retries += drain(s.For(fmt.Sprint("target ", i)))
		}
		assert.Equal(t, burst, retries, "one burst for all of them")

		start := time.Now()
		for i := range 10_000 { // and with time for floors
			if i%100 == 0 {
				time.Sleep(time.Second)
			}
			retries += drain(s.For(fmt.Sprint("another ", i)))
		}
		floors := held * perSecond * int(time.Since(start)/time.Second)
		assert.LessOrEqual(t, retries, burst+floors)
		assert.Less(t, retries, 1000, "a key that is new each time gains next to nothing")
	})
}

func TestATargetThatStaysGainsItsFloorAndKeepsItsCredit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := retrybudget.NewSet(retrybudget.Config{Ratio: 0.5, Burst: 2, PerSecond: 1}, 3)
		a := s.For("a")
		assert.Equal(t, 2, drain(a), "the one burst")
		assert.Zero(t, drain(s.For("b")))
		time.Sleep(time.Second)
		assert.Equal(t, 1, drain(a))
		time.Sleep(time.Minute)
		assert.Equal(t, 2, a.Stats().Floor)
		assert.Equal(t, 2, drain(a), "as much as a burst, gained")
		earn(a, 10)
		for i := range 10 { // a is used, so the others make room
			assert.Same(t, a, s.For("a"))
			s.For(fmt.Sprint(i))
		}
		assert.Equal(t, 5, drain(s.For("a")))
	})
}

func TestAnEvictedTargetStartsAtZeroAndItsOldBudgetHasNoFloor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := retrybudget.NewSet(retrybudget.Config{Ratio: 1, Burst: 1, PerSecond: 1}, 1)
		old := s.For("a")
		earn(old, 3)
		drain(s.For("b")) // takes the burst, and a's place
		again := s.For("a")
		assert.NotSame(t, old, again)
		assert.Zero(t, drain(again))
		time.Sleep(5 * time.Second)
		assert.Equal(t, 3, drain(old), "its credit and nothing else")
		assert.Equal(t, 1, drain(again))
	})
}

func TestADeniedHedgeTakesNothingFromTheHedgesAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := retrybudget.NewSet(retrybudget.Config{Ratio: -1, Burst: 4, PerSecond: 1}, 2)
		assert.Equal(t, 4, drain(s.For("a")), "the one burst")
		hedges := s.For("b").Hedges()
		for range 20 {
			time.Sleep(time.Second / 20)
			if hedges.TryTake() {
				break
			}
		}
		assert.EqualValues(t, 19, hedges.Stats().DeniedHedges)
		assert.EqualValues(t, 1, hedges.Stats().Hedges, "one second gains one")
	})
}

func TestASetGivesAllGoroutinesTheSameBudgets(t *testing.T) {
	for range stress.Rounds(20) {
		const targets = 8
		s := retrybudget.NewSet(none(1), targets)
		var wg sync.WaitGroup
		for g := range 32 {
			wg.Go(func() {
				for i := range 10 * targets {
					s.For(fmt.Sprint((i + g) % targets)).Success()
				}
			})
		}
		wg.Wait()
		for i := range targets {
			assert.EqualValues(t, 320, s.For(fmt.Sprint(i)).Stats().Successes)
		}
	}
}
