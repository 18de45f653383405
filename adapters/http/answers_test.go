package curfewhttp_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewhttp "github.com/curfew-go/curfew/adapters/http"
	"github.com/curfew-go/curfew/budget/wire"
)

// net/http would read the body first, which does not come.
func TestARefusalDoesNotWaitForTheBody(t *testing.T) {
	s := serve(t, curfewhttp.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("ran")
	}), curfewhttp.Config{Max: 50 * ms}), false)
	for name, head := range map[string]string{"expired": "X-Request-Deadline-Ms: 0", "malformed": "X-Request-Deadline-Ms: x"} {
		t.Run(name, func(t *testing.T) {
			conn := dialRaw(t, s, "POST / HTTP/1.1\r\nHost: x\r\n"+head+"\r\nContent-Length: 10000\r\n\r\nbo")
			_ = conn.SetReadDeadline(time.Now().Add(patience))
			_, err := http.ReadResponse(bufio.NewReader(conn), nil)
			assert.NoError(t, err, "refused before any work")
		})
	}
}

// Problem may be called on a timer's goroutine, where a panic would end the process, and
// while h changes the header of its request.
func TestProblemMayPanicAndReadTheRequest(t *testing.T) {
	protocols(t, func(t *testing.T, start func(http.Handler) *server) {
		over := make(chan struct{})
		s := start(curfewhttp.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			for {
				select {
				case <-over:
					return
				default:
					r.Header["X-Tenant"] = []string{"other"}
				}
			}
		}), curfewhttp.Config{Max: 30 * ms, Problem: func(r *http.Request, p *curfewhttp.Problem) {
			_ = r.Header["X-Tenant"][0] // which this request has not
		}}))
		r, err := http.NewRequest(http.MethodGet, s.URL, nil)
		require.NoError(t, err)
		resp, err := s.Client().Do(r)
		require.NoError(t, err)
		resp.Body.Close()
		assert.Equal(t, http.StatusGatewayTimeout, resp.StatusCode)
		close(over)
		assert.Contains(t, s.log.String(), "panic in a function of Config")
	})
}

func TestAnInformationalResponseOfAnEdgeSaysNothingFromInside(t *testing.T) {
	s := serve(t, curfewhttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(curfewhttp.ResultHeader, "ok;retried")
		w.Header().Set("Server-Timing", "inner-db;dur=3")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(204)
	}), curfewhttp.Config{Edge: true}), false)
	conn := dialRaw(t, s, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	b, err := io.ReadAll(conn)
	require.NoError(t, err)
	assert.NotContains(t, string(b), "inner-db")
	assert.NotContains(t, string(b), "retried")
}

// What h said in a 103 is not part of a 504.
func TestHeadersOfAnEarlyHintAreNotInA504(t *testing.T) {
	protocols(t, func(t *testing.T, start func(http.Handler) *server) {
		for _, deaf := range []time.Duration{0, 200 * ms} {
			s := start(curfewhttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Set-Cookie", "session=secret")
				w.WriteHeader(http.StatusEarlyHints)
				<-r.Context().Done()
				time.Sleep(deaf)
			}), curfewhttp.Config{Max: 50 * ms}))
			resp, _ := s.getBroken(t)
			assert.Equal(t, 504, resp.StatusCode)
			assert.Empty(t, resp.Header.Get("Set-Cookie"))
		}
	})
}

func TestAnEdgeWithFormsOfItsOwnTakesTheUsualOnesOffToo(t *testing.T) {
	s := serve(t, curfewhttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Header.Get("Grpc-Timeout"))
	}), curfewhttp.Config{Edge: true, Forms: []wire.Form{wire.Millis(curfewhttp.Header)}}), false)
	r, _ := http.NewRequest("GET", s.URL, nil)
	r.Header.Set("Grpc-Timeout", "1m")
	resp, err := s.Client().Do(r)
	require.NoError(t, err)
	b, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	assert.Empty(t, string(b), "what a caller of an edge says about time is taken off")
}

func TestReadFromAfterHijackSaysSo(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	require.NoError(t, os.WriteFile(file, []byte("x"), 0o600))
	s := serve(t, curfewhttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if !assert.NoError(t, err) {
			return
		}
		defer conn.Close()
		f, _ := os.Open(file)
		defer f.Close()
		_, err = w.(io.ReaderFrom).ReadFrom(f)
		assert.ErrorIs(t, err, http.ErrHijacked)
	}), curfewhttp.Config{Max: time.Minute}), false)
	conn := dialRaw(t, s, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	_, _ = io.ReadAll(conn)
}

func TestAFileIsNotSentAfterTheDeadline(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	require.NoError(t, os.WriteFile(file, []byte("a page"), 0o600))
	protocols(t, func(t *testing.T, start func(http.Handler) *server) {
		s := start(curfewhttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			f, err := os.Open(file)
			assert.NoError(t, err)
			defer f.Close()
			n, err := w.(io.ReaderFrom).ReadFrom(f)
			assert.Zero(t, n)
			assert.ErrorIs(t, err, http.ErrHandlerTimeout)
		}), curfewhttp.Config{Max: 30 * ms, Grace: time.Minute}))
		resp, body := s.get(t)
		assert.Equal(t, http.StatusGatewayTimeout, resp.StatusCode)
		assert.NotContains(t, body, "a page")
	})
}

func TestAConnectionCannotBeTakenAfterTheDeadline(t *testing.T) {
	s := serve(t, curfewhttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		_, _, err := http.NewResponseController(w).Hijack()
		assert.ErrorIs(t, err, http.ErrHandlerTimeout)
	}), curfewhttp.Config{Max: 30 * ms, Grace: time.Minute}), false)
	resp, _ := s.get(t)
	assert.Equal(t, http.StatusGatewayTimeout, resp.StatusCode)
}

// Under Warn nothing would end the wait.
func TestWarnDoesNotWaitForABodyThatDoesNotCome(t *testing.T) {
	ran := make(chan struct{}, 1)
	s := serve(t, curfewhttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ran <- struct{}{}
	}), curfewhttp.Config{Max: 50 * ms, Mode: curfewhttp.Warn}), false)
	dialRaw(t, s, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nbo")
	within(t, ran, "the handler to run")
}

// What is buffered when h returns goes out within a bound, or not at all.
func TestAHandlerThatObeysIsNotHeldByAClientThatDoesNotRead(t *testing.T) {
	returned := make(chan time.Time, 1)
	hAt := make(chan time.Time, 1)
	h := curfewhttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := w.Write(make([]byte, 4<<20)) // the window of the stream
		assert.NoError(t, err)
		_, _ = w.Write(make([]byte, 1000)) // in the buffer
		<-r.Context().Done()
		_, err = w.Write([]byte("more"))
		assert.ErrorIs(t, err, http.ErrHandlerTimeout)
		hAt <- time.Now()
	}), curfewhttp.Config{Max: 2 * time.Second})
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { v := recover(); returned <- time.Now(); panic(v) }()
		h.ServeHTTP(w, r)
	}), true)
	resp, err := s.Client().Get(s.URL)
	require.NoError(t, err)
	defer resp.Body.Close()
	at := within(t, hAt, "h")
	t.Logf("held for %v", within(t, returned, "the request to be over").Sub(at))
}

// dialRaw sends text over a connection of its own.
func dialRaw(t *testing.T, s *server, text string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	_, err = io.WriteString(conn, text)
	require.NoError(t, err)
	return conn
}
