package ctxnode_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A server whose handlers tell that a request is there, and then wait for its
// end; /body sends the beginning of a body before.
type sleeper struct {
	*httptest.Server
	arrived chan struct{}
}

func newSleeper(t *testing.T, http2 bool) *sleeper {
	s := &sleeper{arrived: make(chan struct{}, 1)}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/warm":
			return
		case "/body":
			_, _ = w.Write([]byte("the beginning"))
			_ = http.NewResponseController(w).Flush()
		}
		s.arrived <- struct{}{}
		<-r.Context().Done()
	}))
	if http2 {
		s.EnableHTTP2 = true
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	resp, err := s.Client().Get(s.URL + "/warm")
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http2, resp.ProtoMajor == 2)
	return s
}

// onArrival calls f when a request has arrived, or when ctx ended before.
func (s *sleeper) onArrival(ctx context.Context, f func()) (done <-chan struct{}) {
	c := make(chan struct{})
	go func() {
		defer close(c)
		select {
		case <-s.arrived:
		case <-ctx.Done():
		}
		f()
	}()
	return c
}

// drain forgets the arrival of a request whose context ended before it arrived.
func (s *sleeper) drain() {
	select {
	case <-s.arrived:
	default:
	}
}

// For HTTP/1.1 net/http returns the cause. For HTTP/2 it returns the bare Err,
// which is right but names no limit; package curfewhttp puts the cause back.
func TestEndsSeenThroughAnHTTPClient(t *testing.T) {
	t.Parallel()
	for _, http2 := range []bool{false, true} {
		name := "HTTP/1.1"
		if http2 {
			name = "HTTP/2"
		}
		t.Run(name, func(t *testing.T) {
			server := newSleeper(t, http2)
			request := func(t *testing.T, ctx context.Context, path string) *http.Request {
				r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+path, nil)
				require.NoError(t, err)
				return r
			}
			for _, derived := range []bool{false, true} {
				suffix := ""
				if derived {
					suffix = " of a std child"
				}
				below := func(ctx context.Context) context.Context {
					if derived {
						return child(t, context.WithValue(ctx, key("span"), 1))
					}
					return ctx
				}
				t.Run("headers"+suffix, func(t *testing.T) {
					forEachEnd(t, func(t *testing.T, e end, ctx context.Context, end func()) {
						done := server.onArrival(ctx, end)
						_, err := server.Client().Do(request(t, below(ctx), "/headers"))
						<-done
						server.drain()
						require.IsType(t, &url.Error{}, err)
						e.looksLike(t, err, http2)
					})
				})
				t.Run("body"+suffix, func(t *testing.T) {
					forEachEnd(t, func(t *testing.T, e end, ctx context.Context, end func()) {
						resp, err := server.Client().Do(request(t, below(ctx), "/body"))
						if err == nil {
							end()
							_, err = io.ReadAll(resp.Body)
							resp.Body.Close()
						}
						server.drain()
						e.looksLike(t, err, http2)
					})
				})
			}
			t.Run("headers with a client timeout that is longer", func(t *testing.T) {
				forEachEnd(t, func(t *testing.T, e end, ctx context.Context, end func()) {
					client := *server.Client()
					client.Timeout = time.Minute
					done := server.onArrival(ctx, end)
					_, err := client.Do(request(t, ctx, "/headers"))
					<-done
					server.drain()
					e.looksLike(t, err, http2)
				})
			})
		})
	}
}

// Before the first byte a request waits for a connection.
func TestEndsSeenWhileAnHTTPClientConnects(t *testing.T) {
	t.Parallel()
	for _, phase := range []string{"dial", "tls handshake", "a connection of its host"} {
		t.Run(phase, func(t *testing.T) {
			forEachEnd(t, func(t *testing.T, e end, ctx context.Context, end func()) {
				waiting := make(chan struct{}, 1)
				tr := &http.Transport{}
				defer tr.CloseIdleConnections()
				target := "http://192.0.2.1/" // reserved for documentation; never dialled
				release := make(chan struct{})
				defer close(release)
				hang := func(ctx context.Context) (net.Conn, error) {
					waiting <- struct{}{}
					select {
					case <-ctx.Done():
						return nil, context.Cause(ctx)
					case <-release:
						return nil, net.ErrClosed
					}
				}
				switch phase {
				case "dial":
					tr.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return hang(ctx) }
				case "tls handshake":
					target = "https://192.0.2.1/"
					tr.TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
					tr.DialContext = func(context.Context, string, string) (net.Conn, error) {
						client, server := net.Pipe()
						go func() { // reads the hello and never answers
							_, _ = server.Read(make([]byte, 1))
							waiting <- struct{}{}
							<-release
							server.Close()
						}()
						return client, nil
					}
				default:
					tr.MaxConnsPerHost = 1
					tr.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return hang(context.Background()) }
					first, cancelFirst := context.WithCancel(context.Background())
					defer cancelFirst()
					r, _ := http.NewRequestWithContext(first, http.MethodGet, target, nil)
					go func() { _, _ = tr.RoundTrip(r) }()
				}
				go func() {
					select {
					case <-waiting:
					case <-ctx.Done():
					}
					end()
				}()
				r, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
				require.NoError(t, err)
				_, err = (&http.Client{Transport: tr}).Do(r)
				e.looksLike(t, err, false)
			})
		})
	}
}
