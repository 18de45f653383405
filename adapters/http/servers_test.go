package curfewhttp_test

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	curfewhttp "github.com/curfew-go/curfew/adapters/http"
	"github.com/curfew-go/curfew/budget"
)

// patience bounds waits for what must happen.
const patience = 30 * time.Second

const ms = time.Millisecond

// protocols runs f for each protocol over which a deadline travels.
func protocols(t *testing.T, f func(t *testing.T, start func(h http.Handler) *server)) {
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			f(t, func(h http.Handler) *server { return serve(t, h, http2) })
		})
	}
}

// A server listens on a loopback port.
type server struct {
	*httptest.Server
	log *lines
}

func serve(t *testing.T, h http.Handler, http2 bool) *server {
	s := &server{Server: httptest.NewUnstartedServer(h), log: &lines{}}
	s.Config.ErrorLog = log.New(s.log, "", 0)
	if http2 {
		s.EnableHTTP2 = true
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

// inMemory runs f in a bubble for each protocol, with a transport to h over pipes: on a
// machine however busy, no bound in time comes while there is something to do.
func inMemory(t *testing.T, h http.Handler, f func(t *testing.T, tr *http.Transport)) {
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var both http.Protocols
				both.SetHTTP1(!http2)
				both.SetUnencryptedHTTP2(http2)
				dialled := make(pipes)
				s := &http.Server{Handler: h, Protocols: &both}
				go func() { _ = s.Serve(dialled) }()
				tr := &http.Transport{Protocols: &both, DialContext: func(context.Context, string, string) (net.Conn, error) {
					ours, its := net.Pipe()
					dialled <- its
					return ours, nil
				}}
				t.Cleanup(func() { tr.CloseIdleConnections(); s.Close() })
				f(t, tr)
			})
		})
	}
}

// pipes is a listener.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes", Net: "pipe"} }

// lines is a log that may be read while it is written.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// request makes a request to s with header values as given, under ctx.
func (s *server) request(t testing.TB, ctx context.Context, values ...string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil)
	require.NoError(t, err)
	if len(values) > 0 {
		r.Header["X-Request-Deadline-Ms"] = values
	}
	return r
}

// get sends a request with those header values, and returns the answer.
func (s *server) get(t testing.TB, values ...string) (resp *http.Response, body string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	resp, err := s.Client().Do(s.request(t, ctx, values...))
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp, string(text)
}

func enter(t testing.TB, parent context.Context, limit budget.Limit) context.Context {
	t.Helper()
	ctx, cancel, err := budget.Enter(parent, limit)
	require.NoError(t, err)
	t.Cleanup(cancel)
	return ctx
}

// within waits for what must come.
func within[T any](t testing.TB, c <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		t.Fatalf("waited %v: %s", patience, what)
	}
	return v
}

// getBroken is get from a server that may reset the stream behind a whole body, as one
// does over HTTP/2 whose handler does not return.
func (s *server) getBroken(t *testing.T, left ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, s.URL, nil)
	require.NoError(t, err)
	r.Header[curfewhttp.Header] = left
	resp, err := s.Client().Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if resp.ProtoMajor < 2 {
		require.NoError(t, err)
	}
	require.EqualValues(t, resp.ContentLength, len(body), "%v", err)
	return resp, string(body)
}
