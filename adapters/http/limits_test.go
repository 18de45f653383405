package curfewhttp_test

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewhttp "github.com/curfew-go/curfew/adapters/http"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/budget/latency"
	"github.com/curfew-go/curfew/budget/meter"
)

type tenant struct{}

// What must finish although its request's time is over has a bound of its own, and
// that is what it tells those it calls.
func TestCase12_WorkThatMustFinishHasItsOwnBound(t *testing.T) {
	protocols(t, func(t *testing.T, start func(h http.Handler) *server) {
		arrived := make(chan seen, 1)
		b := start(curfewhttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			arrived <- look(r.Context())
			time.Sleep(100 * ms) // until after a's deadline
			w.WriteHeader(http.StatusNoContent)
		}), curfewhttp.Config{Max: time.Minute}))
		client := &http.Client{Transport: &curfewhttp.Transport{Base: b.Client().Transport}}
		status, values := make(chan int, 1), make(chan any, 1)
		inner := curfewhttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := budget.Detached(r.Context(), 10*time.Second)
			go func() {
				defer cancel()
				values <- ctx.Value(tenant{})
				resp, err := client.Do(b.request(t, ctx))
				if !assert.NoError(t, err) {
					status <- 0
					return
				}
				resp.Body.Close()
				assert.NoError(t, ctx.Err(), "its own bound is far")
				status <- resp.StatusCode
			}()
			<-r.Context().Done()
		}), curfewhttp.Config{Max: 50 * ms})
		a := start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			inner.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), tenant{}, "acme")))
		}))
		resp, _ := a.get(t)
		assert.Equal(t, http.StatusGatewayTimeout, resp.StatusCode)
		assert.Equal(t, "acme", within(t, values, "the values of the request"))
		got := within(t, arrived, "the detached call")
		assert.Less(t, got.left, 10*time.Second)
		assert.Greater(t, got.left, 5*time.Second)
		assert.Equal(t, http.StatusNoContent, within(t, status, "the end of the detached call"))
	})
}

func TestAReserveIsKeptBackFromTheHandler(t *testing.T) {
	c := curfewhttp.Config{Max: time.Minute, Reserve: 10 * time.Second}
	for left, want := range map[string]time.Duration{"": 50 * time.Second, "30000": 20 * time.Second, "600000": 50 * time.Second} {
		var headers []string
		if left != "" {
			headers = []string{curfewhttp.Header, left}
		}
		_, got := with(t, c, headers...)
		require.NotNil(t, got, left)
		assert.InDelta(t, want.Seconds(), got.left.Seconds(), 2, left)
	}
	w, got := with(t, c, curfewhttp.Header, "9000")
	assert.Nil(t, got, "less than the reserve is left")
	assert.Equal(t, http.StatusServiceUnavailable, w.Code)
}

func TestRetryAfterIsSaidOnlyForTooLittleTimeAndOnlyWhenAskedFor(t *testing.T) {
	useful := curfewhttp.Config{Max: time.Minute, Useful: 30 * time.Second}
	w, _ := with(t, useful, curfewhttp.Header, "1000")
	assert.Equal(t, http.StatusServiceUnavailable, w.Code)
	assert.Empty(t, w.Header().Get("Retry-After"))
	for d, want := range map[time.Duration]string{time.Nanosecond: "1", time.Second: "1", 1001 * ms: "2"} {
		useful.RetryAfter = d
		w, _ = with(t, useful, curfewhttp.Header, "1000")
		assert.Equal(t, http.StatusServiceUnavailable, w.Code)
		assert.Equal(t, want, w.Header().Get("Retry-After"))
		w, _ = with(t, useful, curfewhttp.Header, "0")
		assert.Equal(t, http.StatusServiceUnavailable, w.Code)
		assert.Empty(t, w.Header().Get("Retry-After"), "who has no time has none later")
		w, _ = with(t, useful, curfewhttp.Header, "soon")
		assert.Equal(t, http.StatusBadRequest, w.Code)
		assert.Empty(t, w.Header().Get("Retry-After"))
	}
}

