package curfewhttp_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewhttp "github.com/curfew-go/curfew/adapters/http"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/budget/meter"
)

// A handler that writes nothing late has answered, however late it returns.
func TestAReplyThatIsWholeIsSentThoughItsHandlerReturnsLate(t *testing.T) {
	protocols(t, func(t *testing.T, start func(http.Handler) *server) {
		s := start(curfewhttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "whole")
			<-r.Context().Done()
		}), curfewhttp.Config{Max: 30 * ms, Grace: time.Minute}))
		for range 2 {
			resp, body := s.get(t)
			assert.Equal(t, http.StatusOK, resp.StatusCode)
			assert.Equal(t, "whole", body)
		}
	})
}

func TestAHandlerThatWaitsForAClientThatDoesNotReadIsFreed(t *testing.T) {
	protocols(t, func(t *testing.T, start func(http.Handler) *server) {
		freed := make(chan error, 1)
		s := start(curfewhttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var err error
			for chunk := make([]byte, 1<<20); err == nil; {
				_, err = w.Write(chunk)
			}
			freed <- err
		}), curfewhttp.Config{Max: 100 * ms}))
		resp, err := s.Client().Get(s.URL)
		require.NoError(t, err)
		assert.Error(t, within(t, freed, "the handler to be freed"))
		_, err = io.Copy(io.Discard, resp.Body)
		assert.Error(t, err, "the reply is cut")
		resp.Body.Close()
	})
}

func TestAHandlerThatWaitsForABodyIsFreed(t *testing.T) {
	protocols(t, func(t *testing.T, start func(http.Handler) *server) {
		freed := make(chan error, 1)
		s := start(curfewhttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, err := io.Copy(io.Discard, r.Body)
			freed <- err
		}), curfewhttp.Config{Max: 50 * ms}))
		body, write := io.Pipe()
		defer write.Close()
		resp, err := s.Client().Post(s.URL, "text/plain", body)
		require.NoError(t, err)
		resp.Body.Close()
		assert.Equal(t, http.StatusGatewayTimeout, resp.StatusCode)
		assert.ErrorIs(t, within(t, freed, "the handler to be freed"), context.DeadlineExceeded)
	})
}

// What is not there in time was not received: 408, and nothing was begun.
func TestASmallBodyThatDoesNotComeIsARequestTimeout(t *testing.T) {
	s := serve(t, curfewhttp.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the handler ran")
	}), curfewhttp.Config{Max: 50 * ms}), false)
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbo")
	require.NoError(t, err)
	reply, err := io.ReadAll(conn) // the connection is closed: there may be more of the body to come
	require.NoError(t, err)
	assert.Contains(t, string(reply), "HTTP/1.1 408 Request Timeout")
	assert.Contains(t, string(reply), `"phase":"body"`)
}

func TestASmallBodyReachesTheHandlerWhole(t *testing.T) {
	protocols(t, func(t *testing.T, start func(http.Handler) *server) {
		s := start(curfewhttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			all, err := io.ReadAll(r.Body)
			assert.NoError(t, err)
			n, err := r.Body.Read(make([]byte, 1))
			assert.Zero(t, n)
			assert.Equal(t, io.EOF, err)
			_, _ = w.Write(all)
		}), curfewhttp.Config{Max: time.Minute}))
		for _, size := range []int{1, 4095, 4096, 4097, 100_000} {
			sent := make([]byte, size)
			_, _ = rand.Read(sent)
			for _, body := range []io.Reader{bytes.NewReader(sent), struct{ io.Reader }{bytes.NewReader(sent)}} {
				resp, err := s.Client().Post(s.URL, "application/octet-stream", body)
				require.NoError(t, err)
				got, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				require.NoError(t, err)
				assert.True(t, bytes.Equal(sent, got), "%d bytes", size)
			}
		}
	})
}

func TestExpectContinueIsLeftToTheHandler(t *testing.T) {
	for name, reads := range map[string]bool{"reads": true, "does not read": false} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, curfewhttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if reads {
					_, _ = r.Body.Read(make([]byte, 1))
				}
				<-r.Context().Done()
			}), curfewhttp.Config{Max: 50 * ms}), false)
			conn, err := net.Dial("tcp", s.Listener.Addr().String())
			require.NoError(t, err)
			defer conn.Close()
			_, err = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n")
			require.NoError(t, err)
			reply, err := io.ReadAll(conn)
			require.NoError(t, err)
			assert.Equal(t, reads, strings.HasPrefix(string(reply), "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 504 "), "%s", reply)
			assert.Equal(t, !reads, strings.HasPrefix(string(reply), "HTTP/1.1 504 "), "%s", reply)
		})
	}
}

