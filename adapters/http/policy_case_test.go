package curfewhttp_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewhttp "github.com/curfew-go/curfew/adapters/http"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/budget/latency"
	"github.com/curfew-go/curfew/budget/meter"
	"github.com/curfew-go/curfew/budget/wire"
)

// with asks h with headers, and returns the answer and what h saw; nil when it did not
// run.
func with(t *testing.T, c curfewhttp.Config, headers ...string) (*httptest.ResponseRecorder, *seen) {
	t.Helper()
	var got *seen
	h := curfewhttp.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		s := look(r.Context())
		got = &s
	}), c)
	r := httptest.NewRequest(http.MethodGet, "/order?token=secret", nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w, got
}

// over asks h with headers over a connection, and returns the answer and what h saw; nil
// when it did not run.
func over(t *testing.T, start func(http.Handler) *server, c curfewhttp.Config, headers ...string) (answer *httptest.ResponseRecorder, got *seen) {
	t.Helper()
	saw := make(chan seen, 1)
	s := start(curfewhttp.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { saw <- look(r.Context()) }), c))
	r := s.request(t, t.Context())
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	resp, err := s.Client().Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	answer = httptest.NewRecorder()
	maps.Copy(answer.Header(), resp.Header)
	answer.WriteHeader(resp.StatusCode)
	_, err = io.Copy(answer, resp.Body)
	require.NoError(t, err)
	select {
	case h := <-saw:
		got = &h
	default:
	}
	return answer, got
}

func TestCase02_ANegativeTimeIsMalformedAndNeverReachesAHandler(t *testing.T) {
	protocols(t, func(t *testing.T, start func(http.Handler) *server) {
		w, got := over(t, start, curfewhttp.Config{Forms: []wire.Form{wire.YARPC()}}, "Context-TTL-MS", "-3")
		assert.Equal(t, http.StatusBadRequest, w.Code)
		assert.Nil(t, got)
	})
}

func TestCase04_NoTimeIsExpiredAndTooManyDigitsAreMalformed(t *testing.T) {
	protocols(t, func(t *testing.T, start func(http.Handler) *server) {
		w, got := over(t, start, curfewhttp.Config{}, "Grpc-Timeout", "0S")
		assert.Equal(t, http.StatusServiceUnavailable, w.Code)
		assert.Nil(t, got)
		w, got = over(t, start, curfewhttp.Config{}, "Grpc-Timeout", "12345678901234567H")
		assert.Equal(t, http.StatusBadRequest, w.Code)
		assert.Nil(t, got)
	})
}

func TestCase05_NoNanosecondsAreExpired(t *testing.T) {
	protocols(t, func(t *testing.T, start func(http.Handler) *server) {
		w, got := over(t, start, curfewhttp.Config{}, "Grpc-Timeout", "0n")
		assert.Equal(t, http.StatusServiceUnavailable, w.Code)
		assert.Nil(t, got)
	})
}

func TestCase06_HoursAreCutToTheRouteMaximum(t *testing.T) {
	protocols(t, func(t *testing.T, start func(http.Handler) *server) {
		_, got := over(t, start, curfewhttp.Config{Max: 3 * time.Second}, "Grpc-Timeout", "8H")
		assert.LessOrEqual(t, got.left, 3*time.Second)
		assert.Equal(t, "route maximum 3s", got.limit)
	})
}

func TestCase10_ABudgetIsMeasuredFromEachRequest(t *testing.T) {
	protocols(t, func(t *testing.T, start func(http.Handler) *server) {
		deadline := make(chan time.Time, 1)
		s := start(curfewhttp.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			d, _ := r.Context().Deadline()
			deadline <- d
		}), curfewhttp.Config{Max: time.Minute}))
		for range 3 {
			sent := time.Now()
			s.get(t)
			d := within(t, deadline, "the handler")
			assert.False(t, d.Before(sent.Add(time.Minute)), "measured from before the request was sent")
			assert.False(t, d.After(time.Now().Add(time.Minute)))
		}
	})
}

// What may be refused as too short does not spend on requests that are well, and what
// has expired is refused whatever may be.
func TestCase16_TheShareThatMayBeRefusedIsNotSpentOnTheHealthy(t *testing.T) {
	protocols(t, func(t *testing.T, start func(http.Handler) *server) {
		var refused, ran atomic.Int64
		s := start(curfewhttp.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { ran.Add(1) }), curfewhttp.Config{
			Max: time.Hour, Useful: 10 * time.Minute, RefuseAtMost: 0.2,
			Refused: func(*http.Request, error) { refused.Add(1) },
		}))
		send := func(left string, n int) {
			for range n {
				s.get(t, left)
			}
		}
		send("3000000", 500)
		assert.Zero(t, refused.Load())
		send("0", 1)
		assert.EqualValues(t, 1, refused.Load(), "an expired one")
		send("300000", 500)
		assert.InDelta(t, 100+10, refused.Load(), 12, "a fifth of those that are too short, and ten more")
		before := refused.Load()
		send("0", 50)
		assert.Equal(t, before+50, refused.Load(), "every expired one")
		assert.Equal(t, 1051-refused.Load(), ran.Load())
	})
}

