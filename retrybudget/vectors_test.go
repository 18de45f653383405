package retrybudget_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/retrybudget"
)

func TestNDepositsGiveExactlyTheirShareOfRetries(t *testing.T) {
	for ratio, ppm := range map[float64]int{
		0.01: 10_000, 0.07: 70_000, 0.1: 100_000, 0.15: 150_000, 0.3: 300_000,
		0.6: 600_000, 0.7: 700_000, 0.99: 990_000, 1: 1_000_000, 2: 2_000_000,
	} {
		synctest.Test(t, func(t *testing.T) {
			for _, n := range []int{0, 1, 2, 3, 7, 9, 10, 11, 14, 15, 29, 99, 100, 101, 143, 1000, 9999} {
				b := retrybudget.New("target", none(ratio))
				earn(b, n)
				assert.Equal(t, n*ppm/1_000_000, drain(b), "ratio %v, %d deposits", ratio, n)
			}
			b := retrybudget.New("target", none(ratio)) // and one by one
			got := 0
			for n := 1; n <= 300; n++ {
				b.Success()
				got += drain(b)
				require.Equal(t, n*ppm/1_000_000, got, "ratio %v, %d deposits", ratio, n)
			}
		})
	}
}

// Finagle's RetryBudget (finagle-core, service/RetryBudget.scala).
func TestVectorsOfFinagle(t *testing.T) {
	tests := []struct {
		name      string
		ratio     float64
		perSecond int
		deposits  int
		finagle   int
		curfew    int
		why       string // where they differ
	}{
		{"default, fresh: a reserve of min × ttl", 0.2, 10, 0, 100, 100, ""},
		{"10 %", 0.1, 0, 10_000, 1000, 1000, ""},
		{"20 %", 0.2, 0, 10_000, 2000, 2000, ""},
		{"200 %", 2, 0, 10_000, 20_000, 20_000, ""},
		{"30 %", 0.3, 0, 10_000, 3000, 3000, ""},
		{"30 %, many", 0.3, 0, 100_000, 30_003, 30_000, "its withdrawal of 1000/0.3 is cut to 3333, which is 30.003 %; ours is 0.3 to the last token"},
		{"70 %, many", 0.7, 0, 100_000, 70_028, 70_000, "1428 for 1000/0.7, likewise"},
		{"tiny share, 60 s of 10/s: 32 bits wrap", 1e-4, 10, 0, 170, 600, "its reserve of 6,000,000,000 wraps to 1,705,032,704; ours counts in 64 bits"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.finagle != tt.curfew, tt.why != "", "a difference wants its reason")
			synctest.Test(t, func(t *testing.T) {
				// Its reserve is ours as a burst: it is there again whenever the
				// bucket has been idle.
				c := retrybudget.Config{Ratio: tt.ratio, Burst: -1}
				if tt.perSecond > 0 {
					c.PerSecond, c.Burst = float64(tt.perSecond), tt.curfew
				}
				b := retrybudget.New("target", c)
				earn(b, tt.deposits)
				assert.Equal(t, tt.curfew, drain(b))
			})
		})
	}
	t.Run("an idle bucket returns to its reserve", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := retrybudget.New("target", retrybudget.Config{Ratio: 0.2, PerSecond: 10, Burst: 100})
			earn(b, 1000)
			assert.Equal(t, 300, drain(b))
			// Its reserve comes back at once with the window, ours at 10/s.
			time.Sleep(9 * time.Second)
			assert.Equal(t, 90, b.Stats().Floor)
			earn(b, 1000)
			time.Sleep(20 * time.Second)
			assert.Equal(t, 100, drain(b))
		})
	})
}

// gRPC's retryThrottling (proposal A6, grpc-go): a breaker and no cap. Below a
// share of failures of ratio/(1+ratio) it lets all of them retry, above it none.
func TestVectorsOfGRPCRetryThrottling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// max 10, ratio 0.1. Theirs: failures 1 to 4 retry, the fifth is denied.
		// Ours pays with what was earned: the start is the burst.
		b := retrybudget.New("target", retrybudget.Config{Ratio: 0.1, Burst: 4, PerSecond: -1})
		assert.Equal(t, 4, drain(b))

		// From nothing, theirs: 60 successes do not allow a retry, 61 do, as half
		// of max must be there first. Ours: ten are one, sixty are six, exactly.
		b = retrybudget.New("target", none(0.1))
		earn(b, 9)
		assert.False(t, b.TryTake())
		b.Success()
		assert.True(t, b.TryTake())
		earn(b, 60)
		assert.Equal(t, 6, drain(b))

		// Theirs has a break-even: at 9 % failures all retry, at 10 % none does
		// for long. Ours allows a tenth of the successes at any share.
		for _, failing := range []int{9, 10, 50, 90} {
			b := retrybudget.New("target", none(0.1))
			retries := 0
			for i := range 10_000 {
				if i%100 >= failing {
					b.Success()
				} else if b.TryTake() {
					retries++
				}
			}
			assert.InDelta(t, min(failing*100, (100-failing)*10), retries, 10, "%d %%", failing)
		}
	})
}

