package curfewhttp_test

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	curfewhttp "github.com/curfew-go/curfew/adapters/http"
	"github.com/curfew-go/curfew/budget/meter"
)

// Whatever the order in which requests come, run out of time and lose their clients,
// each is refused in the instant of its own end, and no other one.
func TestEachWaitsInAQueueNoLongerThanItsOwnTime(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			q := curfewhttp.NewQueue(1, 1000)
			hold := make(chan struct{})
			h := curfewhttp.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hold }),
				curfewhttp.Config{Max: time.Hour, Queue: q, Recorder: &meter.Memory{}}) // a Recorder: it hears of clients at once
			var all sync.WaitGroup
			all.Go(func() { askFor(h, t.Context(), "3600000") })
			synctest.Wait()
			for range 200 {
				left := time.Duration(1+random.IntN(500)) * ms
				leaves := time.Duration(1+random.IntN(1000)) * ms
				ctx, cancel := context.WithCancel(t.Context())
				all.Go(func() {
					defer cancel()
					timer := time.AfterFunc(leaves, cancel)
					defer timer.Stop()
					began := time.Now()
					askFor(h, ctx, left.String()[:len(left.String())-2])
					assert.Equal(t, min(left, leaves), time.Since(began), "left %v, client leaves after %v", left, leaves)
				})
				if random.IntN(3) == 0 {
					time.Sleep(time.Duration(random.IntN(20)) * ms)
				}
			}
			time.Sleep(time.Second)
			synctest.Wait()
			assert.Zero(t, q.Waiting())
			close(hold)
			all.Wait()
		})
	}
}

// A request that got its turn has its deadline again, which the queue kept for it.
func TestARequestThatHasWaitedStillEndsAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := curfewhttp.NewQueue(1, 10)
		var ended time.Duration
		began := time.Now()
		h := curfewhttp.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			ended = time.Since(began)
		}), curfewhttp.Config{Max: time.Hour, Queue: q})
		var all sync.WaitGroup
		all.Go(func() { askFor(h, t.Context(), "100") })
		synctest.Wait()
		all.Go(func() { assert.Equal(t, http.StatusGatewayTimeout, askFor(h, t.Context(), "300")) })
		all.Wait()
		assert.Equal(t, 300*ms, ended)
	})
}

// A Queue may outlive a synctest bubble, as one in a variable of a package does.
func TestAQueueServesOneBubbleAfterAnother(t *testing.T) {
	q := curfewhttp.NewQueue(1, 10)
	for range 3 {
		synctest.Test(t, func(t *testing.T) {
			h := curfewhttp.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(time.Second) }),
				curfewhttp.Config{Max: time.Hour, Queue: q})
			var all sync.WaitGroup
			all.Go(func() { askFor(h, t.Context(), "5000") })
			synctest.Wait()
			all.Go(func() { assert.Equal(t, http.StatusServiceUnavailable, askFor(h, t.Context(), "100")) })
			all.Go(func() { assert.Equal(t, http.StatusOK, askFor(h, t.Context(), "5000")) })
			all.Wait()
		})
	}
}

// What had time enough when it came may have too little when its turn comes: it is looked
// at again, and the turn is handed on.
func TestATurnThatComesTooLateIsHandedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		h := curfewhttp.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			calls.Add(1)
			time.Sleep(700 * ms)
		}), curfewhttp.Config{Max: time.Minute, Useful: 500 * ms, Queue: curfewhttp.NewQueue(1, 10)})
		began := time.Now()
		var all sync.WaitGroup
		for _, c := range []struct {
			left string
			want int
		}{
			{"60000", http.StatusOK},
			{"1000", http.StatusServiceUnavailable}, // of which 300 are left then
			{"60000", http.StatusOK},
		} {
			all.Go(func() { assert.Equal(t, c.want, askFor(h, t.Context(), c.left), c.left) })
			synctest.Wait()
		}
		all.Wait()
		assert.EqualValues(t, 2, calls.Load())
		assert.Equal(t, 1400*ms, time.Since(began))
	})
}