func TestCase17_AnExpiredRequestIsNotHandledWhenEnforcing(t *testing.T) {
	protocols(t, func(t *testing.T, start func(http.Handler) *server) {
		for mode, runs := range map[curfewhttp.Mode]bool{curfewhttp.Enforce: false, curfewhttp.Warn: true, curfewhttp.Observe: true} {
			t.Run(mode.String(), func(t *testing.T) {
				var counts meter.Memory
				w, got := over(t, start, curfewhttp.Config{Mode: mode, Max: time.Minute, Recorder: &counts}, curfewhttp.Header, "0")
				assert.Equal(t, runs, got != nil)
				assert.Equal(t, runs, w.Code == http.StatusOK)
				assert.EqualValues(t, 1, counts.Count(meter.Refused,
					meter.Label{Key: "reason", Value: "expired_on_arrival"}, meter.Label{Key: "mode", Value: mode.String()}), "counted all the same")
			})
		}
	})
}

func TestCase21_TheErrorAndTheLogNameEveryLimit(t *testing.T) {
	protocols(t, func(t *testing.T, start func(http.Handler) *server) {
		var log bytes.Buffer
		w, _ := over(t, start, curfewhttp.Config{Max: time.Minute, Useful: 40 * time.Second, Log: slog.New(slog.NewTextHandler(&log, nil)), Route: "/order"},
			curfewhttp.Header, "30000", "Grpc-Timeout", "35S")
		const limits = "peer header X-Request-Deadline-Ms 30s < route maximum 1m0s"
		assert.Contains(t, w.Body.String(), limits)
		assert.Contains(t, w.Body.String(), `"needed_ms":40000`)
		assert.Contains(t, log.String(), limits)
		assert.Contains(t, log.String(), "route=/order")
	})
}

func TestCase22_TheCauseTellsWhoEndedARequest(t *testing.T) {
	protocols(t, func(t *testing.T, start func(http.Handler) *server) {
		began, ended := make(chan struct{}, 1), make(chan error, 1)
		s := start(curfewhttp.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			began <- struct{}{}
			<-r.Context().Done()
			ended <- context.Cause(r.Context())
		}), curfewhttp.Config{Max: time.Hour, Grace: time.Minute}))
		for name, test := range map[string]struct {
			kind budget.Kind
			left []string
		}{
			"the client":   {budget.ClientCancelled, nil},
			"the deadline": {budget.DeadlineExceeded, []string{"50"}},
		} {
			ctx, leave := context.WithCancel(t.Context())
			answered := make(chan struct{})
			r := s.request(t, ctx, test.left...)
			go func() {
				defer close(answered)
				if resp, err := s.Client().Do(r); err == nil {
					resp.Body.Close()
				}
			}()
			within(t, began, "the handler")
			if test.kind == budget.ClientCancelled {
				leave()
			}
			assert.Equal(t, test.kind, budget.KindOf(within(t, ended, "the end")), name)
			<-answered
			leave()
		}
	})
}

func TestCase24And25_EveryFormIsRead(t *testing.T) {
	protocols(t, func(t *testing.T, start func(http.Handler) *server) {
		now := time.Now()
		for _, form := range []wire.Form{
			wire.GRPC(), wire.YARPC(), wire.Millis("X-Left"), wire.Millis("Connect-Timeout-Ms"),
			wire.EpochMillis("X-Until-Ms", time.Minute), wire.EpochNanos("X-Until-Ns", time.Minute),
		} {
			t.Run(form.Header(), func(t *testing.T) {
				value, ok := form.Format(20*time.Second, now)
				assert.True(t, ok)
				_, got := over(t, start, curfewhttp.Config{Max: time.Minute, Forms: []wire.Form{form}}, form.Header(), value)
				assert.LessOrEqual(t, got.left, 20*time.Second)
				assert.Greater(t, got.left, 10*time.Second)
				assert.Contains(t, got.limit, form.Header())
			})
		}
	})
}

func TestAnEdgeBelievesNothingAndSaysLittle(t *testing.T) {
	var inner http.Header
	hold := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inner = r.Header
		w.Header().Set(curfewhttp.ResultHeader, "ok") // of a service behind
		curfewhttp.Error(w, r, &budget.Cause{Kind: budget.DeadlineExceeded, Limit: "vault", Scope: "inner"})
	})
	h := curfewhttp.Handler(hold, curfewhttp.Config{Edge: true, ServerTiming: true})
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	for _, name := range []string{"grpc-timeout", curfewhttp.Header, "X-Envoy-Expected-Rq-Timeout-Ms"} {
		r.Header.Set(name, "garbage")
	}
	r.Header.Set("X-Else", "kept")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	assert.Equal(t, http.Header{"X-Else": {"kept"}}, inner)
	assert.Len(t, r.Header, 4, "what handlers further out see is as it was")
	assert.Equal(t, http.StatusGatewayTimeout, w.Code)
	assert.JSONEq(t, `{"title":"Gateway Timeout","status":504}`, w.Body.String())
	assert.Empty(t, w.Header().Get(curfewhttp.ResultHeader))
	assert.Empty(t, w.Header().Get("Server-Timing"))
}

