package curfewhttp_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewhttp "github.com/curfew-go/curfew/adapters/http"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/retrybudget"
)

// newConns counts the connections that requests in the context did not find.
func newConns(ctx context.Context, n *atomic.Int64) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
		if !i.Reused {
			n.Add(1)
		}
	}})
}

// The context of a request lives until its body was read, and a whole body keeps its
// connection, in each protocol, plain and zipped.
func TestABodyIsReadToItsEndAndKeepsItsConnection(t *testing.T) {
	text := noise(100 << 10)
	protocols(t, func(t *testing.T, start func(http.Handler) *server) {
		plainAndZipped(t, text, func(t *testing.T, write func(http.ResponseWriter)) {
			s := start(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { write(w) }))
			tr := retrying(s.Client().Transport)
			tr.Policy.PerAttempt = 30 * time.Second
			client := &http.Client{Transport: tr}
			var dialled atomic.Int64
			for range 20 {
				resp, err := curfewhttp.Do(newConns(t.Context(), &dialled), budget.Within(time.Minute), client, s.request(t, t.Context()))
				require.NoError(t, err)
				got, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				assert.True(t, bytes.Equal(text, got))
				assert.NoError(t, resp.Body.Close())
			}
			assert.EqualValues(t, 1, dialled.Load())
		})
	})
}

// What nobody reads is drained within a bound, so that retries and callers who only
// look at the status keep their connection.
func TestAnUnreadBodyIsDrainedWithinABound(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n, _ := curfewhttp.AttemptOf(r.Header); n < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		w.Write(make([]byte, 32<<10))
	})
	inMemory(t, h, func(t *testing.T, base *http.Transport) {
		tr := retrying(base)
		tr.Policy.Backoff = retrybudget.Backoff{Base: ms, Max: ms}
		var dialled atomic.Int64
		for range 5 {
			resp, err := tr.RoundTrip(ask(t, newConns(inMinute(t), &dialled), "GET", "http://peer/", ""))
			require.NoError(t, err)
			assert.Equal(t, 200, resp.StatusCode)
			assert.NoError(t, resp.Body.Close())
		}
		assert.EqualValues(t, 1, dialled.Load(), "of 15 attempts")
	})
}

func TestAStreamThatNobodyReadsIsClosedSoon(t *testing.T) {
	protocols(t, func(t *testing.T, start func(http.Handler) *server) {
		gone := make(chan struct{})
		s := start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer close(gone)
			for r.Context().Err() == nil {
				fmt.Fprintln(w, "event")
				http.NewResponseController(w).Flush()
				<-time.After(ms)
			}
		}))
		resp, err := (&curfewhttp.Transport{Base: s.Client().Transport}).RoundTrip(s.request(t, inMinute(t)))
		require.NoError(t, err)
		begin := time.Now()
		resp.Body.Close()
		assert.Less(t, time.Since(begin), 10*time.Second)
		within(t, gone, "the stream goes on")
	})
}

// A server that ends a stream from outside of its handler can only reset it.
func TestAResetAfterTheWholeBodyIsAnEnd(t *testing.T) {
	for sent, want := range map[int]string{10: "all of it.", 4: ""} {
		s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "10")
			w.WriteHeader(http.StatusGatewayTimeout)
			io.WriteString(w, "all of it."[:sent])
			http.NewResponseController(w).Flush()
			http.NewResponseController(w).SetWriteDeadline(time.Now().Add(-time.Second))
			<-r.Context().Done() // deaf
		}), true)
		resp, err := (&curfewhttp.Transport{Base: s.Client().Transport}).RoundTrip(s.request(t, inMinute(t)))
		require.NoError(t, err)
		text, err := io.ReadAll(resp.Body)
		if want == "" {
			assert.Error(t, err, "a part is not the whole")
		} else {
			assert.NoError(t, err)
			assert.Equal(t, want, string(text))
		}
		resp.Body.Close()
	}
}

// A tunnel outlives the deadline of the request that opened it, and its limit is
// released.
func TestATunnelOutlivesTheDeadline(t *testing.T) {
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if !assert.NoError(t, err) {
			return
		}
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		line, _ := rw.ReadString('\n')
		io.WriteString(conn, line)
	}), false)
	r := s.request(t, t.Context())
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "echo")
	limit := budget.Within(200 * ms)
	resp, err := curfewhttp.Do(t.Context(), limit, &http.Client{Transport: retrying(s.Client().Transport)}, r)
	require.NoError(t, err)
	defer resp.Body.Close()
	assert.ErrorIs(t, resp.Request.Context().Err(), context.Canceled, "released at once")
	<-time.After(300 * ms)
	conn := resp.Body.(io.ReadWriteCloser)
	_, err = io.WriteString(conn, "hello\n")
	require.NoError(t, err)
	echo := make([]byte, 6)
	_, err = io.ReadFull(conn, echo)
	require.NoError(t, err)
	assert.Equal(t, "hello\n", string(echo))
}
