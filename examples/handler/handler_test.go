package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	curfewhttp "github.com/curfew-go/curfew/adapters/http"
	"github.com/curfew-go/curfew/budget"
)

// TestHandlerAgainstPeers runs the README's handler against peers that answer,
// refuse, fail and dawdle.
func TestHandlerAgainstPeers(t *testing.T) {
	text := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			io.WriteString(w, body)
		}
	}
	release := make(chan struct{})
	slow := func(http.ResponseWriter, *http.Request) { <-release } // deaf to its own deadline
	timeout := func(w http.ResponseWriter, r *http.Request) {      // of something that it asked in turn
		curfewhttp.Error(w, r, &budget.Cause{Kind: budget.DependencyTimeout})
	}
	for _, c := range []struct {
		name         string
		stock, price http.Handler
		left         string
		status       int
		body         string
	}{
		{"both answer", text(200, "7"), text(200, "5"), "500", 200, "7 in stock at 5\n"},
		{"a peer fails", text(200, "7"), text(500, "boom"), "500", 500, `"kind":"failed"`},
		{"a peer runs out of time", http.HandlerFunc(timeout), text(200, "5"), "500", 504, `"kind":"dependency_timeout"`},
		{"a peer refuses", text(503, "not started"), text(200, "5"), "500", 500, `"kind":"failed"`},
		{"a peer does not answer in time", http.HandlerFunc(slow), text(200, "5"), "150", 504, `"kind":"deadline_exceeded"`},
		{"the price does not come within its limit", text(200, "7"), http.HandlerFunc(slow), "900", 504, `"kind":"deadline_exceeded"`},
		{"nothing is left", text(200, "7"), text(200, "5"), "0", 503, `"kind":"expired_on_arrival","not_started":true`},
	} {
		t.Run(c.name, func(t *testing.T) {
			release = make(chan struct{})
			hosts := map[string]string{}
			for host, h := range map[string]http.Handler{"inventory.internal": c.stock, "pricing.internal": c.price} {
				peer := httptest.NewServer(curfewhttp.Handler(h, curfewhttp.Config{Max: time.Minute}))
				defer peer.Close()
				u, err := url.Parse(peer.URL)
				if err != nil {
					t.Fatal(err)
				}
				hosts[host] = u.Host
			}
			defer close(release) // before the peers close
			was := client
			defer func() { client = was }()
			client = &http.Client{Transport: &curfewhttp.Transport{Base: redirect(hosts)}}

			w := httptest.NewRecorder()
			r := httptest.NewRequest("GET", "/order", nil)
			r.Header.Set(curfewhttp.Header, c.left)
			curfewhttp.Handler(http.HandlerFunc(order), curfewhttp.Config{Max: time.Second}).ServeHTTP(w, r)
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.body) {
				t.Errorf("%d %q, want %d %q", w.Code, w.Body, c.status, c.body)
			}
		})
	}
}

// A redirect sends requests for a host to another address.
type redirect map[string]string

func (hosts redirect) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Host = hosts[r.URL.Host]
	return http.DefaultTransport.RoundTrip(r)
}