func TestTheTimeInAProxysQueueIsCharged(t *testing.T) {
	at := "t=" + strconv.FormatInt(time.Now().Add(-5*time.Second).UnixMilli(), 10)
	_, got := with(t, curfewhttp.Config{Max: time.Minute, RequestStart: "X-Request-Start"}, "X-Request-Start", at, curfewhttp.Header, "20000")
	assert.InDelta(t, 15, got.left.Seconds(), 2)
	_, got = with(t, curfewhttp.Config{Max: time.Minute}, "X-Request-Start", at, curfewhttp.Header, "20000")
	assert.InDelta(t, 20, got.left.Seconds(), 2, "nobody said that there is a proxy")
	_, got = with(t, curfewhttp.Config{Max: time.Minute, Edge: true, RequestStart: "X-Request-Start"}, "X-Request-Start", at)
	assert.InDelta(t, 55, got.left.Seconds(), 2)
}

func TestTheUsefulMinimumComesFromWhatTheRouteTakes(t *testing.T) {
	seen := latency.New(latency.Config{})
	c := curfewhttp.Config{Max: time.Minute, Observed: seen}
	_, got := with(t, c, curfewhttp.Header, "5")
	assert.NotNil(t, got, "nothing is known yet")
	seen = latency.New(latency.Config{})
	for i := range 2000 {
		took := 100 * ms
		if i%4 == 0 { // the median does not see it
			took = time.Second
		}
		seen.Record(took, nil)
	}
	c.Observed = seen
	w, got := with(t, c, curfewhttp.Header, "50")
	assert.Nil(t, got)
	assert.Equal(t, http.StatusServiceUnavailable, w.Code)
	_, got = with(t, c, curfewhttp.Header, "500")
	assert.NotNil(t, got)
}

func TestSecretsStayOutOfAnswersLogsAndMetrics(t *testing.T) {
	var log bytes.Buffer
	var counts meter.Memory
	c := curfewhttp.Config{Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})), Recorder: &counts, ServerTiming: true}
	for _, value := range []string{"0", "1000", "soon", "\r\nX-Injected: soon", strings.Repeat("9", 1<<16)} {
		w, _ := with(t, c, curfewhttp.Header, value)
		answer := w.Body.String()
		for name, values := range w.Header() {
			answer += name + strings.Join(values, "")
		}
		assert.NotContains(t, answer, "secret", "%q", value)
		assert.Less(t, w.Body.Len(), 1000)
		assert.Empty(t, w.Header().Get("X-Injected"))
	}
	assert.NotContains(t, counts.String(), "secret")
	assert.NotContains(t, log.String(), "secret")
	assert.NotContains(t, log.String(), "\nX-Injected")
	assert.NotContains(t, log.String(), "/order")
}

func TestAThousandHeadersAreTheStrictest(t *testing.T) {
	var headers []string
	for i := range 1000 {
		headers = append(headers, curfewhttp.Header, strconv.Itoa(60_000-i))
	}
	_, got := with(t, curfewhttp.Config{Max: time.Hour}, headers...)
	assert.LessOrEqual(t, got.left, 59_001*ms)
}

// A client's reset may beat the server's timer to the same instant.
func TestCase09_AResetAtTheDeadlineIsTheDeadline(t *testing.T) {
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			var counts meter.Memory
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			time.AfterFunc(time.Second, cancel)
			h := curfewhttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				<-r.Context().Done()
				curfewhttp.Error(w, r, context.Cause(r.Context()))
			}), curfewhttp.Config{Max: time.Second, Recorder: &counts})
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
			assert.Equal(t, http.StatusGatewayTimeout, w.Code)
			assert.EqualValues(t, 1, counts.Count(meter.Outcome, meter.Label{Key: "outcome", Value: "deadline_exceeded"}))
		})
	}
}

// A handler that goes on for twice its time does not keep its client.
func TestCase07_TheClientOfADeafHandlerIsAnsweredAtTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ctx, cancel, err := budget.Enter(t.Context(), budget.Within(time.Second))
		assert.NoError(t, err)
		defer cancel()
		over := make(chan struct{})
		base := roundTrip(func(r *http.Request) (*http.Response, error) {
			go func() {
				defer close(over)
				time.Sleep(2 * time.Second)
			}()
			<-r.Context().Done() // as a transport does whose peer does not answer
			return nil, r.Context().Err()
		})
		_, err = (&curfewhttp.Transport{Base: base}).RoundTrip(httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, time.Second, time.Since(began))
		<-over
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
