package curfewhttp_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	curfewhttp "github.com/curfew-go/curfew/adapters/http"
	"github.com/curfew-go/curfew/budget"
)

// BenchmarkOverload offers a server twice what it can do, in an open loop, and reports
// which share of what it can do arrives in time: with net/http and a timeout in the
// client, and with a deadline that travels. The server handles 8 requests at once, 10 ms
// each; a client waits for 200 ms.
func BenchmarkOverload(b *testing.B) {
	const (
		width    = 8
		takes    = 10 * time.Millisecond
		patient  = 200 * time.Millisecond
		capacity = float64(width) / 0.010
		lasts    = 3 * time.Second
		every    = takes / (2 * width)
	)
	work := func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(takes)
		_, _ = io.WriteString(w, "done")
	}
	turns := make(chan struct{}, width)
	bare := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		turns <- struct{}{}
		defer func() { <-turns }()
		work(w, r)
	})
	curfewed := curfewhttp.Handler(http.HandlerFunc(work), curfewhttp.Config{
		Max: patient, Useful: 2 * takes, Queue: curfewhttp.NewQueue(width, 100_000),
	})
	pool := &http.Transport{MaxIdleConnsPerHost: 1000}
	plain := &http.Client{Transport: pool, Timeout: patient}
	deadline := &http.Client{Transport: &curfewhttp.Transport{Base: pool}}
	for _, bench := range []struct {
		name string
		h    http.Handler
		get  func(url string) (*http.Response, error)
	}{
		{"net/http", bare, plain.Get},
		{"curfew", curfewed, func(url string) (*http.Response, error) {
			r, err := http.NewRequest(http.MethodGet, url, nil)
			if err != nil {
				return nil, err
			}
			return curfewhttp.Do(context.Background(), budget.Within(patient), deadline, r)
		}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			server := httptest.NewServer(bench.h)
			defer server.Close()
			var good atomic.Int64
			for b.Loop() {
				good.Store(0)
				var all sync.WaitGroup
				began := time.Now()
				for n := 0; time.Since(began) < lasts; n++ {
					time.Sleep(time.Until(began.Add(time.Duration(n) * every)))
					all.Go(func() {
						resp, err := bench.get(server.URL)
						if err != nil {
							return
						}
						if text, err := io.ReadAll(resp.Body); err == nil && string(text) == "done" {
							good.Add(1)
						}
						resp.Body.Close()
					})
				}
				all.Wait()
			}
			b.ReportMetric(float64(good.Load())/lasts.Seconds()/capacity, "goodput/capacity")
		})
	}
}
