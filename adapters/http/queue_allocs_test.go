package curfewhttp_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	curfewhttp "github.com/curfew-go/curfew/adapters/http"
)

// dropped is a reply that costs nothing to receive but the header map.
type dropped struct {
	header http.Header
	status int
}

func (d *dropped) Header() http.Header         { return d.header }
func (d *dropped) WriteHeader(status int)      { d.status = status }
func (d *dropped) Write(p []byte) (int, error) { return len(p), nil }

// When a queue expires, what is left to do for each request is done for all of them in
// one instant, so what it allocates is looked at apart from what it takes to come and wait.
func TestAWaiterThatExpiresAllocatesLittle(t *testing.T) {
	const waiting = 1000
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		h := curfewhttp.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hold }),
			curfewhttp.Config{Max: time.Hour, Queue: curfewhttp.NewQueue(1, waiting)})
		var all sync.WaitGroup
		all.Go(func() { askFor(h, t.Context(), "3600000") })
		synctest.Wait()
		var replies [waiting]dropped
		var requests [waiting]*http.Request
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for i := range requests {
			requests[i] = httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
			requests[i].Header.Set(curfewhttp.Header, "1000")
			replies[i].header = make(http.Header, 8)
		}
		var before, waits, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for i := range requests {
			all.Go(func() { h.ServeHTTP(&replies[i], requests[i]) })
		}
		synctest.Wait()
		runtime.ReadMemStats(&waits)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		runtime.ReadMemStats(&after)
		for i := range replies {
			assert.Equal(t, http.StatusServiceUnavailable, replies[i].status)
		}
		come, expire := float64(waits.Mallocs-before.Mallocs)/waiting, float64(after.Mallocs-waits.Mallocs)/waiting
		t.Logf("%.1f allocations to come and wait, %.1f to expire and be answered", come, expire)
		assert.Less(t, expire, 17.0, "14 when this was written, of which 6 are for the cause's names")
		close(hold)
		all.Wait()
	})
}