// A connection that the handler has taken is its own; only the context ends.
func TestAHijackedConnectionIsLeftAlone(t *testing.T) {
	for name, stream := range map[string]*curfewhttp.Stream{"": nil, "stream": {Lifetime: time.Hour}} {
		t.Run(name, func(t *testing.T) {
			ended := make(chan bool, 1)
			s := serve(t, curfewhttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				conn, rw, err := w.(http.Hijacker).Hijack()
				if !assert.NoError(t, err) {
					return
				}
				defer conn.Close()
				left, _ := budget.Remaining(r.Context())
				assert.Equal(t, stream != nil, left > time.Minute)
				if stream == nil {
					<-r.Context().Done()
				}
				_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\nhello")
				assert.NoError(t, rw.Flush())
				ended <- r.Context().Err() != nil
			}), curfewhttp.Config{Max: 50 * ms, Stream: stream}), false)
			conn, err := net.Dial("tcp", s.Listener.Addr().String())
			require.NoError(t, err)
			defer conn.Close()
			_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n")
			require.NoError(t, err)
			reply, err := io.ReadAll(conn)
			require.NoError(t, err)
			assert.True(t, strings.HasPrefix(string(reply), "HTTP/1.1 101") && strings.HasSuffix(string(reply), "hello"), "%s", reply)
			assert.Equal(t, stream == nil, <-ended)
		})
	}
}

func TestAStreamEndsWithItsLifetimeAndWhenItIsIdle(t *testing.T) {
	for name, stream := range map[string]curfewhttp.Stream{
		"lifetime": {Lifetime: 150 * ms},
		"idle":     {Lifetime: time.Hour, Idle: 100 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			protocols(t, func(t *testing.T, start func(http.Handler) *server) {
				why := make(chan error, 1)
				s := start(curfewhttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					assert.NoError(t, http.NewResponseController(w).Flush())
					<-r.Context().Done()
					why <- context.Cause(r.Context())
				}), curfewhttp.Config{Max: time.Minute, Stream: &stream}))
				resp, err := s.Client().Get(s.URL)
				require.NoError(t, err)
				_, _ = io.ReadAll(resp.Body)
				resp.Body.Close()
				assert.ErrorContains(t, within(t, why, "the end of the stream"), "stream "+name)
			})
		})
	}
}

func TestTheFirstByteOfAStreamHasItsDeadline(t *testing.T) {
	protocols(t, func(t *testing.T, start func(http.Handler) *server) {
		s := start(curfewhttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
		}), curfewhttp.Config{Max: time.Minute, Stream: &curfewhttp.Stream{Lifetime: time.Hour}}))
		resp, body := s.get(t, "50")
		assert.Equal(t, http.StatusGatewayTimeout, resp.StatusCode)
		assert.Contains(t, body, "peer header X-Request-Deadline-Ms 50ms")
	})
}

func TestWhatNetHTTPCanDoStillWorks(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, bytes.Repeat([]byte("x"), 100_000), 0o600))
	h := http.NewServeMux()
	h.HandleFunc("/file", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, file) })
	h.HandleFunc("/trailer", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		_, _ = io.WriteString(w, "body")
		w.Header().Set("X-Sum", "7")
		w.Header().Set(http.TrailerPrefix+"X-Other", "8")
		w.(http.Flusher).Flush()
	})
	h.HandleFunc("/early", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</style.css>")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Link")
		w.WriteHeader(http.StatusNoContent)
	})
	h.HandleFunc("/pattern/{id}", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.PathValue("id"), r.Pattern) })
	h.HandleFunc("/empty", func(w http.ResponseWriter, r *http.Request) { w.Header().Set("X-Only", "header") })
	protocols(t, func(t *testing.T, start func(http.Handler) *server) {
		s := start(curfewhttp.Handler(h, curfewhttp.Config{Max: time.Minute}))
		get := func(method, path string) (*http.Response, string) {
			r, err := http.NewRequest(method, s.URL+path, nil)
			require.NoError(t, err)
			resp, err := s.Client().Do(r)
			require.NoError(t, err)
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			return resp, string(body)
		}
		resp, body := get("GET", "/file")
		assert.Len(t, body, 100_000)
		assert.EqualValues(t, 100_000, resp.ContentLength)
		resp, body = get("HEAD", "/file")
		assert.Empty(t, body)
		assert.EqualValues(t, 100_000, resp.ContentLength)
		resp, body = get("GET", "/trailer")
		assert.Equal(t, "body", body)
		assert.Equal(t, "7", resp.Trailer.Get("X-Sum"))
		assert.Equal(t, "8", resp.Trailer.Get("X-Other"))
		resp, _ = get("GET", "/early")
		assert.Equal(t, http.StatusNoContent, resp.StatusCode)
		assert.Empty(t, resp.Header.Get("Link"))
		_, body = get("GET", "/pattern/5")
		assert.Equal(t, "5/pattern/{id}", body)
		resp, _ = get("GET", "/empty")
		assert.Equal(t, "header", resp.Header.Get("X-Only"))
		assert.EqualValues(t, 0, resp.ContentLength)
		resp, _ = get("GET", "/nothing")
		assert.Equal(t, http.StatusNotFound, resp.StatusCode)
		assert.Empty(t, s.log.String())
	})
}

