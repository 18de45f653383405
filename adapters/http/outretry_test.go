package curfewhttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewhttp "github.com/curfew-go/curfew/adapters/http"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/budget/wire"
	"github.com/curfew-go/curfew/retrybudget"
)

var noSlush = wire.Slush{Floor: 1}

func TestCase13_ThePeerIsToldThePerAttemptTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := always(200)
		tr := retrying(base)
		tr.Slush, tr.Policy.PerAttempt = noSlush, 100*ms
		resp, err := tr.RoundTrip(ask(t, enter(t, t.Context(), budget.Within(5*time.Second)), "GET", "http://peer/", ""))
		require.NoError(t, err)
		resp.Body.Close()
		assert.Equal(t, []string{"99"}, base.headers(curfewhttp.Header), "100 ms less a nanosecond of slush")
	})
}

func TestCase14_EachAttemptSaysWhatIsLeftThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var at []time.Duration
		base := &script{answer: func(n int, r *http.Request) (*http.Response, error) {
			at = append(at, time.Since(start))
			<-r.Context().Done()
			return nil, context.Cause(r.Context())
		}}
		tr := retrying(base)
		tr.Slush = noSlush
		tr.Policy = retrybudget.Policy{PerAttempt: 100 * ms, Backoff: retrybudget.Backoff{Base: 1, Max: 1, Jitter: retrybudget.NoJitter}}
		_, err := tr.RoundTrip(ask(t, enter(t, t.Context(), budget.Within(250*ms)), "GET", "http://peer/", ""))
		assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err))
		assert.Equal(t, []string{"99", "99", "49"}, base.headers(curfewhttp.Header), "what is left, and no more than an attempt gets")
		assert.Equal(t, []string{"", "2", "3"}, base.headers(curfewhttp.AttemptHeader))
		require.Len(t, at, 3)
		assert.InDelta(t, 200*ms, at[2], float64(ms))
		assert.Equal(t, 250*ms, time.Since(start))
	})
}

// What a response leads to, for a request that may be repeated and for one that may
// not.
func TestWhichResponsesAreRepeated(t *testing.T) {
	marked := func(value string) []string { return []string{curfewhttp.ResultHeader, value} }
	for _, tt := range []struct {
		name      string
		status    int
		header    []string
		get, post int // attempts
	}{
		{"answered", 200, nil, 1, 1},
		{"not found", 404, nil, 1, 1},
		{"too many", 429, nil, 3, 3},
		{"did not arrive", 408, nil, 3, 3},
		{"broken", 500, nil, 1, 1},
		{"not implemented", 501, nil, 1, 1},
		{"bad gateway", 502, nil, 3, 1},
		{"unavailable, by somebody who does not say", 503, nil, 3, 1},
		{"overloaded, not started", 503, marked("overloaded;not-started"), 3, 3},
		{"shutting down, not started", 503, marked("shutdown;not-started"), 3, 3},
		{"overloaded halfway", 503, marked("overloaded"), 3, 1},
		{"our budget was too small", 503, marked("local_budget_rejected;not-started"), 1, 1},
		{"our budget had expired", 503, marked("expired_on_arrival;not-started"), 1, 1},
		{"ran out of our budget", 504, marked("deadline_exceeded"), 1, 1},
		{"ran into its own limit", 504, marked("deadline_exceeded;own-limit"), 3, 1},
		{"a dependency of its", 504, marked("dependency_timeout"), 3, 1},
		{"timeout, by somebody who does not say", 504, nil, 3, 1},
		{"retried below", 503, marked("overloaded;not-started;retried"), 1, 1},
		{"retried below, its own limit", 504, marked("deadline_exceeded;own-limit;retried"), 1, 1},
		{"something of a later version, not started", 500, marked("gone_fishing;not-started"), 3, 3},
	} {
		for method, want := range map[string]int{"GET": tt.get, "PUT": tt.get, "POST": tt.post, "PATCH": tt.post} {
			t.Run(tt.name+"/"+method, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					base := always(tt.status, tt.header...)
					body := ""
					if method != "GET" {
						body = "order"
					}
					resp, err := retrying(base).RoundTrip(ask(t, inMinute(t), method, "http://peer/", body))
					require.NoError(t, err)
					defer resp.Body.Close()
					assert.Equal(t, want, base.attempts())
					assert.Equal(t, tt.status, resp.StatusCode)
					for _, said := range base.said {
						assert.Equal(t, body, said)
					}
					text, err := io.ReadAll(resp.Body)
					assert.NoError(t, err)
					assert.Equal(t, "body", string(text), "the last response can be read")
					result, _ := curfewhttp.ResultOf(resp.Header)
					below := len(tt.header) == 2 && strings.Contains(tt.header[1], "retried")
					assert.Equal(t, want > 1 || below, result.Retried)
				})
			})
		}
	}
}

