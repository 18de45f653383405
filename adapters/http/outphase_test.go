package curfewhttp_test

import (
	"context"
	"crypto/tls"
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

// listen returns the address of a listener that gives its connections to serve, and
// closes both in the end.
func listen(t *testing.T, serve func(net.Conn)) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
			go serve(c)
		}
	}()
	return l.Addr().String()
}

// silentPeer takes connections and says nothing.
func silentPeer(net.Conn) {}

// blackHole dials until its context ends, and counts dials that have not ended.
type blackHole struct{ open, began atomic.Int64 }

func (h *blackHole) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	h.open.Add(1)
	h.began.Add(1)
	defer h.open.Add(-1)
	<-ctx.Done()
	return nil, ctx.Err()
}

// Wherever a request hangs, it ends at its deadline, and the error says where it was.
func TestEachPhaseInWhichARequestHangsHasItsName(t *testing.T) {
	const limit = 150 * ms
	base := func(d curfewhttp.Dialer) *http.Transport {
		tr := &http.Transport{DialContext: d.DialContext, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
		t.Cleanup(tr.CloseIdleConnections)
		return tr
	}
	silent := net.Dialer{Resolver: &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}}
	var hole blackHole
	none := listen(t, silentPeer)
	begins := listen(t, func(c net.Conn) {
		c.Read(make([]byte, 4096))
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nthe be")
	})
	full := base(curfewhttp.Dialer{})
	full.MaxConnsPerHost = 1
	for _, tt := range []struct {
		phase string
		base  *http.Transport
		url   string
		body  io.Reader
	}{
		{"resolve", base(curfewhttp.Dialer{Dial: silent.DialContext}), "http://peer.invalid/", nil},
		{"connect", base(curfewhttp.Dialer{Dial: hole.dial}), "http://192.0.2.1/", nil},
		{"tls", base(curfewhttp.Dialer{}), "https://" + none + "/", nil},
		{"pool_wait", full, "http://" + none + "/", nil},
		{"write", base(curfewhttp.Dialer{}), "http://" + none + "/", endless{}},
		{"first_byte", base(curfewhttp.Dialer{}), "http://" + none + "/", nil},
		{"body", base(curfewhttp.Dialer{}), "http://" + begins + "/", nil},
	} {
		t.Run(tt.phase, func(t *testing.T) {
			client := &http.Client{Transport: &curfewhttp.Transport{Base: tt.base}}
			if tt.phase == "pool_wait" {
				ctx, free := context.WithCancel(t.Context())
				defer free()
				held := make(chan struct{})
				trace := *client
				r := ask(t, ctx, "GET", tt.url, "")
				go func() { defer close(held); trace.Do(r) }()
				defer func() { free(); <-held }()
				<-time.After(20 * ms) // the dial is local
			}
			begin := time.Now()
			ctx := enter(t, context.Background(), budget.Within(limit).Named("checkout"))
			r, err := http.NewRequestWithContext(ctx, "POST", tt.url+"?token=secret", tt.body)
			require.NoError(t, err)
			resp, err := client.Do(r)
			if tt.phase == "body" {
				require.NoError(t, err)
				_, err = io.ReadAll(resp.Body)
				resp.Body.Close()
			}
			assert.GreaterOrEqual(t, time.Since(begin), limit)
			assert.Less(t, time.Since(begin), 5*time.Second)
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			var cause *budget.Cause
			require.ErrorAs(t, err, &cause)
			assert.Equal(t, tt.phase, cause.Phase)
			assert.Equal(t, "checkout 150ms", cause.Limit)
			assert.NotContains(t, cause.Error(), "secret")
			var ne net.Error
			require.ErrorAs(t, err, &ne)
			assert.True(t, ne.Timeout())
			if tt.phase == "connect" {
				assert.Eventually(t, func() bool { return hole.open.Load() == 0 }, patience, ms, "the dial runs on")
				assert.EqualValues(t, 1, hole.began.Load())
			}
		})
	}
}

