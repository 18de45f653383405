package curfewhttp_test

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewhttp "github.com/curfew-go/curfew/adapters/http"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/budget/wire"
)

// TestWaitingForAConnectionIsTakenOff: under load most time goes by before a
// connection is free, and the peer must not be told of time that is gone.
func TestWaitingForAConnectionIsTakenOff(t *testing.T) {
	const limit, hold = 10 * time.Second, 300 * time.Millisecond
	protocols(t, func(t *testing.T, start func(h http.Handler) *server) {
		busy := make(chan struct{})
		told := make(chan time.Duration, 2)
		s := start(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			ms, err := strconv.Atoi(r.Header.Get(curfewhttp.Header))
			assert.NoError(t, err)
			told <- time.Duration(ms) * time.Millisecond
			if r.URL.Path == "/first" {
				close(busy)
				<-time.After(hold)
			}
		}))
		base := s.Client().Transport.(*http.Transport).Clone()
		base.MaxConnsPerHost = 1
		defer base.CloseIdleConnections()
		client := &http.Client{Transport: &curfewhttp.Transport{Base: base, Slush: wire.Slush{Floor: 1}}}
		ctx, cancel, err := budget.Enter(t.Context(), budget.Within(limit))
		defer cancel()
		require.NoError(t, err)
		ask := func(path string) {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+path, nil)
			assert.NoError(t, err)
			resp, err := client.Do(req)
			if assert.NoError(t, err) {
				resp.Body.Close()
			}
		}
		first := make(chan struct{})
		go func() { defer close(first); ask("/first") }()
		<-busy
		<-told
		ask("/second")
		left, _ := budget.Remaining(ctx)
		second := <-told
		<-first
		assert.GreaterOrEqual(t, second, left.Truncate(time.Millisecond))
		if !s.EnableHTTP2 { // HTTP/2 shares its connection and does not wait
			assert.LessOrEqual(t, second, limit-hold)
		}
	})
}
