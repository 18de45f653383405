package curfewhttp_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewhttp "github.com/curfew-go/curfew/adapters/http"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/retrybudget"
)

func TestCase24_TheServerReadsTheHeaderThatTheClientSends(t *testing.T) {
	protocols(t, func(t *testing.T, start func(http.Handler) *server) {
		got := make(chan seen, 1)
		s := start(curfewhttp.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- look(r.Context()) }),
			curfewhttp.Config{Max: time.Hour}))
		tr := &curfewhttp.Transport{Base: s.Client().Transport, Slush: noSlush}
		resp, err := tr.RoundTrip(s.request(t, inMinute(t)))
		require.NoError(t, err)
		resp.Body.Close()
		h := within(t, got, "the handler")
		assert.Regexp(t, `^peer header X-Request-Deadline-Ms (59\.\d+|1m0)s`, h.limit)
		assert.InDelta(t, time.Minute, h.left, float64(10*time.Second))
	})
}

// hangsUp serves one connection after another: each answers so many requests and then
// hangs up when the next one has arrived in full.
func hangsUp(t *testing.T, answers int, arrived *atomic.Int64) string {
	return listen(t, func(c net.Conn) {
		defer c.Close()
		requests := bufio.NewReader(c)
		for n := 0; ; n++ {
			r, err := http.ReadRequest(requests)
			if err != nil {
				return
			}
			io.Copy(io.Discard, r.Body)
			arrived.Add(1)
			if n == answers {
				return
			}
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		}
	})
}

// What case 65 is for statements: a connection that is cut after the request was sent
// says nothing about what was done. net/http repeats by itself what is safe by its
// method, on a connection that it had kept.
func TestCase65_ARequestThatMayHaveArrivedIsSentOnce(t *testing.T) {
	for _, tt := range []struct {
		name, method, key string
		answers           int
		arrivals          int64 // of the request that is cut
		fails             bool
	}{
		{"a POST on a new connection", "POST", "", 0, 1, true},
		{"a POST on a connection that was kept", "POST", "", 1, 1, true},
		{"a PUT is repeated by its method", "PUT", "", 1, 2, false},
		{"a POST with a key", "POST", "8e03978e", 1, 2, false},
		{"a GET, by net/http itself", "GET", "", 1, 2, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var arrived atomic.Int64
			addr := hangsUp(t, tt.answers, &arrived)
			base := &http.Transport{}
			defer base.CloseIdleConnections()
			tr := retrying(base)
			tr.Policy.Backoff = retrybudget.Backoff{Base: ms, Max: ms}
			ctx := inMinute(t)
			for range tt.answers {
				resp, err := tr.RoundTrip(ask(t, ctx, "GET", "http://"+addr, ""))
				require.NoError(t, err)
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
			arrived.Store(0)
			body := "order"
			if tt.method == "GET" {
				body = ""
			}
			r := ask(t, ctx, tt.method, "http://"+addr, body)
			if tt.key != "" {
				r.Header.Set("Idempotency-Key", tt.key)
			}
			resp, err := tr.RoundTrip(r)
			if err == nil {
				resp.Body.Close()
			}
			assert.Equal(t, tt.fails, err != nil, "%v", err)
			assert.Equal(t, tt.arrivals, arrived.Load())
			assert.False(t, retrybudget.SafeToRetry(err))
		})
	}
}

// A base that does not say what it does with connections may have sent anything.
func TestABaseThatDoesNotSayIsNotTakenToHaveSentNothing(t *testing.T) {
	boom := errors.New("boom")
	base := &script{answer: func(int, *http.Request) (*http.Response, error) { return nil, boom }}
	_, err := retrying(base).RoundTrip(ask(t, inMinute(t), "POST", "http://peer/", "order"))
	assert.ErrorIs(t, err, boom)
	assert.False(t, retrybudget.SafeToRetry(err))
	assert.Equal(t, 1, base.attempts())
}

// A Do in a layer above counts as well: what it repeats says so.
func TestAnAttemptOfALayerAboveIsSaid(t *testing.T) {
	base := always(503)
	tr := &curfewhttp.Transport{Base: base}
	err := retrybudget.Do(inMinute(t), retrybudget.Unlimited(), retrybudget.Policy{
		Idempotent: true, Judge: curfewhttp.Judge, Backoff: retrybudget.Backoff{Base: 1, Max: 1},
	}, func(ctx context.Context) error {
		resp, err := tr.RoundTrip(ask(t, ctx, "GET", "http://peer/", ""))
		if err != nil {
			return err
		}
		return curfewhttp.CheckResponse(resp)
	})
	assert.Equal(t, budget.Overloaded, budget.KindOf(err))
	assert.Equal(t, []string{"", "2", "3"}, base.headers(curfewhttp.AttemptHeader))
}

// Of two layers of Transports only the inner one retries, also over the wire.
func TestOfTwoHopsOnlyTheOneNextToTheFaultRetries(t *testing.T) {
	protocols(t, func(t *testing.T, start func(http.Handler) *server) {
		var leafs, middles atomic.Int64
		leaf := start(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			leafs.Add(1)
			w.WriteHeader(http.StatusServiceUnavailable)
		}))
		transport := func(s *server) *curfewhttp.Transport {
			tr := retrying(s.Client().Transport)
			tr.Policy.Backoff = retrybudget.Backoff{Base: ms, Max: ms}
			return tr
		}
		middle := start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			middles.Add(1)
			resp, err := transport(leaf).RoundTrip(leaf.request(t, inMinute(t)))
			if !assert.NoError(t, err) {
				return
			}
			defer resp.Body.Close()
			w.Header()[curfewhttp.ResultHeader] = resp.Header[curfewhttp.ResultHeader]
			w.WriteHeader(resp.StatusCode)
		}))
		resp, err := transport(middle).RoundTrip(middle.request(t, inMinute(t)))
		require.NoError(t, err)
		resp.Body.Close()
		assert.EqualValues(t, 3, leafs.Load())
		assert.EqualValues(t, 1, middles.Load())
	})
}

func TestARequestThatTheBaseRefusesIsTheBasesError(t *testing.T) {
	for _, tr := range []*curfewhttp.Transport{{}, retrying(nil), {Hosts: func(string) bool { return true }}} {
		r := (&http.Request{Method: "POST", Header: http.Header{}}).WithContext(inMinute(t))
		_, err := tr.RoundTrip(r)
		assert.ErrorContains(t, err, "nil Request.URL")
	}
	tr := retrying(always(200))
	tr.Policy.PerAttempt = -1
	assert.PanicsWithValue(t, "curfewhttp: Transport: negative Policy.PerAttempt -1ns", func() {
		tr.RoundTrip(ask(t, inMinute(t), "GET", "http://peer/", ""))
	})
}
