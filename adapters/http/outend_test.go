package curfewhttp_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewhttp "github.com/curfew-go/curfew/adapters/http"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/budget/meter"
	"github.com/curfew-go/curfew/retrybudget"
)

// Who leaves as a peer's 504 comes has left, and was not too slow.
func TestACallerThatLeavesIsNotToldOfThePeersTimeout(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	tr := &curfewhttp.Transport{
		Base: roundTrip(func(*http.Request) (*http.Response, error) {
			leave()
			return replying(http.StatusGatewayTimeout), nil
		}),
		Budget: retrybudget.NewSet(retrybudget.Config{}, 1).For,
	}
	_, err := tr.RoundTrip(ask(t, ctx, "GET", "http://peer/", ""))
	assert.ErrorIs(t, err, context.Canceled)
	assert.NotEqual(t, budget.DeadlineExceeded, budget.KindOf(err), "%v", err)
}

// Time is up before a second attempt has begun. What ended the first one, which was answered,
// is not why the call ends.
func TestACallOutOfTimeBetweenItsAttemptsSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		retried := 0
		tr := hedging(roundTrip(func(*http.Request) (*http.Response, error) {
			resp := replying(http.StatusServiceUnavailable)
			resp.Body = http.NoBody // so that the attempt is over
			return resp, nil
		}), time.Hour)
		tr.Meter = onCount(func(name string) {
			if name == meter.RetryAllowed {
				retried++
				time.Sleep(time.Minute)
			}
		})
		ctx, cancel, err := budget.Enter(t.Context(), budget.Within(10*time.Second))
		require.NoError(t, err)
		defer cancel()
		_, err = tr.RoundTrip(ask(t, ctx, "GET", "http://peer/", ""))
		require.Equal(t, 1, retried, "%v", err)
		assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err), "%v", err)
		assert.NotErrorIs(t, err, context.Canceled)
	})
}

// onCount is a Recorder that calls f with the name of each counter.
type onCount func(name string)

func (f onCount) Add(name string, _ int64, _ ...meter.Label) { f(name) }
func (f onCount) Record(string, float64, ...meter.Label)     {}
