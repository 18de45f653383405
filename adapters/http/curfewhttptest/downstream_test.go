package curfewhttptest_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/curfew-go/curfew/adapters/http"
	"github.com/curfew-go/curfew/adapters/http/curfewhttptest"
)

// A failing is a test that notes its failures.
type failing struct {
	testing.TB
	errors []string
}

func (f *failing) Errorf(format string, args ...any) {
	f.errors = append(f.errors, fmt.Sprintf(format, args...))
}

// service is what a user tests: a handler that asks its downstream.
func service(url string, client *http.Client) http.Handler {
	ask := func(w http.ResponseWriter, r *http.Request) {
		req, err := http.NewRequestWithContext(r.Context(), http.MethodGet, url+"/stock?key=secret", nil)
		if err != nil {
			panic(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer resp.Body.Close()
		_, _ = io.Copy(w, resp.Body)
	}
	return curfewhttp.Handler(http.HandlerFunc(ask), curfewhttp.Config{Max: 3 * time.Second})
}

func order() *http.Request { return httptest.NewRequest(http.MethodGet, "/order", nil) }

func TestAServiceThatPassesItsDeadlineOnPasses(t *testing.T) {
	down := curfewhttptest.NewDownstream(t, time.Second, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "in stock")
	}))
	reply := curfewhttptest.Call(t, service(down.URL, &http.Client{Transport: &curfewhttp.Transport{}}), time.Second, order())
	assert.Equal(t, http.StatusOK, reply.Status)
	assert.Equal(t, "in stock", string(reply.Body))
	arrivals := down.Arrivals()
	if assert.Len(t, arrivals, 1) {
		assert.Equal(t, "/stock", arrivals[0].Path)
		assert.Equal(t, curfewhttp.Header, arrivals[0].Header)
		assert.Less(t, arrivals[0].Left, time.Second)
		assert.Empty(t, arrivals[0].Fault)
	}
}

// roundTripper is a client side that does one thing wrong.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestEachFaultFailsTheTest(t *testing.T) {
	for name, test := range map[string]struct {
		values []string
		fault  string
	}{
		"none":                   {nil, "curfewhttptest: GET /stock: no budget"},
		"copied":                 {[]string{"1000"}, "an unshrunk budget: X-Request-Deadline-Ms gives all of the caller's 1s"},
		"longer":                 {[]string{"3000"}, "a longer budget: X-Request-Deadline-Ms gives 3s, the caller gave 1s"},
		"malformed":              {[]string{"1e3"}, "a malformed budget"},
		"in spite of a good one": {[]string{"900", "-1"}, "a malformed budget"},
	} {
		t.Run(name, func(t *testing.T) {
			spy := &failing{TB: t}
			down := curfewhttptest.NewDownstream(spy, time.Second, nil)
			client := &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
				r = r.Clone(r.Context())
				r.Header[curfewhttp.Header] = test.values
				return http.DefaultTransport.RoundTrip(r)
			})}
			reply := curfewhttptest.Call(t, service(down.URL, client), time.Second, order())
			assert.Equal(t, http.StatusOK, reply.Status, "the service is answered all the same")
			if assert.Len(t, spy.errors, 1) {
				assert.Contains(t, spy.errors[0], test.fault)
				assert.NotContains(t, spy.errors[0], "secret")
			}
			assert.NotEmpty(t, down.Arrivals()[0].Fault)
		})
	}
}

func TestOtherFormsCount(t *testing.T) {
	down := curfewhttptest.NewDownstream(t, time.Second, nil)
	for header, value := range map[string]string{"Grpc-Timeout": "800m", "X-Envoy-Expected-Rq-Timeout-Ms": "800"} {
		req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, down.URL, nil)
		assert.NoError(t, err)
		req.Header.Set(header, value)
		resp, err := down.Client().Do(req)
		if assert.NoError(t, err) {
			resp.Body.Close()
		}
	}
	for _, a := range down.Arrivals() {
		assert.Equal(t, 800*time.Millisecond, a.Left)
	}
}

func TestFreeRequestsMayComeWithoutABudgetButNotWithALongerOne(t *testing.T) {
	spy := &failing{TB: t}
	down := curfewhttptest.NewDownstream(spy, time.Second, nil)
	down.Free(func(r *http.Request) bool { return r.URL.Path == "/healthz" })
	for _, value := range []string{"", "2000"} {
		req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, down.URL+"/healthz", nil)
		assert.NoError(t, err)
		if value != "" {
			req.Header.Set(curfewhttp.Header, value)
		}
		resp, err := down.Client().Do(req)
		if assert.NoError(t, err) {
			resp.Body.Close()
		}
	}
	assert.Len(t, spy.errors, 1)
}

func TestMistakesPanicWithTheirName(t *testing.T) {
	assert.PanicsWithValue(t, "curfewhttptest: NewDownstream: nil t", func() { curfewhttptest.NewDownstream(nil, time.Second, nil) })
	assert.PanicsWithValue(t, "curfewhttptest: NewDownstream: given is 0s, want more than zero", func() { curfewhttptest.NewDownstream(t, 0, nil) })
	assert.PanicsWithValue(t, "curfewhttptest: Call: given is below a millisecond", func() { curfewhttptest.Call(t, http.NotFoundHandler(), 0, order()) })
}
