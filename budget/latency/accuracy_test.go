package latency_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget/latency"
	"github.com/curfew-go/curfew/internal/stress"
)

// The bounds that the package documents: from so many attempts on, a quantile is
// so near to the distribution's. It is the scatter of the samples that takes so
// many: two standard errors of a p99.99 of these inputs are about 2.3% with a
// million samples, and half of that with four, which make stress draws.
func TestQuantilesAreThoseOfTheDistribution(t *testing.T) {
	type bound struct {
		q     float64
		from  int
		share float64
	}
	bounds := []bound{{0.5, 20_000, 0.02}, {0.99, 200_000, 0.02}, {0.999, 500_000, 0.02}, {0.9999, 1_000_000, 0.03}}
	if stress.Level() > 0 {
		bounds = append(bounds, bound{0.9999, 4_000_000, 0.02})
	}
	for name, input := range inputs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(7, 8))
			o := latency.New(latency.Config{Window: time.Hour})
			n := 0
			for _, tt := range bounds {
				for ; n < tt.from; n++ {
					o.Record(input.draw(r), nil)
				}
				got, ok := o.Quantile(tt.q)
				require.True(t, ok)
				want := input.quantile(tt.q)
				near(t, want, got, tt.share, "p%v of %d", 100*tt.q, n)
				t.Logf("p%v of %d: %v, off by %+.2f%%", 100*tt.q, n, want, 100*(float64(got)/float64(want)-1))
			}
		})
	}
}

// A target that becomes four times slower: halfway through the window the
// answers are those of the mixture, after a window those of what it is now.
func TestAStepIsForgottenAfterAWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(9, 10))
		o := latency.New(latency.Config{Window: time.Minute})
		run := func(long, factor time.Duration) {
			for range long / (10 * ms) {
				for range 20 {
					o.Record(usual.draw(r)*factor, nil)
				}
				time.Sleep(10 * ms)
			}
		}
		ask := func(factor time.Duration) {
			t.Helper()
			for _, q := range []float64{0.5, 0.99, 0.999} {
				got, ok := o.Quantile(q)
				require.True(t, ok)
				near(t, usual.quantile(q)*factor, got, 0.03, "p%v", 100*q)
			}
		}
		run(time.Minute, 1)
		ask(1)
		run(25*time.Second, 4) // about half of what the window holds
		p50, _ := o.Quantile(0.5)
		assert.Greater(t, p50, usual.quantile(0.5))
		assert.Less(t, p50, 4*usual.quantile(0.5))
		p999, _ := o.Quantile(0.999)
		near(t, 4*usual.quantile(0.999), p999, 0.2, "the tail follows at once")
		run(35*time.Second, 4)
		ask(4)
		run(time.Minute, 1)
		ask(1)

		time.Sleep(time.Minute)
		assert.Zero(t, o.Snapshot().Stats(), "idle for a window, it has forgotten")
		assert.Zero(t, o.Typical())
	})
}

// The timeout in a loop with itself: what it cuts off it cannot see answered.
// The rate of false timeouts must settle near the wanted one all the same.
func TestTheSeenRateOfFalseTimeoutsIsTheWantedOne(t *testing.T) {
	for _, wanted := range []float64{0.01, 0.001} {
		for name, input := range inputs {
			t.Run(fmt.Sprint(name, " ", wanted), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := rand.New(rand.NewPCG(11, 12))
					o := latency.New(latency.Config{Window: time.Minute, FalseTimeouts: wanted})
					cut, all := 0, 0
					for second := range 150 {
						for range 600 {
							took, limit := input.draw(r), o.Timeout()
							switch {
							case took > limit:
								o.Record(limit, timedOut)
							default:
								o.Record(took, nil)
							}
							if second >= 60 {
								all++
								if took > limit {
									cut++
								}
							}
						}
						time.Sleep(time.Second)
					}
					want, seen := o.FalseTimeouts()
					assert.Equal(t, wanted, want)
					rate := float64(cut) / float64(all)
					t.Logf("wanted %v, real %.5f, seen in the window %.5f, timeout %v, true quantile %v", wanted, rate, seen, o.Timeout(), input.quantile(1-wanted))
					assert.Greater(t, rate, wanted/2)
					assert.Less(t, rate, wanted*1.5)
					assert.Greater(t, seen, wanted/3)
					assert.Less(t, seen, wanted*2)
				})
			})
		}
	}
}

// A target that became so slow that the timeout cuts off every attempt gives
// no answer from which a longer one could be learned.
func TestATimeoutThatCutsOffEverythingGrowsUntilAnswersShow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(13, 14))
		o := latency.New(latency.Config{Window: time.Minute, Max: 2 * time.Second})
		second := func(factor time.Duration) (answered int) {
			for range 1000 {
				took, limit := usual.draw(r)*factor, o.Timeout()
				if took <= limit {
					answered++
					o.Record(took, nil)
				} else {
					o.Record(limit, timedOut)
				}
			}
			time.Sleep(time.Second)
			return answered
		}
		for range 60 {
			second(1)
		}
		require.Less(t, o.Timeout(), 25*ms)
		require.Less(t, second(50), 10, "cut off nearly all")
		seconds := 0
		for ; second(50) < 990; seconds++ {
			require.Less(t, seconds, 10)
		}
		t.Logf("answers are back after %d s, timeout %v", seconds, o.Timeout())
		for range 10 {
			second(1e6) // nothing answers at all
		}
		assert.Equal(t, 2*time.Second, o.Timeout(), "at most Max")
		for range 60 {
			second(1)
		}
		assert.Less(t, o.Timeout(), 25*ms, "and back")
	})
}
