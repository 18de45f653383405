package retrybudget

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/internal/stress"
)

// hedgesNow takes all the hedges that c pays for with credit.
func hedgesNow(c *core) (n int) {
	for {
		var g grant
		if !c.take(&g, perToken, true) {
			return n
		}
		n++
	}
}

func TestHedgesOfEverySpanAreWhatItsSuccessesEarnedAndOneBurst(t *testing.T) {
	var granted, denied, retried int
	synctest.Test(t, func(t *testing.T) {
		for range stress.Rounds(100) {
			burst := 1 + rand.IntN(20)
			c := newCore("target", Config{
				Ratio:      []float64{.01, .1, .7, 1}[rand.IntN(4)],
				Window:     []time.Duration{time.Second, 10 * time.Second}[rand.IntN(2)],
				HedgeBurst: burst, PerSecond: -1, Burst: -1,
			}.settle("test"))
			var events []event
			for range 100 {
				now := c.now()
				switch rand.IntN(8) {
				case 0:
					time.Sleep(time.Duration(rand.Int64N(2 * c.window)))
				case 1, 2, 3:
					for range rand.IntN(60) {
						c.success()
						events = append(events, event{now, true})
					}
				case 4:
					var g grant
					if c.take(&g, perToken, false) {
						retried++
						if rand.IntN(2) == 0 {
							c.giveBack(g)
						}
					}
				default:
					n := rand.IntN(30)
					for range n {
						var g grant
						if !c.take(&g, perToken, true) {
							denied++
							break
						}
						granted++
						events = append(events, event{now, false})
						if rand.IntN(10) == 0 {
							c.giveBack(g) // is not given to another hedge
						}
					}
				}
			}
			// The span with the most hedges beyond its earnings that ends with each.
			beyond := int64(0)
			for _, e := range events {
				if e.success {
					beyond = max(0, beyond-int64(c.ppm))
					continue
				}
				beyond += perToken
				require.LessOrEqual(t, beyond, int64(burst)*perToken, "until %v", time.Duration(e.at))
			}
			checkBooks(t, c)
		}
	})
	t.Logf("hedges granted %d, denied %d, retries %d", granted, denied, retried)
	for _, n := range []int{granted, denied, retried} {
		assert.Positive(t, n, "never happened")
	}
}

func TestHedgesAtOnceKeepToTheirBurst(t *testing.T) {
	for range stress.Rounds(20) {
		c := newCore("target", Config{Ratio: 1, HedgeBurst: 7, PerSecond: -1, Burst: -1, Window: time.Minute}.settle("test"))
		for range 10_000 { // of which 5000 are to be had for hedges
			c.success()
		}
		const depositors, each = 8, 50
		var hedges atomic.Uint64
		var wg sync.WaitGroup
		start := make(chan struct{})
		for i := range 32 {
			wg.Go(func() {
				<-start
				for j := range each {
					switch {
					case i < depositors:
						c.success()
					case j%5 == 0:
						var g grant
						if c.take(&g, perToken, false) {
							c.giveBack(g)
						}
					default:
						hedges.Add(uint64(hedgesNow(c)))
					}
				}
			})
		}
		close(start)
		wg.Wait()
		hedges.Add(uint64(hedgesNow(c)))
		require.GreaterOrEqual(t, hedges.Load(), uint64(7))
		require.LessOrEqual(t, hedges.Load(), uint64(depositors*each+7))
		require.Equal(t, hedges.Load(), (&Budget{core: c}).Stats().Hedges)
		checkBooks(t, c)
	}
}

func TestWithoutABurstHedgesSaveUpWhatASecondEarns(t *testing.T) {
	for perSecond, want := range map[int]int{
		1:    0, // half of ten seconds' credit is half a hedge
		5:    2, // of half of it, which is two and a half
		10:   2, // a second's is one
		100:  10,
		1000: 100,
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newCore("target", Config{PerSecond: -1, Burst: -1}.settle("test"))
			for range 30 * perSecond {
				c.success()
				time.Sleep(time.Second / time.Duration(perSecond))
			}
			b := (&Budget{core: c}).Hedges()
			assert.InDelta(t, want, b.Stats().Credit, float64(want)/10, "%d a second", perSecond)
			assert.InDelta(t, want, hedgesNow(c), float64(want)/10, "%d a second", perSecond)
			assert.Zero(t, b.Stats().Credit)
			if perSecond >= 10 {
				assert.Contains(t, b.String(), "; denies now: hedges have used theirs, and wait for successes")
				assert.Positive(t, (&Budget{core: c}).Stats().Credit, "for retries")
			}
		})
	}
}

func TestHedgesThatMayNotBurstLiveOnTheFloor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New("target", Config{Ratio: 1, HedgeBurst: -1, Burst: 4})
		for range 100 {
			b.Success()
		}
		assert.Equal(t, 2, hedgesNow(b.core), "half of the floor's burst")
		assert.Equal(t, 100, b.Stats().Credit)
	})
}

func TestABurstOfHedgesIsReportedAndChecked(t *testing.T) {
	b := New("target", Config{Ratio: .09, HedgeBurst: 5, Burst: -1})
	assert.Contains(t, b.String(), "; cap 9% of successes, 5 hedges at once; ")
	assert.PanicsWithValue(t, "retrybudget: New: HedgeBurst 1000001 is above 1000000", func() { New("target", Config{HedgeBurst: 1_000_001}) })
}

// The figures of the package comment: 3000 calls a second, all of which ask for a hedge
// from the instant on in which they become a fourth of that.
func TestTheHedgesAfterAStepAreThoseOfThePackageComment(t *testing.T) {
	for _, c := range []struct {
		Config
		most float64 // of a second's calls, in percent
	}{
		{Config{PerSecond: -1, Burst: -1, HedgeBurst: 1_000_000}, 100},
		{Config{PerSecond: -1, Burst: -1}, 50},
		{Config{PerSecond: -1, Burst: -1, HedgeBurst: 5}, 10.6},
		{Config{PerSecond: -1, Burst: -1, HedgeBurst: 5, Ratio: .09}, 9.7},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := New("target", c.Config)
			hedges := b.Hedges()
			for range 30_000 {
				b.Success()
				time.Sleep(time.Second / 3000)
			}
			var at []time.Duration
			const after = 5 * 750
			for i := range after {
				if hedges.TryTake() {
					at = append(at, time.Duration(i)*time.Second/750)
				}
				b.Success()
				time.Sleep(time.Second / 750)
			}
			most := 0
			for i := range at {
				n := 0
				for ; i+n < len(at) && at[i+n] < at[i]+time.Second; n++ {
				}
				most = max(most, n)
			}
			t.Logf("%+v: %.1f%%, %.1f%% of all", c.Config, 100*float64(most)/750, 100*float64(len(at))/after)
			assert.InDelta(t, c.most, 100*float64(most)/750, .2)
		})
	}
}
