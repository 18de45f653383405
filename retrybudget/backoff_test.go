package retrybudget_test

import (
	"context"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/retrybudget"
)

// The retry of each of 1000 clients that all failed at the same instant: their
// times are spread evenly over all that the ceiling allows.
func TestAThousandClientsThatFailedTogetherComeBackSpreadOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients, bins, base = 1000, 20, 100 * time.Millisecond
		start := time.Now()
		var mu sync.Mutex
		var came []time.Duration
		var wg sync.WaitGroup
		for range clients {
			wg.Go(func() {
				_ = retrybudget.Do(t.Context(), retrybudget.Unlimited(), retrybudget.Policy{
					Idempotent: true, Attempts: 2, Backoff: retrybudget.Backoff{Base: base},
				}, func(ctx context.Context) error {
					if retrybudget.Attempt(ctx) == 2 {
						mu.Lock()
						came = append(came, time.Since(start))
						mu.Unlock()
					}
					return errDown
				})
			})
		}
		wg.Wait()
		assert.Len(t, came, clients)
		var count [bins]int
		for _, at := range came {
			assert.Positive(t, at)
			assert.LessOrEqual(t, at, base)
			count[(at-1)*bins/base]++
		}
		// Pearson's test with 19 degrees of freedom: uniform times exceed 63 in
		// less than one run of a million.
		chi := 0.0
		for _, n := range count {
			d := float64(n) - clients/bins
			chi += d * d / (clients / bins)
		}
		assert.Less(t, chi, 63.0, "%v", count)
	})
}

func TestWaitsStayBelowTheCeilingOfTheirAttempt(t *testing.T) {
	const base, most = 10 * time.Millisecond, 100 * time.Millisecond
	ceilings := []time.Duration{10, 20, 40, 80, 100, 100, 100} // ms
	for jitter, lowest := range map[retrybudget.Jitter]func(ceiling time.Duration) time.Duration{
		retrybudget.FullJitter:         func(time.Duration) time.Duration { return 0 },
		retrybudget.EqualJitter:        func(c time.Duration) time.Duration { return c / 2 },
		retrybudget.DecorrelatedJitter: func(time.Duration) time.Duration { return base - 1 },
		retrybudget.NoJitter:           func(c time.Duration) time.Duration { return c },
	} {
		synctest.Test(t, func(t *testing.T) {
			for range 50 {
				before := time.Time{}
				last := base
				_ = retrybudget.Do(t.Context(), retrybudget.Unlimited(), retrybudget.Policy{
					Idempotent: true, Attempts: len(ceilings) + 1,
					Backoff: retrybudget.Backoff{Base: base, Max: most, Jitter: jitter},
				}, func(ctx context.Context) error {
					if n := retrybudget.Attempt(ctx); n > 1 {
						wait, ceiling := time.Since(before), ceilings[n-2]*time.Millisecond
						if jitter == retrybudget.DecorrelatedJitter {
							ceiling = min(most, 3*last)
						}
						assert.LessOrEqual(t, wait, ceiling, "jitter %d, attempt %d", jitter, n)
						assert.GreaterOrEqual(t, wait, lowest(ceiling), "jitter %d, attempt %d", jitter, n)
						assert.Positive(t, wait)
						last = wait
					}
					before = time.Now()
					return errDown
				})
			}
		})
	}
}

func TestNoDurationIsTooLongForABackoff(t *testing.T) {
	const most = time.Duration(math.MaxInt64)
	synctest.Test(t, func(t *testing.T) {
		for _, jitter := range []retrybudget.Jitter{retrybudget.FullJitter, retrybudget.EqualJitter, retrybudget.DecorrelatedJitter, retrybudget.NoJitter} {
			for _, b := range []retrybudget.Backoff{{Base: most}, {Base: most / 2, Max: most}, {Base: time.Second, Max: most}} {
				b.Jitter = jitter
				for _, target := range []*retrybudget.Budget{retrybudget.Unlimited(), retrybudget.New("target", none(1))} {
					ctx, cancel := context.WithCancel(t.Context())
					time.AfterFunc(time.Nanosecond, cancel)
					err := retrybudget.Do(ctx, target, retrybudget.Policy{Idempotent: true, Attempts: 99, Backoff: b},
						func(context.Context) error { return errDown })
					var denied *retrybudget.DeniedError
					require.ErrorAs(t, err, &denied)
					assert.Equal(t, denied.Cause == nil, denied.Wait > 0, "%+v: %v", b, err)
				}
			}
		}
		// Doubling goes on for ever where Max is out of reach.
		for n := range 200 {
			b := retrybudget.Backoff{Base: 1, Max: most}
			assert.Positive(t, b.Ceiling(n, 0), "%d", n)
			b.Jitter = retrybudget.DecorrelatedJitter
			assert.Positive(t, b.Ceiling(n, most>>(n%64)), "%d", n)
		}
	})
}

func TestTheDefaultBackoffGoesFrom50MillisecondsTo20Seconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		_ = retrybudget.Do(t.Context(), retrybudget.Unlimited(), retrybudget.Policy{
			Idempotent: true, Attempts: 12, Backoff: retrybudget.Backoff{Jitter: retrybudget.NoJitter},
		}, func(context.Context) error { return errDown })
		// 50 ms × (1+2+4+…+256) for nine waits, and 20 s for two.
		assert.Equal(t, 511*50*time.Millisecond+40*time.Second, time.Since(start))
	})
}
