package curfewhttp_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewhttp "github.com/curfew-go/curfew/adapters/http"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/budget/meter"
	"github.com/curfew-go/curfew/internal/ctxnode"
	"github.com/curfew-go/curfew/internal/stress"
	"github.com/curfew-go/curfew/retrybudget"
	"github.com/curfew-go/curfew/scope"
)

func hedging(base http.RoundTripper, after time.Duration) *curfewhttp.Transport {
	tr := retrying(base)
	tr.Hedge = func() time.Duration { return after }
	return tr
}

// plainAndZipped runs f with a handler that writes text, as it is and with gzip.
func plainAndZipped(t *testing.T, text []byte, f func(t *testing.T, write func(w http.ResponseWriter))) {
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, err := z.Write(text)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	t.Run("plain", func(t *testing.T) { f(t, func(w http.ResponseWriter) { w.Write(text) }) })
	t.Run("gzip", func(t *testing.T) {
		f(t, func(w http.ResponseWriter) {
			w.Header().Set("Content-Encoding", "gzip")
			w.Write(zipped.Bytes())
		})
	})
}

// noise does not shrink to nothing under gzip.
func noise(n int) []byte {
	text := make([]byte, n)
	x := uint32(1)
	for i := range text {
		x = x*1664525 + 1013904223
		text[i] = byte(x >> 24)
	}
	return text
}

func TestRetryHedgeCase29_TheWinnersBodyIsReadToItsEnd(t *testing.T) {
	text := noise(512 << 10)
	protocols(t, func(t *testing.T, start func(http.Handler) *server) {
		plainAndZipped(t, text, func(t *testing.T, write func(http.ResponseWriter)) {
			arrived, lost := make(chan struct{}, 100), make(chan struct{}, 100)
			s := start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if _, hedge := curfewhttp.AttemptOf(r.Header); !hedge {
					arrived <- struct{}{}
					<-r.Context().Done()
					lost <- struct{}{}
					return
				}
				<-arrived // the other one may still be dialling
				write(w)
			}))
			var m meter.Memory
			tr := hedging(s.Client().Transport, ms)
			tr.Meter = &m
			client := &http.Client{Transport: tr}
			const calls = 5
			for range calls {
				for name, in := range map[string]func(func(context.Context)){
					"alone": func(f func(context.Context)) { f(inMinute(t)) },
					"in a scope": func(f func(context.Context)) {
						assert.NoError(t, scope.Run(context.Background(), "order", budget.Within(time.Minute), func(ctx context.Context, s *scope.Scope) error {
							f(ctx)
							return nil
						}))
					},
				} {
					in(func(ctx context.Context) {
						resp, err := client.Do(s.request(t, ctx))
						if !assert.NoError(t, err, name) {
							return
						}
						got, err := io.ReadAll(resp.Body)
						assert.NoError(t, err, name)
						assert.NoError(t, resp.Body.Close())
						assert.True(t, bytes.Equal(text, got), "%s: %d of %d bytes", name, len(got), len(text))
						within(t, lost, "the loser ends at once")
					})
				}
			}
			assert.EqualValues(t, 2*calls, m.Count(meter.HedgeSent))
			assert.EqualValues(t, 2*calls, m.Count(meter.HedgeWon))
			assert.Zero(t, m.Count(meter.RetryAllowed))
		})
	})
}

func TestRetryHedgeCase37_EachAttemptHasABodyOfItsOwn(t *testing.T) {
	protocols(t, func(t *testing.T, start func(http.Handler) *server) {
		order := strings.Repeat("order ", 20_000)
		var mu sync.Mutex
		var said []string
		both := make(chan struct{})
		s := start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			text, err := io.ReadAll(r.Body)
			assert.NoError(t, err)
			mu.Lock()
			said = append(said, string(text))
			if len(said) == 2 {
				close(both)
			}
			mu.Unlock()
			<-both // so both are read in full
		}))
		client := &http.Client{Transport: hedging(s.Client().Transport, 0)}
		r := ask(t, inMinute(t), "POST", s.URL, order)
		r.Header.Set("Idempotency-Key", "8e03978e")
		resp, err := client.Do(r)
		require.NoError(t, err)
		resp.Body.Close()
		require.Len(t, said, 2)
		assert.True(t, said[0] == order && said[1] == order)
	})
}

