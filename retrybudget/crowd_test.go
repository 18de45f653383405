package retrybudget_test

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/curfew-go/curfew/retrybudget"
)

// TestNoWindowIsOverspentByACrowd: 64 goroutines that succeed and retry, many of them
// in the same instant, and every window between two instants looked at.
func TestNoWindowIsOverspentByACrowd(t *testing.T) {
	const (
		goroutines, each = 64, 120
		ratio, burst     = 0.3, 5
		window           = 2 * time.Second
	)
	synctest.Test(t, func(t *testing.T) {
		b := retrybudget.New("target", retrybudget.Config{Ratio: ratio, PerSecond: 2, Burst: burst, Window: window})
		type counts struct{ successes, grants int }
		var mu sync.Mutex
		at := map[time.Duration]*counts{} // since the start
		start := time.Now()
		note := func(f func(*counts)) {
			mu.Lock()
			defer mu.Unlock()
			now := time.Since(start)
			if at[now] == nil {
				at[now] = &counts{}
			}
			f(at[now])
		}
		var wg sync.WaitGroup
		granted, denied := 0, 0
		for i := range goroutines {
			wg.Go(func() {
				draw := rand.New(rand.NewPCG(uint64(i), 1))
				for range each {
					time.Sleep(time.Duration(draw.IntN(8)) * 25 * time.Millisecond)
					if draw.IntN(3) == 0 && time.Since(start)/(5*time.Second)%2 == 0 { // now and then it is down
						b.Success()
						note(func(c *counts) { c.successes++ })
					} else if b.TryTake() {
						note(func(c *counts) { c.grants++; granted++ })
					} else {
						note(func(*counts) { denied++ })
					}
				}
			})
		}
		wg.Wait()
		var instants []time.Duration
		for d := range at {
			instants = append(instants, d)
		}
		slices.Sort(instants)
		for i, from := range instants {
			grants := 0
			for _, to := range instants[i:] {
				grants += at[to].grants
				successes := 0
				for _, d := range instants {
					if d >= from-window && d <= to {
						successes += at[d].successes
					}
				}
				allowed := ratio*float64(successes) + 2*(to-from).Seconds() + burst
				if float64(grants) > allowed+1e-6 {
					t.Fatalf("from %v to %v: %d granted, %.2f allowed", from, to, grants, allowed)
				}
			}
		}
		t.Logf("%d instants, %d granted, %d denied", len(instants), granted, denied)
		assert.Positive(t, denied)
		assert.Greater(t, granted, burst)
	})
}

// TestCase07_TheFloorPaysWithinItsInterval: whenever the budget was emptied, and
// although nothing succeeds.
func TestCase07_TheFloorPaysWithinItsInterval(t *testing.T) {
	for phase := range 20 {
		synctest.Test(t, func(t *testing.T) {
			b := retrybudget.New("target", retrybudget.Config{PerSecond: 2, Burst: 1})
			drain(b)
			time.Sleep(time.Minute + time.Duration(phase)*25*time.Millisecond)
			drain(b)
			start := time.Now()
			for !b.TryTake() {
				time.Sleep(time.Millisecond)
			}
			assert.LessOrEqual(t, time.Since(start), 501*time.Millisecond)
		})
	}
}

// TestCase06_EveryViewRefills: ten successes are worth one retry, whoever asks.
func TestCase06_EveryViewRefills(t *testing.T) {
	for name, view := range map[string]func(*retrybudget.Budget) *retrybudget.Budget{
		"the budget itself": func(b *retrybudget.Budget) *retrybudget.Budget { return b },
		"a fan-out":         func(b *retrybudget.Budget) *retrybudget.Budget { return b.AtMost(5) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := retrybudget.New("target", none(0.1))
				earn(b, 100)
				drain(b)
				v := view(b)
				assert.False(t, v.TryTake())
				earn(b, 10)
				assert.True(t, v.TryTake())
				assert.False(t, v.TryTake())
			})
		})
	}
	t.Run("hedges, which leave half to retries", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := retrybudget.New("target", none(0.1))
			earn(b, 100)
			drain(b)
			assert.False(t, b.Hedges().TryTake())
			time.Sleep(11 * time.Second) // half of the live credit: what was spent counts while it lives
			earn(b, 20)
			assert.True(t, b.Hedges().TryTake())
			assert.False(t, b.Hedges().TryTake())
		})
	})
	t.Run("a member of a Set", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := retrybudget.NewSet(none(0.1), 10).For("target")
			assert.False(t, b.TryTake())
			earn(b, 10)
			assert.True(t, b.TryTake())
		})
	})
	t.Run("one that observes denies nothing and says so", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := none(0.1)
			c.Observe = true
			b := retrybudget.New("target", c)
			assert.True(t, b.TryTake())
			assert.EqualValues(t, 1, b.Stats().DeniedRetries)
			earn(b, 10)
			assert.True(t, b.TryTake())
			assert.EqualValues(t, 1, b.Stats().DeniedRetries)
		})
	})
}