func TestHurriedIsToldEachTimeTheShareCrosses(t *testing.T) {
	var mu sync.Mutex
	var told []float64
	c := curfewhttp.Config{HurriedShare: 0.25, Hurried: func(share float64) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, share)
	}}
	h := curfewhttp.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), c)
	thousand := func(short int) {
		for i := range 1000 {
			left := "50" // which is not less than 50 ms
			if i < short {
				left = strconv.Itoa(1 + i%49)
			}
			askFor(h, t.Context(), left)
		}
	}
	for _, short := range []int{0, 249, 250, 1000, 300, 100, 0} {
		thousand(short)
	}
	assert.Equal(t, []float64{0.25, 0.1}, told)
	for range 1000 {
		h.ServeHTTP(&nobody{make(http.Header)}, httpRequest) // says nothing about time
	}
	assert.Len(t, told, 2)
}

// What a route takes is learned before anything is refused for it.
func TestTheUsefulMinimumIsLearnedInEachMode(t *testing.T) {
	for _, mode := range []curfewhttp.Mode{curfewhttp.Observe, curfewhttp.Warn, curfewhttp.Enforce} {
		synctest.Test(t, func(t *testing.T) {
			refused := 0
			h := curfewhttp.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(100 * ms) }), curfewhttp.Config{
				Max: time.Minute, Mode: mode, Observed: latency.New(latency.Config{}),
				Refused: func(_ *http.Request, why error) {
					refused++
					assert.Equal(t, budget.LocalBudgetRejected, budget.KindOf(why), mode)
				},
			})
			for range 300 {
				askFor(h, t.Context(), "1000")
			}
			assert.Zero(t, refused, mode)
			askFor(h, t.Context(), "50")
			assert.Equal(t, 1, refused, mode)
		})
	}
}

// The caller learns whether it was its own budget that ran out, or less.
func TestAResultSaysWhoseLimitItWas(t *testing.T) {
	protocols(t, func(t *testing.T, start func(http.Handler) *server) {
		for _, c := range []struct {
			max   time.Duration
			given string
			own   bool
			kind  budget.Kind
		}{
			{30 * ms, "60000", true, budget.DependencyTimeout},
			{time.Minute, "30", false, budget.DeadlineExceeded},
		} {
			s := start(curfewhttp.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }),
				curfewhttp.Config{Max: c.max, Grace: time.Minute}))
			resp, err := s.Client().Do(s.request(t, t.Context(), c.given))
			require.NoError(t, err)
			result, ok := curfewhttp.ResultOf(resp.Header)
			assert.True(t, ok)
			assert.Equal(t, curfewhttp.Result{Kind: budget.DeadlineExceeded, OwnLimit: c.own}, result)
			assert.Equal(t, c.kind, budget.KindOf(curfewhttp.CheckResponse(resp)))
		}
	})
}

// What h answers by itself is told as well: a failure is none of the budget's.
func TestAResultTellsAFailureFromAnAnswer(t *testing.T) {
	protocols(t, func(t *testing.T, start func(http.Handler) *server) {
		for status, kind := range map[int]budget.Kind{200: budget.None, 404: budget.None, 500: budget.Failed, 504: budget.Failed} {
			s := start(curfewhttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }), curfewhttp.Config{}))
			resp, _ := s.get(t, "1000")
			result, ok := curfewhttp.ResultOf(resp.Header)
			assert.True(t, ok)
			assert.Equal(t, curfewhttp.Result{Kind: kind}, result, status)
		}
	})
}

// Before it is enforced a deadline ends contexts at most, and no answer is taken from h.
func TestALateAnswerGoesOutUnlessEnforcing(t *testing.T) {
	for _, mode := range []curfewhttp.Mode{curfewhttp.Warn, curfewhttp.Observe} {
		protocols(t, func(t *testing.T, start func(http.Handler) *server) {
			var counts meter.Memory
			returned := make(chan struct{}, 1)
			inner := curfewhttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				late, stop := context.WithTimeout(context.Background(), 60*ms)
				defer stop()
				<-late.Done()
				assert.Equal(t, mode == curfewhttp.Warn, r.Context().Err() != nil, mode)
				_, err := io.WriteString(w, "mine")
				assert.NoError(t, err)
			}), curfewhttp.Config{Max: 30 * ms, Grace: ms, Mode: mode, Recorder: &counts})
			s := start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				inner.ServeHTTP(w, r)
				returned <- struct{}{}
			}))
			resp, body := s.get(t)
			assert.Equal(t, http.StatusOK, resp.StatusCode)
			assert.Equal(t, "mine", body)
			within(t, returned, "the handler")
			assert.EqualValues(t, 1, counts.Count(meter.Outcome, meter.Label{Key: "outcome", Value: "late"}))
			assert.EqualValues(t, 1, counts.Count(meter.Wasted))
			assert.Zero(t, counts.Count(meter.Straggler))
		})
	}
}
