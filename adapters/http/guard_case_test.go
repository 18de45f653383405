package curfewhttp_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewhttp "github.com/curfew-go/curfew/adapters/http"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/budget/meter"
	"github.com/curfew-go/curfew/scope"
)

// deaf returns a handler that does not look at its context, and a function that ends
// it and returns what writing said afterwards.
func deaf(before func(w http.ResponseWriter)) (h http.Handler, end func() error) {
	hold, wrote := make(chan struct{}), make(chan error, 1)
	h = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if before != nil {
			before(w)
		}
		<-hold
		w.Header().Set("X-Late", "1")
		_, err := io.WriteString(w, "late")
		wrote <- err
	})
	return h, func() error { close(hold); return <-wrote }
}

func TestCase11_HeadersOfOuterMiddlewareAreKeptInA504(t *testing.T) {
	protocols(t, func(t *testing.T, start func(http.Handler) *server) {
		slow, end := deaf(func(w http.ResponseWriter) { w.Header().Set("X-Handler", "lost") })
		inner := curfewhttp.Handler(slow, curfewhttp.Config{Max: 30 * ms})
		s := start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Request-Id", "7")
			inner.ServeHTTP(w, r)
		}))
		resp, body := s.getBroken(t)
		assert.Equal(t, http.StatusGatewayTimeout, resp.StatusCode)
		assert.Equal(t, "7", resp.Header.Get("X-Request-Id"))
		assert.Empty(t, resp.Header.Get("X-Handler"), "the map of a handler that still runs is not read")
		assert.Contains(t, body, `"kind":"deadline_exceeded"`)
		assert.ErrorIs(t, end(), http.ErrHandlerTimeout)
	})
}

// A handler that returns within the grace lives to see its headers sent.
func TestCase11_HeadersOfAHandlerThatReturnsAreKept(t *testing.T) {
	protocols(t, func(t *testing.T, start func(http.Handler) *server) {
		s := start(curfewhttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Handler", "kept")
			<-r.Context().Done()
			http.Error(w, "mine", http.StatusBadGateway) // refused: ours is the answer
		}), curfewhttp.Config{Max: 30 * ms, Grace: time.Minute}))
		for range 3 {
			resp, body := s.get(t)
			assert.Equal(t, http.StatusGatewayTimeout, resp.StatusCode)
			assert.Contains(t, body, `"phase":"handler"`)
			assert.False(t, resp.Close, "the connection is kept")
		}
	})
}

func TestCase18_AStreamOutlivesTheBudgetOfItsFirstByte(t *testing.T) {
	protocols(t, func(t *testing.T, start func(http.Handler) *server) {
		more := make(chan struct{})
		s := start(curfewhttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			first, _ := budget.Remaining(r.Context())
			assert.LessOrEqual(t, first, 100*ms)
			w.Header().Set("Content-Type", "text/event-stream")
			for i := range 5 {
				fmt.Fprintf(w, "data: %d\n\n", i)
				assert.NoError(t, http.NewResponseController(w).Flush())
				if i == 0 {
					<-more
				}
			}
			left, _ := budget.Remaining(r.Context())
			assert.Greater(t, left, time.Minute, "the stream's own")
			assert.NoError(t, r.Context().Err())
		}), curfewhttp.Config{Max: 100 * ms, Stream: &curfewhttp.Stream{Lifetime: time.Hour}}))
		resp, err := s.Client().Get(s.URL)
		require.NoError(t, err)
		defer resp.Body.Close()
		time.AfterFunc(250*ms, func() { close(more) })
		all, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		assert.Equal(t, 5, strings.Count(string(all), "data:"))
	})
}

func TestCase20_ADeafHandlerIsAnsweredForAndReported(t *testing.T) {
	protocols(t, func(t *testing.T, start func(http.Handler) *server) {
		var counts meter.Memory
		slow, end := deaf(nil)
		inner := curfewhttp.Handler(slow, curfewhttp.Config{Max: 50 * ms, Recorder: &counts, Route: "/slow"})
		over := make(chan struct{})
		s := start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer close(over)
			inner.ServeHTTP(w, r)
		}))
		began := time.Now()
		resp, body := s.getBroken(t)
		assert.Equal(t, http.StatusGatewayTimeout, resp.StatusCode)
		assert.Less(t, time.Since(began), patience/2, "not when the handler returns")
		assert.Contains(t, body, `"budget_ms":`)
		assert.EqualValues(t, 1, counts.Count(meter.Straggler, meter.Label{Key: "route", Value: "/slow"}))
		err := end()
		assert.ErrorIs(t, err, http.ErrHandlerTimeout, "what it writes late is discarded")
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		within(t, over, "the handler to return")
		assert.EqualValues(t, 1, counts.Count(meter.Wasted))
	})
}