// The peer's 504 was the end of an attempt; of the call most is left.
func TestAPeerThatRanOutOfAnAttemptsTimeIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := always(504, curfewhttp.ResultHeader, "deadline_exceeded")
		tr := retrying(base)
		tr.Policy.PerAttempt = 100 * ms
		resp, err := tr.RoundTrip(ask(t, inMinute(t), "GET", "http://peer/", ""))
		require.NoError(t, err)
		resp.Body.Close()
		assert.Equal(t, 3, base.attempts())
	})
}

func TestCase74_WhatMayHaveRunIsNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, status := range []int{502, 503, 504} {
			base := always(status)
			resp, err := retrying(base).RoundTrip(ask(t, inMinute(t), "POST", "http://peer/", "order"))
			require.NoError(t, err)
			resp.Body.Close()
			assert.Equal(t, 1, base.attempts(), status)
		}
		reset := errors.New("connection reset by peer")
		base := &script{answer: func(int, *http.Request) (*http.Response, error) { return nil, reset }}
		_, err := retrying(base).RoundTrip(ask(t, inMinute(t), "POST", "http://peer/", "order"))
		assert.Equal(t, reset, err, "the very error: nothing was repeated")
		assert.Equal(t, 1, base.attempts())
		_, err = retrying(base).RoundTrip(ask(t, inMinute(t), "GET", "http://peer/", ""))
		assert.ErrorIs(t, err, reset)
		var retried *retrybudget.RetriedError
		assert.ErrorAs(t, err, &retried)
		assert.Equal(t, 4, base.attempts())
	})
}

func TestRetryHedgeCase41_APostIsRepeatedWithAnIdempotencyKeyThatIsOneForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
			base := always(504)
			r := ask(t, inMinute(t), "POST", "http://peer/", "order")
			r.Header.Set(name, "8e03978e")
			resp, err := retrying(base).RoundTrip(r)
			require.NoError(t, err)
			resp.Body.Close()
			assert.Equal(t, []string{"8e03978e", "8e03978e", "8e03978e"}, base.headers(name))
			assert.Equal(t, []string{"order", "order", "order"}, base.said)
		}
		base := always(504)
		resp, err := retrying(base).RoundTrip(ask(t, inMinute(t), "POST", "http://peer/", "order"))
		require.NoError(t, err)
		resp.Body.Close()
		assert.Equal(t, []string{""}, base.headers("Idempotency-Key"), "never made up")
	})
}

func TestABodyThatCannotBeHadAgainIsSentOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := always(503)
		r := ask(t, inMinute(t), "PUT", "http://peer/", "")
		b := newBody()
		r.Body = b
		resp, err := retrying(base).RoundTrip(r)
		require.NoError(t, err)
		resp.Body.Close()
		assert.Equal(t, []string{"order"}, base.said)
		assert.Equal(t, 1, b.closed)
	})
}

func TestThePeersPushbackIsTheLeastWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			after string
			least time.Duration
			sends int
		}{
			{"7", 14 * time.Second, 3},
			{"0", 0, 3},
			{"40", 40 * time.Second, 2},             // twice would not fit
			{"3600", 0, 1},                          // and this not once
			{"Sat, 01 Jan 2000 00:00:10 GMT", 0, 3}, // the bubble's clock begins ten seconds before
		} {
			begin := time.Now()
			base := always(503, "Retry-After", tt.after)
			resp, err := retrying(base).RoundTrip(ask(t, inMinute(t), "GET", "http://peer/", ""))
			require.NoError(t, err)
			resp.Body.Close()
			assert.Equal(t, tt.sends, base.attempts(), tt.after)
			assert.GreaterOrEqual(t, time.Since(begin), tt.least, tt.after)
		}
	})
}

// A budget that denies gives the response that there is, marked so that no layer
// above tries again.
func TestADeniedRetryReturnsTheResponseMarked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := always(503)
		none := retrybudget.New("peer", retrybudget.Config{Ratio: -1, PerSecond: -1, Burst: -1})
		tr := &curfewhttp.Transport{Base: base, Budget: func(string) *retrybudget.Budget { return none }}
		resp, err := tr.RoundTrip(ask(t, inMinute(t), "GET", "http://peer/", ""))
		require.NoError(t, err)
		assert.Equal(t, 1, base.attempts())
		cause := curfewhttp.CheckResponse(resp)
		assert.False(t, retrybudget.SafeToRetry(cause))

		above := 0
		err = retrybudget.Do(t.Context(), retrybudget.Unlimited(), retrybudget.Policy{Idempotent: true, Judge: curfewhttp.Judge}, func(ctx context.Context) error {
			above++
			return cause
		})
		assert.ErrorIs(t, err, cause)
		assert.Equal(t, 1, above)
	})
}

