package curfewhttp_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	curfewhttp "github.com/curfew-go/curfew/adapters/http"
)

func askFor(h http.Handler, ctx context.Context, left string) int {
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
	r.Header.Set(curfewhttp.Header, left)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

// Everything that waits has expired when its turn comes: none of it is handled.
func TestAnExpiredQueueDrainsWithoutAHandlerCall(t *testing.T) {
	const waiting = 10_000
	synctest.Test(t, func(t *testing.T) {
		var calls, refused atomic.Int64
		hold := make(chan struct{})
		q := curfewhttp.NewQueue(1, waiting)
		h := curfewhttp.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			calls.Add(1)
			<-hold
		}), curfewhttp.Config{Max: time.Hour, Queue: q})
		var all sync.WaitGroup
		all.Go(func() { askFor(h, t.Context(), "3600000") })
		synctest.Wait()
		for range waiting {
			all.Go(func() {
				if askFor(h, t.Context(), "1000") == http.StatusServiceUnavailable {
					refused.Add(1)
				}
			})
		}
		synctest.Wait()
		assert.Equal(t, waiting, q.Waiting())
		assert.Equal(t, http.StatusServiceUnavailable, askFor(h, t.Context(), "1000"), "and no room for more")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.Zero(t, q.Waiting())
		close(hold)
		all.Wait()
		assert.EqualValues(t, 1, calls.Load())
		assert.EqualValues(t, waiting, refused.Load())
		assert.Equal(t, http.StatusOK, askFor(h, t.Context(), "1000"), "the turn was handed on")
	})
}

// A turn that comes in the instant of the deadline is handed on, whoever wins.
func TestATurnIsNeverLost(t *testing.T) {
	var won, lost int
	for range 300 {
		synctest.Test(t, func(t *testing.T) {
			q := curfewhttp.NewQueue(1, 10)
			h := curfewhttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(100 * ms)
			}), curfewhttp.Config{Max: time.Hour, Queue: q})
			var all sync.WaitGroup
			all.Go(func() { askFor(h, t.Context(), "10000") })
			synctest.Wait()
			codes := make([]int, 2)
			for i := range codes {
				all.Go(func() { codes[i] = askFor(h, t.Context(), []string{"100", "10000"}[i]) })
				synctest.Wait()
			}
			all.Wait()
			assert.NotEqual(t, http.StatusOK, codes[0])
			assert.Equal(t, http.StatusOK, codes[1])
			if codes[0] == http.StatusServiceUnavailable {
				lost++
			} else {
				won++
			}
		})
	}
	t.Logf("the turn came first %d times, the deadline %d times", won, lost)
}

func TestMistakesInAQueuePanic(t *testing.T) {
	assert.PanicsWithValue(t, "curfewhttp: NewQueue: width 0 is below 1", func() { curfewhttp.NewQueue(0, 1) })
	assert.PanicsWithValue(t, "curfewhttp: NewQueue: negative room -1", func() { curfewhttp.NewQueue(1, -1) })
}

// BenchmarkExpiredQueue is how long it takes from the instant at which the time of
// 10,000 waiting requests is over until all are answered. They come one by one, so that
// none is held up between what its header says and the queue: its time would be over
// later, and the queue be blamed for it.
func BenchmarkExpiredQueue(b *testing.B) {
	const waiting = 10_000
	var took, spread []float64
	for b.Loop() {
		hold, running := make(chan struct{}), make(chan struct{})
		q := curfewhttp.NewQueue(1, waiting)
		var latest atomic.Int64 // of the deadlines, after expiry
		expiry := time.Now().Add(2 * time.Second)
		h := curfewhttp.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			close(running)
			<-hold
		}), curfewhttp.Config{Max: time.Hour, Queue: q, Problem: func(_ *http.Request, p *curfewhttp.Problem) {
			over := int64(time.Since(expiry) - p.Elapsed + p.Given)
			for was := latest.Load(); was < over && !latest.CompareAndSwap(was, over); was = latest.Load() {
			}
		}})
		var all, first sync.WaitGroup
		first.Go(func() { askFor(h, b.Context(), "3600000") })
		<-running // so that none of the others has the turn
		for i := range waiting {
			all.Go(func() {
				r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/", nil)
				w := httptest.NewRecorder()
				r.Header.Set(curfewhttp.Header, strconv.FormatInt(time.Until(expiry).Milliseconds(), 10))
				if h.ServeHTTP(w, r); w.Code != http.StatusServiceUnavailable {
					b.Errorf("answered %d", w.Code)
				}
			})
			for q.Waiting() <= i && time.Until(expiry) > 0 {
				runtime.Gosched()
			}
		}
		if q.Waiting() < waiting {
			b.Fatal("the queue did not fill in time")
		}
		all.Wait()
		took = append(took, float64(time.Since(expiry))/float64(time.Millisecond))
		spread = append(spread, float64(latest.Load())/float64(time.Millisecond))
		close(hold)
		first.Wait()
	}
	slices.Sort(took)
	b.ReportMetric(took[len(took)/2], "drain-ms")
	b.ReportMetric(took[len(took)-1], "worst-drain-ms")
	b.ReportMetric(slices.Max(spread), "last-deadline-ms")
}