// Over HTTP/1.1 net/http looks out for the end of the client once the request's body
// has been read, which nobody here does but the Handler.
func TestCase27_TheEndOfAClientIsNoticedBehindASmallUnreadBody(t *testing.T) {
	ended := make(chan error, 1)
	began := make(chan struct{})
	s := serve(t, curfewhttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(began)
		<-r.Context().Done()
		ended <- context.Cause(r.Context())
	}), curfewhttp.Config{Max: time.Hour}), false)
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	require.NoError(t, err)
	_, err = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody")
	require.NoError(t, err)
	<-began
	conn.Close()
	select {
	case err := <-ended:
		assert.Equal(t, budget.ClientCancelled, budget.KindOf(err))
	case <-time.After(patience):
		t.Fatal("not noticed")
	}
}

func TestCase28_TheDeadlineOfARequestDoesNotReachTheNextOne(t *testing.T) {
	s := serve(t, curfewhttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			<-r.Context().Done()
			return
		}
		assert.NoError(t, r.Context().Err())
	}), curfewhttp.Config{Max: 50 * ms, Grace: time.Minute}), false)
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	in := bufio.NewReader(conn)
	for i := range 6 {
		path, want := "/slow", http.StatusGatewayTimeout
		if i%2 == 1 {
			path, want = "/", http.StatusOK
		}
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path)
		resp, err := http.ReadResponse(in, nil)
		require.NoError(t, err)
		_, _ = io.Copy(io.Discard, resp.Body)
		assert.Equal(t, want, resp.StatusCode, "request %d of one connection", i)
	}
}

func TestCase29_AShortWriteTimeoutIsMovedAndReported(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		t.Run(fmt.Sprint("HTTP/2 ", http2), func(t *testing.T) {
			said := &lines{}
			h := curfewhttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				<-r.Context().Done()
			}), curfewhttp.Config{Max: time.Second, Grace: time.Minute, Log: slog.New(slog.NewTextHandler(said, nil)), Route: "/slow"})
			s := &server{Server: httptest.NewUnstartedServer(h), log: &lines{}}
			s.Config.WriteTimeout = 500 * ms
			s.EnableHTTP2 = http2
			if http2 {
				s.StartTLS()
			} else {
				s.Start()
			}
			defer s.Close()
			assert.ErrorContains(t, curfewhttp.CheckServer(s.Config, time.Second), "WriteTimeout 500ms is shorter than a request may take")
			resp, body := s.get(t)
			assert.Equal(t, http.StatusGatewayTimeout, resp.StatusCode)
			assert.Contains(t, body, "deadline_exceeded")
			s.get(t, "20")
			assert.Equal(t, 1, strings.Count(said.String(), "WriteTimeout is shorter"), "once, at the first request: %s", said)
			assert.Contains(t, said.String(), "route=/slow write_timeout=500ms max=1s")
		})
	}
	assert.NoError(t, curfewhttp.CheckServer(&http.Server{WriteTimeout: time.Second}, 300*ms))
	assert.NoError(t, curfewhttp.CheckServer(&http.Server{}, time.Hour))
}

// A timeout is 504, and a client that left is 499, for the log alone.
func TestCase30_ATimeoutAndAClientThatLeftAreToldApart(t *testing.T) {
	protocols(t, func(t *testing.T, start func(http.Handler) *server) {
		var counts meter.Memory
		logged := make(chan int, 4)
		began := make(chan struct{}, 1)
		inner := curfewhttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			began <- struct{}{}
			<-r.Context().Done()
			curfewhttp.Error(w, r, context.Cause(r.Context()))
		}), curfewhttp.Config{Max: time.Hour, Recorder: &counts, Grace: time.Minute})
		s := start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			status := &statusWriter{ResponseWriter: w}
			inner.ServeHTTP(status, r)
			logged <- status.status
		}))
		resp, _ := s.get(t, "50")
		assert.Equal(t, http.StatusGatewayTimeout, resp.StatusCode)
		assert.Equal(t, http.StatusGatewayTimeout, <-logged)
		<-began

		ctx, cancel := context.WithCancel(context.Background())
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil)
		require.NoError(t, err)
		go func() { <-began; cancel() }()
		_, err = s.Client().Do(req)
		require.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, 499, <-logged)
		assert.EqualValues(t, 1, counts.Count(meter.Cancelled, meter.Label{Key: "kind", Value: "client_cancelled"}))
		assert.EqualValues(t, 1, counts.Count(meter.Cancelled, meter.Label{Key: "kind", Value: "deadline_exceeded"}))
	})
}

