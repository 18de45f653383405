package curfewhttp_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewhttp "github.com/curfew-go/curfew/adapters/http"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/budget/latency"
	"github.com/curfew-go/curfew/budget/ledger"
	"github.com/curfew-go/curfew/budget/meter"
	"github.com/curfew-go/curfew/retrybudget"
)

// A redirect leads wherever a peer likes. What is ours stays with the host that the
// request was made for, and with those that were named.
func TestARedirectToAnotherHostTellsItNothing(t *testing.T) {
	for name, tt := range map[string]struct {
		hosts func(string) bool
		told  map[string]bool
	}{
		"by default": {nil, map[string]bool{"a.test": true, "b.test": false, "a.test:80": false}},
		"as named": {func(h string) bool { return h == "b.test" || h == "a.test" },
			map[string]bool{"a.test": true, "b.test": true, "a.test:80": true}},
		"to nobody": {func(string) bool { return false }, map[string]bool{"a.test": false, "b.test": false, "a.test:80": false}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				to := map[string]string{"http://A.test/1": "http://a.test/2", "http://a.test/2": "http://B.test/3", "http://B.test/3": "http://a.test:80/4", "http://a.test:80/4": "http://a.test/5"}
				base := &script{answer: func(n int, r *http.Request) (*http.Response, error) {
					if n == 1 {
						return replying(503), nil // so that attempts are marked
					}
					if next := to[r.URL.String()]; next != "" {
						return replying(307, "Location", next), nil
					}
					return replying(200), nil
				}}
				tr := retrying(base)
				tr.Hosts = tt.hosts
				r := ask(t, inMinute(t), "GET", "http://A.test/1", "")
				r.Header.Set("Idempotency-Key", "8e03978e")
				r.Header.Set("x-request-attempt", "7;hedge")
				resp, err := (&http.Client{Transport: tr}).Do(r)
				require.NoError(t, err)
				resp.Body.Close()
				require.Len(t, base.sent, 6)
				for i, r := range base.sent {
					told := tt.told[strings.ToLower(r.URL.Host)]
					assert.Equal(t, told, r.Header.Get(curfewhttp.Header) != "", "%d %s", i, r.URL)
					attempt := ""
					if i == 1 && told {
						attempt = "2"
					}
					assert.Equal(t, attempt, r.Header.Get(curfewhttp.AttemptHeader), "%d %s", i, r.URL)
					key := told || i < 2 || r.URL.Host == "a.test" // else a redirect led astray
					assert.Equal(t, key, r.Header.Get("Idempotency-Key") != "", "%d %s", i, r.URL)
				}
			})
		})
	}
}

func TestARequestWithoutADeadlineIsCountedWithItsPlace(t *testing.T) {
	var m meter.Memory
	base := always(200)
	target := meter.Label{Key: "target", Value: "inventory"}
	named := func(*http.Request) string { return "inventory" }
	resp, err := (&http.Client{Transport: &curfewhttp.Transport{Base: base, Meter: &m, Target: named}}).Do(ask(t, t.Context(), "GET", "http://peer/", ""))
	require.NoError(t, err)
	resp.Body.Close()
	assert.EqualValues(t, 1, m.Count(meter.Unbounded, target))
	assert.Contains(t, m.String(), `site="github.com/curfew-go/curfew/adapters/http_test.TestARequestWithoutADeadlineIsCountedWithItsPlace:`)

	b := newBody()
	r := ask(t, t.Context(), "POST", "http://peer/", "")
	r.Body = b
	_, err = (&curfewhttp.Transport{Base: base, Meter: &m, Target: named, RequireDeadline: true}).RoundTrip(r)
	assert.ErrorIs(t, err, budget.ErrNoDeadline)
	assert.ErrorContains(t, err, "curfewhttp: request to inventory: ")
	assert.Equal(t, 1, b.closed)
	assert.Equal(t, 1, base.attempts())
	assert.EqualValues(t, 2, m.Count(meter.Unbounded, target))
}

func TestATransportMetersWhatItSendsAndRepeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m meter.Memory
		target := meter.Label{Key: "target", Value: "peer:8080"}
		base := &script{answer: func(n int, r *http.Request) (*http.Response, error) {
			if n == 1 {
				return replying(503, curfewhttp.ResultHeader, "overloaded;not-started"), nil
			}
			return replying(503), nil
		}}
		b := retrybudget.New("peer", retrybudget.Config{Ratio: -1, PerSecond: 0.001, Burst: 1})
		tr := &curfewhttp.Transport{Base: base, Meter: &m, Slush: noSlush, Budget: func(name string) *retrybudget.Budget {
			assert.Equal(t, "peer:8080", name)
			return b
		}}
		resp, err := tr.RoundTrip(ask(t, enter(t, t.Context(), budget.Within(time.Second)), "GET", "http://PEER:8080/", ""))
		require.NoError(t, err)
		resp.Body.Close()
		assert.Equal(t, 2, base.attempts())
		assert.EqualValues(t, 1, m.Count(meter.RetryAllowed, target))
		assert.EqualValues(t, 1, m.Count(meter.RetryDenied, target))
		assert.EqualValues(t, 2, m.Count(meter.RemainingOut, target))
		assert.InDelta(t, 2000, m.Sum(meter.RemainingOut, target), 51)
		assert.EqualValues(t, 1, m.Count(meter.Honoured, target, meter.Label{Key: "honoured", Value: "yes"}))
		assert.EqualValues(t, 1, m.Count(meter.Honoured, target, meter.Label{Key: "honoured", Value: "no"}))
		assert.Zero(t, m.Count(meter.Unbounded))
	})
}

func TestEachAttemptIsInTheLedgerUntilItsBodyWasRead(t *testing.T) {
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-time.After(20 * ms)
		if n, _ := curfewhttp.AttemptOf(r.Header); n == 1 {
			w.WriteHeader(http.StatusTooManyRequests)
		}
		w.Write([]byte("body"))
	}), true)
	ctx, l := ledger.New(inMinute(t), "checkout")
	base := s.Client().Transport.(*http.Transport)
	tr := retrying(base)
	tr.Target = func(*http.Request) string { return "inventory" }
	resp, err := tr.RoundTrip(s.request(t, ctx))
	require.NoError(t, err)
	open := l.Report()
	resp.Body.Close()
	done := l.Report()
	require.Len(t, open.Calls, 2)
	assert.Equal(t, "open", open.Calls[1].Outcome)
	assert.Equal(t, "ok", done.Calls[1].Outcome)
	for i, c := range done.Calls {
		assert.Equal(t, "inventory", c.Target)
		assert.Greater(t, c.RemainingOut, 50*time.Second)
		assert.GreaterOrEqual(t, c.Stages[ledger.Work], 20*ms, i)
		assert.Equal(t, i == 0, c.Stages[ledger.Connect] > 0, "the first one dials")
	}
}

func TestLatencyIsObservedAndTellsWhatIsTypical(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := latency.New(latency.Config{})
		base := &script{answer: func(n int, r *http.Request) (*http.Response, error) {
			time.Sleep(100 * ms)
			if n > 200 {
				return replying(503), nil
			}
			return replying(200), nil
		}}
		tr := retrying(base)
		tr.Observed = o
		for range 200 {
			resp, err := tr.RoundTrip(ask(t, inMinute(t), "GET", "http://peer/", ""))
			require.NoError(t, err)
			resp.Body.Close()
		}
		assert.InDelta(t, 100*ms, o.Typical(), float64(5*ms))
		assert.EqualValues(t, 200, o.Snapshot().Stats().Answered)

		resp, err := tr.RoundTrip(ask(t, enter(t, context.Background(), budget.Within(190*ms)), "GET", "http://peer/", ""))
		require.NoError(t, err)
		resp.Body.Close()
		assert.Equal(t, 201, base.attempts(), "another attempt would not fit")
	})
}
