package curfewhttp_test

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewhttp "github.com/curfew-go/curfew/adapters/http"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/budget/meter"
	"github.com/curfew-go/curfew/retrybudget"
)

// The cases of a client that other files show to the nanosecond, with a base that is
// made up, over connections.

// atOnce is a wait of a nanosecond.
var atOnce = retrybudget.Backoff{Base: 1, Max: 1, Jitter: retrybudget.NoJitter}

// An asked is what a server has been asked.
type asked struct {
	mu       sync.Mutex
	headers  []http.Header
	bodies   []string
	statuses []int // of the answers to come, the last one for all others; 0 cuts
}

func (a *asked) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	a.mu.Lock()
	status := a.statuses[min(len(a.headers), len(a.statuses)-1)]
	a.headers, a.bodies = append(a.headers, r.Header.Clone()), append(a.bodies, string(body))
	a.mu.Unlock()
	if status == 0 {
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(status)
}

func (a *asked) values(name string) (all []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, h := range a.headers {
		all = append(all, h.Get(name))
	}
	return all
}

func (a *asked) count() int { return len(a.values("")) }

func TestCase1_NothingIsSentOverAConnectionWithLessThanAMillisecond(t *testing.T) {
	protocols(t, func(t *testing.T, start func(http.Handler) *server) {
		peer := &asked{statuses: []int{200}}
		s := start(peer)
		s.get(t) // so that there is a connection
		tr := &curfewhttp.Transport{Base: s.Client().Transport, Slush: noSlush}
		for range 20 {
			_, err := curfewhttp.Do(t.Context(), budget.Within(700*time.Microsecond), &http.Client{Transport: tr}, s.request(t, t.Context()))
			assert.ErrorIs(t, err, context.DeadlineExceeded)
		}
		assert.Equal(t, 1, peer.count())
	})
}

func TestCase7And19_AClientGivesUpAtItsDeadlineWhateverThePeerDoes(t *testing.T) {
	protocols(t, func(t *testing.T, start func(http.Handler) *server) {
		hold := make(chan struct{})
		s := start(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-hold }))
		client := &http.Client{Transport: &curfewhttp.Transport{Base: s.Client().Transport}}
		began := time.Now()
		_, err := curfewhttp.Do(t.Context(), budget.Within(100*ms).Named("open stream"), client, s.request(t, t.Context()))
		assert.GreaterOrEqual(t, time.Since(began), 100*ms)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorContains(t, err, "open stream 100ms")
		close(hold) // not before: the peer does not look at its context
	})
}

// outside is the key of net/http's own context.
type outside struct{}

// The client resets the stream, or closes the connection, when the server's time is over
// too, and before its handler has said anything.
func TestCase9_AResetAfterTheDeadlineIsNotTheClientsDoing(t *testing.T) {
	for name, stream := range map[string]*curfewhttp.Stream{"": nil, "first byte": {Lifetime: time.Hour}} {
		for _, says := range []bool{false, true} {
			protocols(t, func(t *testing.T, start func(http.Handler) *server) {
				var counts meter.Memory
				expired, over := make(chan struct{}), make(chan struct{})
				inner := curfewhttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					<-r.Context().Done()
					close(expired)
					<-r.Context().Value(outside{}).(context.Context).Done() // the client has left
					if says {
						curfewhttp.Error(w, r, context.Canceled)
					}
				}), curfewhttp.Config{Max: 50 * ms, Grace: time.Minute, Recorder: &counts, Stream: stream})
				s := start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					defer close(over)
					inner.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), outside{}, r.Context())))
				}))
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				go func() { <-expired; leave() }()
				_, err := s.Client().Do(s.request(t, ctx))
				require.ErrorIs(t, err, context.Canceled)
				within(t, over, "the handler")
				assert.EqualValues(t, 1, counts.Count(meter.Outcome, meter.Label{Key: "outcome", Value: "deadline_exceeded"}), "%s %v", name, &counts)
				assert.Zero(t, counts.Count(meter.Cancelled, meter.Label{Key: "kind", Value: "client_cancelled"}))
			})
		}
	}
}

func TestCase13And14_EachAttemptOverAConnectionSaysWhatIsLeftThen(t *testing.T) {
	const total, each = 500 * ms, 200 * ms
	protocols(t, func(t *testing.T, start func(http.Handler) *server) {
		var mu sync.Mutex
		var said, numbers []string
		s := start(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			mu.Lock()
			said, numbers = append(said, r.Header.Get(curfewhttp.Header)), append(numbers, r.Header.Get(curfewhttp.AttemptHeader))
			mu.Unlock()
			<-r.Context().Done()
		}))
		tr := retrying(s.Client().Transport)
		tr.Slush = noSlush
		tr.Policy = retrybudget.Policy{PerAttempt: each, Backoff: atOnce}
		_, err := curfewhttp.Do(t.Context(), budget.Within(total), &http.Client{Transport: tr}, s.request(t, t.Context()))
		assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err))
		mu.Lock()
		defer mu.Unlock()
		require.NotEmpty(t, said)
		assert.Equal(t, []string{"", "2", "3"}[:len(numbers)], numbers)
		for i, value := range said { // attempt i begins after i*each, on any machine
			left, err := strconv.Atoi(value)
			require.NoError(t, err)
			assert.LessOrEqual(t, time.Duration(left)*ms, min(each, total-time.Duration(i)*each), "attempt %d of %q", i+1, said)
		}
	})
}