func TestRetryHedgeCase37_WhatCannotBeSentTwiceIsNotHedged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, r := range map[string]*http.Request{
			"not idempotent": ask(t, inMinute(t), "POST", "http://peer/", "order"),
			"no GetBody": func() *http.Request {
				r := ask(t, inMinute(t), "PUT", "http://peer/", "")
				r.Body = newBody()
				return r
			}(),
			"no deadline": ask(t, t.Context(), "GET", "http://peer/", ""),
		} {
			base := &script{answer: func(int, *http.Request) (*http.Response, error) {
				time.Sleep(time.Second)
				return replying(200), nil
			}}
			resp, err := hedging(base, ms).RoundTrip(r)
			require.NoError(t, err)
			resp.Body.Close()
			assert.Equal(t, 1, base.attempts(), name)
		}
	})
}

// An answer beats a failure, whoever has it; both fail, and a response is what comes
// back; a failure does not bring the hedge forward.
func TestHowAHedgedRequestEnds(t *testing.T) {
	boom := errors.New("boom")
	type end struct {
		after  time.Duration
		status int // 0: boom
	}
	for _, tt := range []struct {
		name     string
		ends     []end
		attempts int
		status   int
		took     time.Duration
	}{
		{"the first is fast", []end{{5 * ms, 200}}, 1, 200, 5 * ms},
		{"the hedge wins", []end{{90 * ms, 200}, {5 * ms, 200}}, 2, 200, 15 * ms},
		{"the first wins after all", []end{{20 * ms, 200}, {90 * ms, 200}}, 2, 200, 20 * ms},
		{"the hedge fails, the first is well", []end{{60 * ms, 200}, {ms, 503}}, 2, 200, 60 * ms},
		{"the hedge breaks, the first is well", []end{{60 * ms, 200}, {ms, 0}}, 2, 200, 60 * ms},
		{"the first fails, the hedge is well", []end{{20 * ms, 503}, {50 * ms, 404}}, 2, 404, 60 * ms},
		{"both fail", []end{{20 * ms, 0}, {50 * ms, 500}}, 2, 500, 60 * ms},
		{"the first fails at once", []end{{5 * ms, 500}, {ms, 200}}, 1, 500, 5 * ms},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				base := &script{answer: func(n int, r *http.Request) (*http.Response, error) {
					e := tt.ends[n-1]
					select {
					case <-time.After(e.after):
					case <-r.Context().Done():
						return nil, context.Cause(r.Context())
					}
					if e.status == 0 {
						return nil, boom
					}
					return replying(e.status), nil
				}}
				tr := hedging(base, 10*ms)
				tr.Policy.Attempts = 1
				ctx := inMinute(t)
				resp, err := tr.RoundTrip(ask(t, ctx, "GET", "http://peer/", ""))
				require.NoError(t, err)
				assert.Equal(t, tt.took, time.Since(begin))
				assert.Equal(t, tt.status, resp.StatusCode)
				text, err := io.ReadAll(resp.Body)
				assert.NoError(t, err)
				assert.Equal(t, "body", string(text))
				resp.Body.Close()
				assert.Equal(t, tt.attempts, base.attempts())
				if tt.attempts == 2 {
					assert.Equal(t, []string{"", "2;hedge"}, base.headers(curfewhttp.AttemptHeader))
				}
				synctest.Wait()
				assert.Empty(t, ctxnode.Find(ctx).Node().Children(), "nothing stays in the context")
			})
		})
	}
}