// A statusWriter is what people log statuses with. Its Unwrap is for
// http.ResponseController.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func TestCase32_AReplyThatHasStartedIsCutAndGetsNoSecondStatus(t *testing.T) {
	protocols(t, func(t *testing.T, start func(http.Handler) *server) {
		slow, end := deaf(func(w http.ResponseWriter) {
			_, _ = io.WriteString(w, "0123456789")
			w.(http.Flusher).Flush()
		})
		s := start(curfewhttp.Handler(slow, curfewhttp.Config{Max: 50 * ms}))
		resp, err := s.Client().Get(s.URL)
		require.NoError(t, err)
		defer resp.Body.Close()
		assert.Equal(t, http.StatusOK, resp.StatusCode)
		body, err := io.ReadAll(resp.Body)
		assert.Error(t, err, "it must not look whole")
		assert.Equal(t, "0123456789", string(body))
		assert.ErrorIs(t, end(), http.ErrHandlerTimeout)
		s.Close()
		assert.Empty(t, s.log.String())
	})
}

func TestCase34_ErrAbortHandlerPassesUnchanged(t *testing.T) {
	gone := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "short")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}))
	defer gone.Close()
	to, err := url.Parse(gone.URL)
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.ErrorLog = log.New(io.Discard, "", 0)
	protocols(t, func(t *testing.T, start func(http.Handler) *server) {
		raised := make(chan any, 1)
		inner := curfewhttp.Handler(proxy, curfewhttp.Config{Max: time.Minute})
		s := start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer func() {
				v := recover()
				raised <- v
				panic(v)
			}()
			inner.ServeHTTP(w, r)
		}))
		resp, err := s.Client().Get(s.URL)
		if err == nil { // the header was out already
			_, err = io.ReadAll(resp.Body)
			resp.Body.Close()
		}
		assert.Error(t, err)
		assert.Equal(t, http.ErrAbortHandler, <-raised)
	})
}

// What was cancelled inside, while the client waits, is not the client's doing.
func TestCase72_ACancelInsideIsNotTheClients(t *testing.T) {
	cancelled := func(ctx context.Context) error {
		return scope.Run(ctx, "child", budget.Within(time.Minute), func(ctx context.Context, s *scope.Scope) error {
			s.Cancel(errors.New("enough"))
			<-ctx.Done()
			return context.Cause(ctx)
		})
	}
	protocols(t, func(t *testing.T, start func(http.Handler) *server) {
		s := start(curfewhttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			err := cancelled(r.Context())
			if r.URL.Path == "/client" {
				err = &budget.Cause{Kind: budget.ClientCancelled} // some other request's
			}
			curfewhttp.Error(w, r, err)
		}), curfewhttp.Config{}))
		for _, path := range []string{"/", "/client"} {
			resp, err := s.Client().Get(s.URL + path)
			require.NoError(t, err)
			resp.Body.Close()
			assert.Equal(t, http.StatusInternalServerError, resp.StatusCode, path)
		}
	})
}

func TestCase73_WhatExpiredInAQueueWasNotStarted(t *testing.T) {
	protocols(t, func(t *testing.T, start func(http.Handler) *server) {
		hold, running := make(chan struct{}), make(chan struct{}, 2)
		q := curfewhttp.NewQueue(1, 10)
		s := start(curfewhttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			running <- struct{}{}
			<-hold
		}), curfewhttp.Config{Max: time.Minute, Queue: q}))
		first := make(chan int, 1)
		go func() {
			resp, _ := s.get(t)
			first <- resp.StatusCode
		}()
		<-running
		resp, body := s.get(t, "40")
		assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
		assert.Contains(t, body, `"kind":"expired_on_arrival","not_started":true`)
		assert.Empty(t, resp.Header.Get("Retry-After"))
		result, ok := curfewhttp.ResultOf(resp.Header)
		assert.True(t, ok && result.NotStarted)
		close(hold)
		assert.Equal(t, http.StatusOK, <-first)
		assert.Empty(t, running, "it never ran")
	})
}
