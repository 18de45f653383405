package curfewhttptest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/curfew-go/curfew/adapters/http"
	"github.com/curfew-go/curfew/budget/wire"
)

// A Reply is what came back from a service under test.
type Reply struct {
	Status int
	Header http.Header
	Body   []byte
	Took   time.Duration // until the end of the body
	// Result is what the service says became of the budget; Honoured is whether
	// it says anything.
	Result   curfewhttp.Result
	Honoured bool
}

// Call sends r to h over a loopback connection, with given as its budget, and
// returns the whole reply. A given below a millisecond panics; a connection that
// breaks off fails the test. r is as httptest.NewRequest makes it.
func Call(t testing.TB, h http.Handler, given time.Duration, r *http.Request) Reply {
	t.Helper()
	value, ok := wire.FormatMillis(given)
	if !ok {
		panic("curfewhttptest: Call: given is below a millisecond")
	}
	server := httptest.NewServer(h)
	defer server.Close()
	to, err := url.Parse(server.URL)
	if err != nil {
		t.Fatalf("curfewhttptest: Call: %v", err)
	}
	r = r.Clone(r.Context())
	r.RequestURI = ""
	r.URL.Scheme, r.URL.Host = to.Scheme, to.Host
	r.Header.Set(curfewhttp.Header, value)
	began := time.Now()
	resp, err := server.Client().Transport.RoundTrip(r)
	if err != nil {
		t.Fatalf("curfewhttptest: Call: %v", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("curfewhttptest: Call: the body: %v", err)
	}
	reply := Reply{Status: resp.StatusCode, Header: resp.Header, Body: body, Took: time.Since(began)}
	reply.Result, reply.Honoured = curfewhttp.ResultOf(resp.Header)
	return reply
}
