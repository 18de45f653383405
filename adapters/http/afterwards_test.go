package curfewhttp_test

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewhttp "github.com/curfew-go/curfew/adapters/http"
)

// A handler that flushes after its deadline does not begin a reply with that.
func TestALateFlushIsRefused(t *testing.T) {
	protocols(t, func(t *testing.T, start func(http.Handler) *server) {
		said := make(chan error, 1)
		s := start(curfewhttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			said <- http.NewResponseController(w).Flush()
		}), curfewhttp.Config{Max: 20 * ms, Grace: time.Minute}))
		resp, body := s.get(t)
		assert.ErrorIs(t, <-said, http.ErrHandlerTimeout)
		assert.Equal(t, http.StatusGatewayTimeout, resp.StatusCode)
		assert.Contains(t, body, `"kind":"deadline_exceeded"`)
	})
}

// The deadline frees who waits for a body, but not on a connection that is h's own.
func TestAConnectionTakenOverWithItsBodyUnreadKeepsItsReadDeadline(t *testing.T) {
	said := make(chan error, 1)
	s := serve(t, curfewhttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if !assert.NoError(t, err) {
			return
		}
		defer conn.Close()
		<-r.Context().Done()
		_, err = io.WriteString(conn, "now\n")
		assert.NoError(t, err)
		_, err = io.ReadFull(rw, make([]byte, 5))
		said <- err
	}), curfewhttp.Config{Max: 20 * ms}), false)
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	_, err = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10000\r\n\r\n")
	require.NoError(t, err)
	line, err := bufio.NewReader(conn).ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, "now\n", line)
	_, err = io.WriteString(conn, "hello")
	require.NoError(t, err)
	assert.NoError(t, within(t, said, "the handler to read on"))
}

// Nothing of a stream's request stays once it is over, however long it might have been idle.
func TestAStreamThatIsOverIsForgotten(t *testing.T) {
	type key struct{}
	h := curfewhttp.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
		curfewhttp.Config{Max: time.Minute, Stream: &curfewhttp.Stream{Lifetime: time.Hour, Idle: time.Hour}})
	kept := func() weak.Pointer[[64]int] {
		big := new([64]int)
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		h.ServeHTTP(httptest.NewRecorder(), r.WithContext(context.WithValue(context.Background(), key{}, big)))
		return weak.Make(big)
	}()
	for range 20 {
		runtime.GC()
		if kept.Value() == nil {
			return
		}
	}
	t.Error("the request is still in memory")
}

// counted is a body without an end.
type counted struct{ read int }

func (c *counted) Read(p []byte) (int, error) { c.read += len(p); return len(p), nil }
func (c *counted) Close() error               { return nil }

// Draining is for connections that are kept only when their body was read, and has a bound.
func TestOfABodyThatNobodyWantsABoundedRestIsRead(t *testing.T) {
	for proto, want := range map[int]int{1: 64<<10 + 1, 2: 0} {
		synctest.Test(t, func(t *testing.T) { // in which the bound in time does not come first
			body := &counted{}
			tr := &curfewhttp.Transport{Base: roundTrip(func(r *http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: 200, ProtoMajor: proto, Body: body, ContentLength: -1, Request: r}, nil
			})}
			r, err := http.NewRequestWithContext(inMinute(t), http.MethodGet, "http://x/", nil)
			require.NoError(t, err)
			resp, err := tr.RoundTrip(r)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			assert.Equal(t, want, body.read, "HTTP/%d", proto)
		})
	}
}

// What the warning about a server says is what CheckServer says.
func TestTheWarningAboutAServerAndCheckServerAgree(t *testing.T) {
	for timeout, wants := range map[time.Duration]bool{1500 * ms: true, 2010 * ms: true, 2500 * ms: false, 4 * time.Second: false} {
		said := &lines{}
		h := curfewhttp.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
			curfewhttp.Config{Max: 2 * time.Second, Log: slog.New(slog.NewTextHandler(said, nil))})
		s := &http.Server{WriteTimeout: timeout}
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		h.ServeHTTP(httptest.NewRecorder(), r.WithContext(context.WithValue(r.Context(), http.ServerContextKey, s)))
		assert.Equal(t, wants, strings.Contains(said.String(), "WriteTimeout"), "%v: %s", timeout, said)
		assert.Equal(t, wants, curfewhttp.CheckServer(s, 2*time.Second) != nil, "%v", timeout)
	}
}

// A server that shuts down waits for a handler that does not return, but over HTTP/1.1
// behind a reply that was cut: that took the connection from the server.
func TestAShutdownWaitsForADeafHandlerUnlessItsConnectionWasCut(t *testing.T) {
	for name, begins := range map[string]bool{"a reply that was cut": true, "a 504": false} {
		t.Run(name, func(t *testing.T) {
			protocols(t, func(t *testing.T, start func(http.Handler) *server) {
				slow, end := deaf(func(w http.ResponseWriter) {
					if begins {
						_, _ = io.WriteString(w, "a part")
						_ = http.NewResponseController(w).Flush()
					}
				})
				s := start(curfewhttp.Handler(slow, curfewhttp.Config{Max: 200 * ms, Grace: ms}))
				resp, err := s.Client().Get(s.URL)
				require.NoError(t, err)
				_, _ = io.ReadAll(resp.Body)
				resp.Body.Close()
				waits := !begins || resp.ProtoMajor >= 2
				patient := patience
				if waits {
					patient = 50 * ms
				}
				ctx, cancel := context.WithTimeout(context.Background(), patient)
				defer cancel()
				assert.Equal(t, waits, s.Config.Shutdown(ctx) != nil)
				_ = end()
			})
		})
	}
}
