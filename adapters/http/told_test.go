package curfewhttp_test

import (
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	curfewhttp "github.com/curfew-go/curfew/adapters/http"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/budget/ledger"
)

func TestServerTimingAndTheLogSayWhereTheTimeWent(t *testing.T) {
	protocols(t, func(t *testing.T, start func(http.Handler) *server) {
		said := &lines{}
		h := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { ledger.From(r.Context()).Call("vault", 0).Done(nil) })
		c := curfewhttp.Config{ServerTiming: true, Route: "/order", Log: slog.New(slog.NewTextHandler(said, &slog.HandlerOptions{Level: slog.LevelDebug}))}
		s := start(curfewhttp.Handler(h, c))
		resp, _ := s.get(t, "1000")
		s.Close() // when the log has been written
		assert.Contains(t, resp.Header.Get("Server-Timing"), "vault")
		assert.Contains(t, said.String(), "status=200")
		assert.Contains(t, said.String(), "vault")

		c.Edge = true
		resp, _ = start(curfewhttp.Handler(h, c)).get(t, "1000")
		assert.Empty(t, resp.Header.Get("Server-Timing"))
	})
}

func TestOnlyWhoBroughtABudgetIsToldWhatBecameOfIt(t *testing.T) {
	protocols(t, func(t *testing.T, start func(http.Handler) *server) {
		s := start(curfewhttp.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), curfewhttp.Config{}))
		resp, _ := s.get(t)
		assert.Empty(t, resp.Header.Get(curfewhttp.ResultHeader))
		resp, _ = s.get(t, "1000")
		assert.Equal(t, "ok", resp.Header.Get(curfewhttp.ResultHeader))
	})
}

// Where there is no Handler that knows better, nothing from inside is named; and what h
// had said about a reply that did not come to be is not said about the failure.
func TestAnErrorWithoutAHandlerNamesNothingFromInside(t *testing.T) {
	protocols(t, func(t *testing.T, start func(http.Handler) *server) {
		s := start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "br")
			w.Header().Set("Etag", `"7"`)
			curfewhttp.Error(w, r, &budget.Cause{Kind: budget.DeadlineExceeded, Limit: "vault", Scope: "inner"})
		}))
		resp, body := s.get(t)
		assert.Equal(t, http.StatusGatewayTimeout, resp.StatusCode)
		assert.JSONEq(t, `{"title":"Gateway Timeout","status":504}`, body)
		assert.Empty(t, resp.Header.Get("Content-Encoding"))
		assert.Empty(t, resp.Header.Get("Etag"))
	})
}

// The next request would wait behind a handler that does not return.
func TestTheConnectionOfADeafHandlerIsNotUsedAgain(t *testing.T) {
	slow, end := deaf(nil)
	s := serve(t, curfewhttp.Handler(slow, curfewhttp.Config{Max: 30 * ms}), false)
	resp, _ := s.getBroken(t)
	assert.Equal(t, http.StatusGatewayTimeout, resp.StatusCode)
	assert.True(t, resp.Close)
	_ = end()
}

func TestOneTooManyInAQueueIsRefusedAtOnce(t *testing.T) {
	protocols(t, func(t *testing.T, start func(http.Handler) *server) {
		hold, running := make(chan struct{}), make(chan struct{}, 2)
		s := start(curfewhttp.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			running <- struct{}{}
			<-hold
		}), curfewhttp.Config{Max: time.Hour, Queue: curfewhttp.NewQueue(1, 0)}))
		first := make(chan int, 1)
		go func() {
			resp, _ := s.get(t)
			first <- resp.StatusCode
		}()
		within(t, running, "the first")
		resp, body := s.get(t, "3600000")
		assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
		assert.Contains(t, body, `"kind":"overloaded","not_started":true`)
		close(hold)
		assert.Equal(t, http.StatusOK, within(t, first, "the first"))
	})
}