func TestAUsersJudgeIsAskedAndItsWaitIsNoLessThanThePeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		base := always(503, "Retry-After", "9")
		tr := retrying(base)
		tr.Policy.Judge = func(err error) retrybudget.Verdict {
			var e *curfewhttp.StatusError
			assert.ErrorAs(t, err, &e)
			assert.Equal(t, 503, e.Status)
			return retrybudget.Verdict{Retry: true} // although it is a POST that may have run
		}
		resp, err := tr.RoundTrip(ask(t, inMinute(t), "POST", "http://peer/", "order"))
		require.NoError(t, err)
		resp.Body.Close()
		assert.Equal(t, 3, base.attempts())
		assert.GreaterOrEqual(t, time.Since(begin), 18*time.Second)
	})
}

func TestWithoutABudgetNothingIsRepeated(t *testing.T) {
	base := always(503)
	for _, tr := range []*curfewhttp.Transport{
		{Base: base, Hedge: func() time.Duration { return 0 }},
		{Base: base, Budget: func(string) *retrybudget.Budget { return nil }},
	} {
		resp, err := tr.RoundTrip(ask(t, inMinute(t), "GET", "http://peer/", ""))
		require.NoError(t, err)
		resp.Body.Close()
		assert.Empty(t, resp.Header.Get(curfewhttp.ResultHeader))
	}
	assert.Equal(t, 2, base.attempts())
}

func TestAGateThatRefusesTheFirstAttemptClosesTheBody(t *testing.T) {
	base := always(200)
	tr := retrying(base)
	open := errors.New("breaker open")
	tr.Policy.Gate = func() (func(error), error) { return nil, open }
	r := ask(t, inMinute(t), "POST", "http://peer/", "")
	b := newBody()
	r.Body = b
	_, err := tr.RoundTrip(r)
	assert.ErrorIs(t, err, open)
	assert.ErrorIs(t, err, retrybudget.ErrDenied)
	assert.Equal(t, 1, b.closed)
	assert.Zero(t, base.attempts())
}

// A POST with a key, redirected to another host, goes there without its key, and must
// not be repeated or hedged there: nothing makes it idempotent any more.
func TestAPostWhoseKeyIsNotSentOnIsNotRepeated(t *testing.T) {
	for name, hedge := range map[string]bool{"retry": false, "hedge": true} {
		t.Run(name, func(t *testing.T) {
			var got atomic.Int32
			other := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				assert.Equal(t, http.MethodPost, r.Method)
				assert.Empty(t, r.Header.Get("Idempotency-Key"))
				got.Add(1)
				if hedge {
					time.Sleep(150 * ms)
					return
				}
				w.WriteHeader(http.StatusBadGateway) // it may have been done
			}), false)
			first := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
			}), false)
			tr := &curfewhttp.Transport{Budget: unlimited(), Policy: retrybudget.Policy{Attempts: 3}}
			if hedge {
				tr.Hedge = func() time.Duration { return 20 * ms }
			}
			r := ask(t, inMinute(t), http.MethodPost, first.URL, "charge")
			r.Header.Set("Idempotency-Key", "k1")
			resp, err := (&http.Client{Transport: tr}).Do(r)
			require.NoError(t, err)
			resp.Body.Close()
			assert.EqualValues(t, 1, got.Load(), "POST without a key was sent this often")
		})
	}
}

// net/http recovers it, and nobody else would close the response.
func TestAPanicOfTheJudgeClosesTheBody(t *testing.T) {
	var open atomic.Int32
	base := roundTrip(func(r *http.Request) (*http.Response, error) {
		open.Add(1)
		resp := replying(503)
		resp.Body = closing{resp.Body, func() { open.Add(-1) }}
		return resp, nil
	})
	tr := &curfewhttp.Transport{Base: base, Budget: unlimited(), Policy: retrybudget.Policy{
		Judge: func(error) retrybudget.Verdict { panic("judge") },
	}}
	assert.Panics(t, func() { _, _ = tr.RoundTrip(ask(t, inMinute(t), "GET", "http://x/", "")) })
	assert.Zero(t, open.Load())
}

// A closing body tells of its end.
type closing struct {
	io.ReadCloser
	closed func()
}

func (c closing) Close() error {
	c.closed()
	return c.ReadCloser.Close()
}