// A response that comes behind the winner's is not left open: its connection would not be
// used again.
func TestTheBodyOfALoserIsClosed(t *testing.T) {
	for name, late := range map[string]struct{ status int }{"an answer": {200}, "a failure": {503}} {
		synctest.Test(t, func(t *testing.T) {
			var closed atomic.Int64
			base := &script{answer: func(n int, _ *http.Request) (*http.Response, error) {
				resp := replying(200)
				if n == 1 { // whose base had its head already when it was cancelled
					time.Sleep(50 * ms)
					resp = replying(late.status)
					resp.Body = closing{resp.Body, func() { closed.Add(1) }}
				}
				return resp, nil
			}}
			resp, err := hedging(base, 10*ms).RoundTrip(ask(t, inMinute(t), "GET", "http://peer/", ""))
			require.NoError(t, err)
			resp.Body.Close()
			time.Sleep(time.Second)
			synctest.Wait()
			assert.Equal(t, 2, base.attempts())
			assert.Positive(t, closed.Load(), name)
		})
	}
}

func TestARefusedHedgeCostsTheCallNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := &script{answer: func(int, *http.Request) (*http.Response, error) {
			time.Sleep(200 * ms)
			return replying(200), nil
		}}
		none := retrybudget.New("peer", retrybudget.Config{Ratio: -1, PerSecond: -1, Burst: -1})
		var m meter.Memory
		tr := &curfewhttp.Transport{
			Base: base, Budget: func(string) *retrybudget.Budget { return none }, Hedge: func() time.Duration { return ms }, Meter: &m,
		}
		resp, err := tr.RoundTrip(ask(t, inMinute(t), "GET", "http://peer/", ""))
		require.NoError(t, err)
		resp.Body.Close()
		assert.Equal(t, 1, base.attempts())
		assert.EqualValues(t, 1, m.Count(meter.HedgeDenied, meter.Label{Key: "target", Value: "peer"}))
		assert.Zero(t, m.Count(meter.HedgeSent))
	})
}

func TestTheDeadlineEndsAHedgedRequestWithItsPhase(t *testing.T) {
	block := make(chan struct{})
	s := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-block }), false)
	defer close(block)
	tr := hedging(s.Client().Transport, ms)
	_ = scope.Run(context.Background(), "order", budget.Within(100*ms), func(ctx context.Context, _ *scope.Scope) error {
		_, err := tr.RoundTrip(s.request(t, ctx))
		assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err))
		assert.ErrorContains(t, err, "phase first_byte, limit within 100ms")
		return nil
	})
}

// Values and deadline of this call reach each attempt, and a context that lives as
// long as the service does not grow.
func TestRetryHedgeCase40_AttemptsHaveTheCallsContextAndLeaveNothingInIt(t *testing.T) {
	type key struct{}
	synctest.Test(t, func(t *testing.T) {
		service := enter(t, t.Context(), budget.Within(1000*time.Hour))
		node := ctxnode.Find(service).Node()
		var seen []any
		base := &script{}
		base.answer = func(n int, r *http.Request) (*http.Response, error) {
			seen = append(seen, r.Context().Value(key{}))
			if deadline, ok := r.Context().Deadline(); !ok || time.Until(deadline) > 100*ms {
				t.Error("not the deadline of the attempt")
			}
			base.sent, base.said = nil, nil
			if len(seen)%2 == 1 {
				return replying(503), nil
			}
			return replying(200), nil
		}
		tr := hedging(base, time.Hour)
		tr.Policy.PerAttempt = 100 * ms
		for i := range stress.Rounds(10_000) {
			ctx, cancel, err := budget.Enter(context.WithValue(service, key{}, i), budget.Within(time.Minute))
			require.NoError(t, err)
			seen = seen[:0]
			resp, err := tr.RoundTrip(ask(t, ctx, "GET", "http://peer/", ""))
			require.NoError(t, err)
			resp.Body.Close()
			if len(seen) != 2 || seen[0] != i || seen[1] != i || len(ctxnode.Find(ctx).Node().Children()) > 0 {
				t.Fatalf("call %d: attempts saw %v", i, seen)
			}
			cancel()
		}
		assert.Empty(t, node.Children())
	})
}
