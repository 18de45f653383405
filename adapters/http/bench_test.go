package curfewhttp_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"testing"
	"time"

	curfewhttp "github.com/curfew-go/curfew/adapters/http"
)

// nobody is a ResponseWriter that costs nothing.
type nobody struct{ header http.Header }

func (w *nobody) Header() http.Header         { return w.header }
func (w *nobody) Write(p []byte) (int, error) { return len(p), nil }
func (w *nobody) WriteHeader(int)             {}

func small(asks bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asks {
			_ = r.Context().Done()
		}
		w.Header()["Content-Type"] = []string{"text/plain"}
		_, _ = io.WriteString(w, "ok")
	})
}

// rivals are ways to give a handler a deadline.
var rivals = []struct {
	name string
	wrap func(h http.Handler) http.Handler
}{
	{"bare", func(h http.Handler) http.Handler { return h }},
	{"WithTimeout", func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
			defer cancel()
			h.ServeHTTP(w, r.WithContext(ctx))
		})
	}},
	{"TimeoutHandler", func(h http.Handler) http.Handler { return http.TimeoutHandler(h, 2*time.Second, "") }},
	{"curfew", func(h http.Handler) http.Handler { return curfewhttp.Handler(h, curfewhttp.Config{}) }},
}

// BenchmarkHandler is what a request costs in the process, without a network. All take
// turns within a run; the medians of the rounds are reported, less that of bare.
func BenchmarkHandler(b *testing.B) {
	for _, asks := range []bool{false, true} {
		name := "no Done"
		if asks {
			name = "Done"
		}
		b.Run(name, func(b *testing.B) {
			const rounds, requests = 41, 2000
			heap := make([]byte, 32<<20) // else the collector runs as no service's does
			defer runtime.KeepAlive(heap)
			ctx, cancel := context.WithCancel(context.WithValue(context.Background(), http.ServerContextKey, new(http.Server)))
			defer cancel()
			times := make([][]float64, len(rivals))
			allocs := make([]float64, len(rivals))
			for b.Loop() {
				for round := range rounds {
					for i := range rivals {
						i = (i + round) % len(rivals)
						h := rivals[i].wrap(small(asks))
						one := func() {
							ctx, cancel := context.WithCancel(ctx) // as net/http makes one for each
							h.ServeHTTP(&nobody{make(http.Header)}, httpRequest.WithContext(ctx))
							cancel()
						}
						began := time.Now()
						for range requests {
							one()
						}
						times[i] = append(times[i], float64(time.Since(began))/requests)
						if round == 0 {
							allocs[i] = testing.AllocsPerRun(200, one)
						}
					}
				}
			}
			for i, r := range rivals {
				slices.Sort(times[i])
				if i == 0 {
					b.ReportMetric(times[0][len(times[0])/2], "bare-ns")
					continue
				}
				b.ReportMetric(times[i][len(times[i])/2]-times[0][len(times[0])/2], r.name+"-ns")
				b.ReportMetric(allocs[i]-allocs[0], r.name+"-allocs")
			}
		})
	}
}

var httpRequest = httptest.NewRequest(http.MethodGet, "/", nil)

// BenchmarkThroughput is how many requests a second go over one loopback connection,
// as a share of those of WithTimeout.
func BenchmarkThroughput(b *testing.B) {
	const rounds, requests = 21, 500
	servers := make([]*httptest.Server, len(rivals))
	for i, r := range rivals {
		servers[i] = httptest.NewServer(r.wrap(small(false)))
		defer servers[i].Close()
	}
	times := make([][]float64, len(rivals))
	for b.Loop() {
		for round := range rounds {
			for i := range rivals {
				i = (i + round) % len(rivals)
				began := time.Now()
				for range requests {
					resp, err := servers[i].Client().Get(servers[i].URL)
					if err != nil {
						b.Fatal(err)
					}
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
				times[i] = append(times[i], float64(time.Since(began)))
			}
		}
	}
	for i := range times {
		slices.Sort(times[i])
	}
	median := func(i int) float64 { return times[i][len(times[i])/2] }
	for i, r := range rivals {
		b.ReportMetric(median(1)/median(i), r.name+"/WithTimeout")
	}
}
