package curfewhttp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	curfewhttp "github.com/curfew-go/curfew/adapters/http"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/retrybudget"
)

// BenchmarkRoundTrip compares a round trip over loopback with that of the bare
// http.Transport under the same deadline. Both go in turn within one run, and the
// figures are medians, so that a busy machine spoils them alike.
func BenchmarkRoundTrip(b *testing.B) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") }))
	defer s.Close()
	base := s.Client().Transport
	budgets := retrybudget.NewSet(retrybudget.Config{}, 10).For
	for name, tr := range map[string]http.RoundTripper{
		"told":     &curfewhttp.Transport{Base: base},
		"retrying": &curfewhttp.Transport{Base: base, Budget: budgets},
		"hedging":  &curfewhttp.Transport{Base: base, Budget: budgets, Hedge: func() time.Duration { return time.Hour }},
	} {
		b.Run(name, func(b *testing.B) {
			var bare, ours []time.Duration
			trip := func(rt http.RoundTripper) time.Duration {
				ctx, cancel, err := budget.Enter(context.Background(), budget.Within(time.Minute))
				require.NoError(b, err)
				defer cancel()
				r, err := http.NewRequestWithContext(ctx, "GET", s.URL, nil)
				require.NoError(b, err)
				begin := time.Now()
				resp, err := rt.RoundTrip(r)
				require.NoError(b, err)
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				return time.Since(begin)
			}
			for b.Loop() {
				bare = append(bare, trip(base))
				ours = append(ours, trip(tr))
			}
			slices.Sort(bare)
			slices.Sort(ours)
			mid := len(bare) / 2
			b.ReportMetric(float64(bare[mid].Nanoseconds()), "bare-ns")
			b.ReportMetric(float64(ours[mid].Nanoseconds()), "ours-ns")
			b.ReportMetric(float64(ours[mid])/float64(bare[mid]), "ours/bare")
		})
	}
}

// BenchmarkAttempt is what a Transport adds by itself: its base answers at once.
func BenchmarkAttempt(b *testing.B) {
	base := instant{}
	budgets := retrybudget.NewSet(retrybudget.Config{}, 10).For
	ctx, cancel, err := budget.Enter(context.Background(), budget.Within(time.Hour))
	require.NoError(b, err)
	defer cancel()
	for _, tt := range []struct {
		name string
		rt   http.RoundTripper
	}{
		{"bare", base},
		{"told", &curfewhttp.Transport{Base: base}},
		{"retrying", &curfewhttp.Transport{Base: base, Budget: budgets}},
		{"hedging", &curfewhttp.Transport{Base: base, Budget: budgets, Hedge: func() time.Duration { return time.Hour }}},
	} {
		b.Run(tt.name, func(b *testing.B) {
			r, err := http.NewRequestWithContext(ctx, "GET", "http://peer.test/", nil)
			require.NoError(b, err)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := tt.rt.RoundTrip(r); err != nil {
					b.Fatal(fmt.Errorf("%s: %w", tt.name, err))
				}
			}
		})
	}
}

type instant struct{}

func (instant) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Body: http.NoBody, Request: r}, nil
}