// endless is a request's body without an end, which the peer does not read.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// A dial has a bound of its own, a share of what is left or fixed; nothing was sent,
// so that any request may be sent again, and the body is still there.
func TestAConnectionHasABoundOfItsOwn(t *testing.T) {
	for name, d := range map[string]curfewhttp.Dialer{
		"cap":   {Cap: 50 * ms},
		"share": {Share: 0.001, Cap: time.Minute}, // 60 ms
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.Copy(w, r.Body)
				n, _ := curfewhttp.AttemptOf(r.Header)
				assert.Equal(t, 2, n)
			}), false)
			var hole blackHole
			d.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				if hole.began.Load() == 0 {
					return hole.dial(ctx, network, addr)
				}
				return (&net.Dialer{}).DialContext(ctx, network, addr)
			}
			base := &http.Transport{DialContext: d.DialContext}
			defer base.CloseIdleConnections()
			ctx := inMinute(t)
			_, err := (&curfewhttp.Transport{Base: base}).RoundTrip(ask(t, ctx, "POST", s.URL, "order"))
			assert.Equal(t, budget.DependencyTimeout, budget.KindOf(err))
			assert.NotErrorIs(t, err, context.DeadlineExceeded, "not the request's")
			assert.ErrorContains(t, err, "phase connect, limit connect ")
			assert.True(t, retrybudget.SafeToRetry(err))
			assert.EqualValues(t, 0, hole.open.Load())

			hole.began.Store(0)
			r := ask(t, ctx, "POST", s.URL, "")
			b := newBody()
			r.Body = b // which can be had only once
			resp, err := retrying(base).RoundTrip(r)
			require.NoError(t, err)
			text, err := io.ReadAll(resp.Body)
			assert.NoError(t, err)
			resp.Body.Close()
			assert.Equal(t, "order", string(text))
			assert.Equal(t, 1, b.closed)
		})
	}
}

// A handshake ends with the request, or at the bound, and the bound is gone when it
// is done.
func TestAHandshakeEndsWithTheRequest(t *testing.T) {
	closed := make(chan error, 1)
	addr := listen(t, func(c net.Conn) {
		_, err := io.Copy(io.Discard, c)
		closed <- err
	})
	base := &http.Transport{DialContext: (&curfewhttp.Dialer{}).DialContext, TLSHandshakeTimeout: time.Hour}
	ctx, cancel := context.WithCancel(inMinute(t))
	time.AfterFunc(50*ms, cancel)
	_, err := (&curfewhttp.Transport{Base: base}).RoundTrip(ask(t, ctx, "GET", "https://"+addr, ""))
	assert.ErrorIs(t, err, context.Canceled)
	within(t, closed, "the handshake goes on")

	base.DialContext = (&curfewhttp.Dialer{Cap: 50 * ms}).DialContext
	_, err = (&curfewhttp.Transport{Base: base}).RoundTrip(ask(t, inMinute(t), "GET", "https://"+addr, ""))
	assert.Equal(t, budget.DependencyTimeout, budget.KindOf(err))
	assert.True(t, retrybudget.SafeToRetry(err))

	slow := make(chan struct{})
	s := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-slow }), true)
	ours := s.Client().Transport.(*http.Transport).Clone()
	ours.DialContext = (&curfewhttp.Dialer{Cap: time.Second}).DialContext
	defer ours.CloseIdleConnections()
	time.AfterFunc(1200*ms, func() { close(slow) })
	resp, err := (&curfewhttp.Transport{Base: ours}).RoundTrip(s.request(t, inMinute(t)))
	require.NoError(t, err, "the bound of the connection is not one of the answer")
	resp.Body.Close()
}

func TestMistakesInADialerPanic(t *testing.T) {
	assert.PanicsWithValue(t, "curfewhttp: DialContext: negative Cap -1ns", func() {
		(&curfewhttp.Dialer{Cap: -1}).DialContext(t.Context(), "tcp", "x")
	})
	assert.PanicsWithValue(t, "curfewhttp: DialContext: Share 2 is not in [0, 1]", func() {
		(&curfewhttp.Dialer{Share: 2}).DialContext(t.Context(), "tcp", "x")
	})
}

// What could not be sent because nobody listens is sent again, whatever it is; the
// std error is still to be found.
func TestARefusedConnectionIsTriedAgain(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l.Close()
	tr := retrying(&http.Transport{})
	tr.Policy.Backoff = retrybudget.Backoff{Base: ms, Max: ms}
	_, err = tr.RoundTrip(ask(t, inMinute(t), "POST", "http://"+l.Addr().String(), "order"))
	var retried *retrybudget.RetriedError
	require.ErrorAs(t, err, &retried)
	assert.Equal(t, 3, retried.Attempts)
	var op *net.OpError
	assert.True(t, errors.As(err, &op) && op.Op == "dial")
}