// A handler must not get around the guard to net/http's own writer.
func TestTheWriterDoesNotUnwrap(t *testing.T) {
	h := curfewhttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, unwraps := w.(interface{ Unwrap() http.ResponseWriter })
		assert.False(t, unwraps)
		assert.NoError(t, http.NewResponseController(w).Flush())
		assert.ErrorIs(t, http.NewResponseController(w).SetReadDeadline(time.Time{}), http.ErrNotSupported)
		_, _, err := http.NewResponseController(w).Hijack()
		assert.ErrorIs(t, err, http.ErrNotSupported)
	}), curfewhttp.Config{})
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
}

// A connection that was taken over after its status had gone out, as some WebSocket
// libraries do, has none of the request's deadlines either, however long it is used.
func TestAConnectionTakenOverAfterItsStatusIsLeftAlone(t *testing.T) {
	s := serve(t, curfewhttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Upgrade", "x")
		w.Header().Set("Connection", "Upgrade")
		w.WriteHeader(http.StatusSwitchingProtocols)
		conn, rw, err := w.(http.Hijacker).Hijack()
		if !assert.NoError(t, err) {
			return
		}
		defer conn.Close()
		<-r.Context().Done()
		_, err = io.Copy(conn, rw) // an echo, until the client closes; rw may hold what came early
		assert.NoError(t, err)
	}), curfewhttp.Config{Max: 20 * ms, Grace: ms}), false)
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n")
	require.NoError(t, err)
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, nil)
	require.NoError(t, err)
	assert.Equal(t, http.StatusSwitchingProtocols, resp.StatusCode)
	for began := time.Now(); time.Since(began) < 1200*ms; time.Sleep(100 * ms) { // beyond the bound of an answer
		_, err = io.WriteString(conn, "ping")
		require.NoError(t, err)
		echo := make([]byte, 4)
		_, err = io.ReadFull(in, echo)
		require.NoError(t, err)
	}
}

// A reply that is whole reaches its client at the deadline though its handler goes on,
// and the next request of the client does not wait for that.
func TestAReplyThatIsWholeIsSentThoughItsHandlerDoesNotReturn(t *testing.T) {
	protocols(t, func(t *testing.T, start func(http.Handler) *server) {
		for _, size := range []int{2, 10_000} { // one waits in net/http, one does not
			slow, end := deaf(func(w http.ResponseWriter) {
				w.Header().Set("Content-Length", strconv.Itoa(size))
				_, _ = w.Write(bytes.Repeat([]byte("x"), size))
			})
			var counts meter.Memory
			first := make(chan struct{}, 1)
			first <- struct{}{}
			h := curfewhttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				select {
				case <-first:
					slow.ServeHTTP(w, r)
				default:
				}
			}), curfewhttp.Config{Max: time.Minute, Recorder: &counts})
			over := make(chan struct{}, 2) // no server waits for a connection that was taken from it
			s := start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer func() { over <- struct{}{} }()
				h.ServeHTTP(w, r)
			}))
			resp, body := s.getBroken(t, "500") // long enough to write on a busy machine
			assert.Equal(t, http.StatusOK, resp.StatusCode)
			assert.Len(t, body, size)
			resp, _ = s.get(t)
			assert.Equal(t, http.StatusOK, resp.StatusCode)
			assert.ErrorIs(t, end(), http.ErrHandlerTimeout)
			for range 2 {
				within(t, over, "both handlers to be over")
			}
			assert.EqualValues(t, 1, counts.Count(meter.Outcome, meter.Label{Key: "outcome", Value: "late"}), counts.String())
			assert.NotContains(t, s.log.String(), "panic")
		}
	})
}

// Reading from a pipe may wait for ever, and the answer at the deadline does not wait
// for that.
func TestAHandlerThatCopiesFromAPipeIsAnsweredFor(t *testing.T) {
	protocols(t, func(t *testing.T, start func(http.Handler) *server) {
		from, to, err := os.Pipe()
		require.NoError(t, err)
		defer from.Close()
		s := start(curfewhttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.(io.ReaderFrom).ReadFrom(from) // io.Copy hides that it is a file
		}), curfewhttp.Config{Max: 50 * ms}))
		resp, _ := s.getBroken(t)
		assert.Equal(t, http.StatusGatewayTimeout, resp.StatusCode)
		to.Close()
	})
}

// What a mux inside has chosen is seen by who stands outside.
func TestThePatternOfAMuxInsideIsSeenOutside(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /order/{id}", func(http.ResponseWriter, *http.Request) {})
	r := httptest.NewRequest(http.MethodGet, "/order/7", nil)
	curfewhttp.Handler(mux, curfewhttp.Config{}).ServeHTTP(httptest.NewRecorder(), r)
	assert.Equal(t, "GET /order/{id}", r.Pattern)
}