func TestCase74_WhatMayHaveRunIsNotSentAgainOverAConnection(t *testing.T) {
	protocols(t, func(t *testing.T, start func(http.Handler) *server) {
		for _, status := range []int{0, 502, 503, 504} {
			for method, want := range map[string]int{http.MethodPost: 1, http.MethodPut: 3} {
				peer := &asked{statuses: []int{status}}
				s := start(peer)
				tr := retrying(s.Client().Transport)
				tr.Policy.Backoff = atOnce
				resp, err := tr.RoundTrip(ask(t, inMinute(t), method, s.URL, "order"))
				if status == 0 {
					assert.Error(t, err)
				} else if assert.NoError(t, err) {
					resp.Body.Close()
				}
				assert.Equal(t, want, peer.count(), "%s answered with %d", method, status)
			}
		}
	})
}

func TestRetryHedgeCase41_APostOverAConnectionIsRepeatedOnlyWhenThatIsSafe(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		key    string
		want   int
	}{
		"may have run":              {http.StatusGatewayTimeout, "", 1},
		"may have run, and a key":   {http.StatusGatewayTimeout, "8e03978e", 3},
		"one too many":              {http.StatusTooManyRequests, "", 3},
		"did not arrive":            {http.StatusRequestTimeout, "", 3},
		"one too many, and a key":   {http.StatusTooManyRequests, "8e03978e", 3},
		"an answer, and a key":      {http.StatusConflict, "8e03978e", 1},
		"not to be had, with a key": {http.StatusInternalServerError, "8e03978e", 1},
	} {
		t.Run(name, func(t *testing.T) {
			protocols(t, func(t *testing.T, start func(http.Handler) *server) {
				peer := &asked{statuses: []int{c.status}}
				s := start(peer)
				r := ask(t, inMinute(t), http.MethodPost, s.URL, "order")
				if c.key != "" {
					r.Header.Set("Idempotency-Key", c.key)
				}
				tr := retrying(s.Client().Transport)
				tr.Policy.Backoff = atOnce
				resp, err := tr.RoundTrip(r)
				require.NoError(t, err)
				resp.Body.Close()
				assert.Equal(t, c.status, resp.StatusCode)
				require.Equal(t, c.want, peer.count())
				for i, key := range peer.values("Idempotency-Key") {
					assert.Equal(t, c.key, key, "one for all attempts, and never made up")
					assert.Equal(t, "order", peer.bodies[i])
				}
			})
		})
	}
}

// Over HTTP/2 the end of the client is seen whatever is unread.
func TestCase27_OverHTTP2TheEndOfAClientIsNoticedBehindAnyBody(t *testing.T) {
	began, ended := make(chan struct{}), make(chan error, 1)
	s := serve(t, curfewhttp.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(began)
		<-r.Context().Done()
		ended <- context.Cause(r.Context())
	}), curfewhttp.Config{Max: time.Hour}), true)
	ctx, leave := context.WithCancel(t.Context())
	go func() { <-began; leave() }()
	body, more := io.Pipe()
	defer more.Close()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL, body)
	require.NoError(t, err)
	_, err = s.Client().Do(r)
	require.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, budget.ClientCancelled, budget.KindOf(within(t, ended, "the handler")))
}

func TestCase28_OverHTTP2TheDeadlineOfARequestDoesNotReachTheNextOne(t *testing.T) {
	var connections atomic.Int64
	peers := sync.Map{}
	s := serve(t, curfewhttp.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if _, known := peers.LoadOrStore(r.RemoteAddr, true); !known {
			connections.Add(1)
		}
		if r.Header.Get(curfewhttp.Header) != "" {
			<-r.Context().Done()
			return
		}
		assert.NoError(t, r.Context().Err())
	}), curfewhttp.Config{Max: time.Minute, Grace: time.Minute}), true)
	for range 3 {
		resp, _ := s.get(t, "50")
		assert.Equal(t, http.StatusGatewayTimeout, resp.StatusCode)
		resp, _ = s.get(t)
		assert.Equal(t, http.StatusOK, resp.StatusCode)
	}
	assert.EqualValues(t, 1, connections.Load(), "all over one")
}
