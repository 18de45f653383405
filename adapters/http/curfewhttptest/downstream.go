// Package curfewhttptest tests that a service passes its deadline on. It stands
// in for the service's downstream and fails the test for each request that
// arrives without a budget, with more time than the caller gave, or with as much
// as the caller gave, which means that it was copied and not measured.
//
//	down := curfewhttptest.NewDownstream(t, time.Second, nil)
//	service := newService(down.URL) // whatever is to be tested
//	curfewhttptest.Call(t, service, time.Second, httptest.NewRequest("GET", "/order", nil))
//	require.Len(t, down.Arrivals(), 2)
package curfewhttptest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/curfew-go/curfew/adapters/http"
	"github.com/curfew-go/curfew/budget/wire"
)

// envoyHeader is the header in which Envoy says how many milliseconds it waits.
// Source: https://www.envoyproxy.io/docs/envoy/latest/configuration/http/http_filters/router_filter
const envoyHeader = "X-Envoy-Expected-Rq-Timeout-Ms"

// forms are the forms of a budget that a Downstream reads: those that a Handler
// reads unless it is told otherwise.
func forms() []wire.Form {
	return []wire.Form{wire.GRPC(), wire.Millis(curfewhttp.Header), wire.Millis(envoyHeader)}
}

// A Downstream is a server on a loopback port that records what budget each
// request brings. Many goroutines may use it.
type Downstream struct {
	*httptest.Server

	t     testing.TB
	given time.Duration
	next  http.Handler

	mu       sync.Mutex
	free     func(*http.Request) bool
	arrivals []Arrival
}

// An Arrival is one request as a Downstream saw it.
type Arrival struct {
	Method, Path string
	// Limited is whether the request brought a budget, Header which header had
	// it, and Left how much time it gave.
	Limited bool
	Header  string
	Left    time.Duration
	// Fault says what was wrong with the budget; empty when nothing was.
	Fault string
}

// NewDownstream starts a server that answers as h does, with 200 when h is nil,
// and is closed when the test ends. given is how much time the test gives the
// service that calls it: each request must bring a budget below that. A service whose
// Handler is an Edge does not believe what Call says, so given is its Max then. A given of
// zero or less and a nil t panic.
func NewDownstream(t testing.TB, given time.Duration, h http.Handler) *Downstream {
	if t == nil {
		panic("curfewhttptest: NewDownstream: nil t")
	}
	if given <= 0 {
		panic(fmt.Sprintf("curfewhttptest: NewDownstream: given is %v, want more than zero", given))
	}
	if h == nil {
		h = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	}
	d := &Downstream{t: t, given: given, next: h}
	d.Server = httptest.NewServer(http.HandlerFunc(d.serve))
	t.Cleanup(d.Server.Close)
	return d
}

// Free lets the requests for which f is true come without a budget, such as
// health checks. The last f counts, and nil is none.
func (d *Downstream) Free(f func(*http.Request) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.free = f
}

// Arrivals returns the requests so far, in the order in which they arrived.
func (d *Downstream) Arrivals() []Arrival {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.arrivals)
}

func (d *Downstream) serve(w http.ResponseWriter, r *http.Request) {
	a := arrival(r, d.given)
	d.mu.Lock()
	if !a.Limited && d.free != nil && d.free(r) {
		a.Fault = ""
	}
	d.arrivals = append(d.arrivals, a)
	d.mu.Unlock()
	if a.Fault != "" {
		d.t.Errorf("curfewhttptest: %s %s: %s", a.Method, a.Path, a.Fault)
	}
	d.next.ServeHTTP(w, r)
}

// arrival judges the budget of r, for a caller who was given so much.
func arrival(r *http.Request, given time.Duration) Arrival {
	peer, err := wire.Read(r.Header.Values, time.Now(), forms()...)
	a := Arrival{Method: r.Method, Path: r.URL.Path, Limited: peer.Limited, Header: peer.Header, Left: peer.Left}
	switch {
	case err != nil:
		a.Fault = "a malformed budget: " + err.Error()
	case !peer.Limited:
		a.Fault = "no budget"
	case peer.Left > given:
		a.Fault = fmt.Sprintf("a longer budget: %s gives %v, the caller gave %v", peer.Header, peer.Left, given)
	case peer.Left == given:
		a.Fault = fmt.Sprintf("an unshrunk budget: %s gives all of the caller's %v", peer.Header, given)
	}
	return a
}