// The AWS SDK for Go v2 in its mode of 2026: a bucket of 500, a retry costs 14,
// a success gives one back and a successful retry its own cost.
func TestVectorsOfAWS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Theirs: 35 retries for every fresh client (500/14), a hundred in the old
		// mode. Ours: the burst, chosen by whoever knows how many clients there are.
		b := retrybudget.New("target", retrybudget.Config{Burst: 35, PerSecond: -1})
		assert.Equal(t, 35, drain(b))

		// Theirs: 500, 486, 472, and 486 again when that retry went well. Ours gives
		// no retry back for free: a success earns the ratio, whichever attempt it
		// was, else a target that needs two attempts for each call would never run
		// out. 14 tokens of 500 are earned by 14 successes: a ratio of a 14th.
		b = retrybudget.New("target", retrybudget.Config{Ratio: 1.0 / 14, Burst: 3, PerSecond: -1})
		assert.True(t, b.TryTake())
		assert.True(t, b.TryTake())
		b.Success()
		assert.Equal(t, 1, drain(b))
		earn(b, 12)
		assert.Equal(t, 0, drain(b), "13 successes")
		b.Success()
		assert.Equal(t, 1, drain(b), "14 successes")
	})
	// Delays: U(0,1) × min(20 s, 50 ms × 2^i). The same here; a draw is never zero.
	t.Run("Retry-After", func(t *testing.T) {
		// Theirs is clamped to [backoff, backoff + 5 s]: 10 s asked for is 5.05 s
		// waited. Ours is a floor, always, and one that does not fit is not waited for.
		for _, asked := range []time.Duration{1500 * time.Millisecond, 0, 10 * time.Second} {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				calls := 0
				err := retrybudget.Do(context.Background(), retrybudget.Unlimited(), retrybudget.Policy{
					Attempts: 2, Backoff: fixed(50 * time.Millisecond),
					Judge: func(error) retrybudget.Verdict { return retrybudget.Verdict{Retry: true, After: asked} },
				}, failing(&calls, errDown))
				assert.ErrorIs(t, err, errDown)
				assert.Equal(t, max(asked, 50*time.Millisecond), time.Since(start))
			})
		}
	})
}

// The loop of the worked numbers that this project is measured by.
func TestTheRetryLoopOfTheSeeds(t *testing.T) {
	data, err := os.ReadFile("testdata/retry_loop.json")
	require.NoError(t, err)
	var loop struct {
		Attempts       int `json:"attempts"`
		PerAttemptCap  int `json:"per_attempt_cap"`
		TypicalAttempt int `json:"typical_attempt"`
		Outcomes       []struct {
			Remaining             int   `json:"remaining"`
			FirstAttemptLimit     int   `json:"first_attempt_limit"`
			RemainingAfterFailure int   `json:"remaining_after_failure"`
			Wait                  int   `json:"wait"`
			Retry                 *bool `json:"retry"`
			Limit                 int   `json:"limit"`
		} `json:"outcomes"`
	}
	require.NoError(t, json.Unmarshal(data, &loop))
	require.Len(t, loop.Outcomes, 4)
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	for _, o := range loop.Outcomes {
		t.Run(fmt.Sprintf("%+v", o), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				policy := retrybudget.Policy{
					Idempotent: true, Attempts: loop.Attempts, PerAttempt: ms(loop.PerAttemptCap),
					Typical: func() time.Duration { return ms(loop.TypicalAttempt) },
					Backoff: fixed(ms(o.Wait)),
				}
				const first = 10 // what the first attempt takes
				remaining := o.Remaining
				if remaining == 0 {
					remaining = o.RemainingAfterFailure + first
				}
				var limits []time.Duration
				err := retrybudget.Do(within(t, ms(remaining)), retrybudget.Unlimited(), policy, func(ctx context.Context) error {
					left, ok := budget.Remaining(ctx)
					require.True(t, ok)
					limits = append(limits, left)
					if len(limits) > 1 {
						return nil
					}
					time.Sleep(ms(first))
					return errDown
				})
				if o.Retry == nil {
					assert.Equal(t, ms(o.FirstAttemptLimit), limits[0])
					return
				}
				assert.Equal(t, *o.Retry, len(limits) == 2)
				if *o.Retry {
					assert.NoError(t, err)
					assert.Equal(t, ms(o.Limit), limits[1])
				} else {
					assert.ErrorIs(t, err, retrybudget.ErrDenied)
					assert.ErrorIs(t, err, errDown)
				}
			})
		})
	}
}
