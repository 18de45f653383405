package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	curfewhttp "github.com/curfew-go/curfew/adapters/http"
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
	for _, c := range []struct {
		name         string
		stock, price http.Handler
		left         string
		status       int
		body         string
	}{
		{"both answer", text(200, "7"), text(200, "5"), "500", 200, "7 in stock at 5\n"},
		{"a peer fails", text(200, "7"), text(500, "boom"), "500", 500, "no order page\n"},
		{"a peer runs out of time", text(504, "late"), text(200, "5"), "500", 504, "no order page\n"},
		{"a peer refuses", text(503, "not started"), text(200, "5"), "500", 504, "no order page\n"},
		{"a peer does not answer in time", http.HandlerFunc(slow), text(200, "5"), "150", 504, "no order page\n"},
		{"the price does not come within its limit", text(200, "7"), http.HandlerFunc(slow), "900", 504, "no order page\n"},
		{"nothing is left", text(200, "7"), text(200, "5"), "0", 503, "not started: expired_on_arrival\n"},
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
			if w.Code != c.status || w.Body.String() != c.body {
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
