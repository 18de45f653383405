package latency_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/budget/latency"
)

// Requests of 800 ms call a target as the comment of the package shows it. Once most
// of what the window holds was cut off, the median is beyond all that a request could
// bring. Nobody may refuse calls for that, or there is nobody left to find out.
func TestATargetThatIsWellAgainIsCalledAgain(t *testing.T) {
	for _, outage := range []time.Duration{20 * time.Second, 40 * time.Second, 90 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			seen := latency.New(latency.Config{})
			var answered, refused atomic.Int64
			call := func(takes time.Duration) {
				request, stop := context.WithTimeout(context.Background(), 800*ms)
				defer stop()
				ctx, cancel, err := budget.Enter(request, budget.Within(seen.Timeout()).Require(seen.Typical()))
				defer cancel()
				if err != nil {
					refused.Add(1)
					return
				}
				start := time.Now()
				select {
				case <-time.After(takes):
					answered.Add(1)
				case <-ctx.Done():
					err = context.Cause(ctx)
				}
				seen.Record(time.Since(start), err)
			}
			during := func(d, takes time.Duration) {
				var calls sync.WaitGroup
				for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(20 * ms) {
					calls.Go(func() { call(takes) })
				}
				calls.Wait()
			}
			during(time.Minute, 10*ms)
			assert.Equal(t, int64(3000), answered.Load())
			during(outage, time.Hour)
			assert.Equal(t, int64(3000), answered.Load())
			during(time.Minute, 10*ms)
			assert.Equal(t, int64(6000), answered.Load(), "after %v", outage)
			assert.Zero(t, refused.Load(), "by %v", outage)
		})
	}
}
