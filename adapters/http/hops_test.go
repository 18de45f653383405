package curfewhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
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
	"github.com/curfew-go/curfew/budget/wire"
	"github.com/curfew-go/curfew/scope"
)

// The client's deadline arrives at the handler, minus the slush and the way: a
// callee never outlives its caller.
func TestTheClientsDeadlineArrivesMinusTheSlush(t *testing.T) {
	protocols(t, func(t *testing.T, start func(http.Handler) *server) {
		for _, slush := range []wire.Slush{{}, {Floor: 3 * time.Second, Cap: 3 * time.Second}} {
			deadline := make(chan time.Time, 1)
			s := start(curfewhttp.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				d, _ := r.Context().Deadline()
				deadline <- d
			}), curfewhttp.Config{Max: time.Hour}))
			client := &http.Client{Transport: &curfewhttp.Transport{Base: s.Client().Transport, Slush: slush}}
			ctx := enter(t, context.Background(), budget.Within(30*time.Second))
			mine, _ := ctx.Deadline()
			before := time.Now()
			resp, err := client.Do(s.request(t, ctx))
			require.NoError(t, err)
			resp.Body.Close()
			took := time.Since(before)
			// Both stand on this machine's clock, so the two can be compared.
			early := mine.Sub(<-deadline)
			kept := slush.Of(30 * time.Second)
			assert.GreaterOrEqual(t, early, kept-took-ms, "the callee would outlive the caller's slush")
			assert.LessOrEqual(t, early, kept+ms, "the way is not taken off twice")
			assert.Positive(t, early)
		}
	})
}

// Over three hops what is left shrinks each time, by the slush at least.
func TestThreeHopsShrinkEachTime(t *testing.T) {
	protocols(t, func(t *testing.T, start func(http.Handler) *server) {
		var mu sync.Mutex
		var order []string
		left := map[string]time.Duration{}
		said := map[string]time.Duration{}
		hop := func(name string, next *server) *server {
			h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				order = append(order, name)
				left[name], _ = budget.Remaining(r.Context())
				said[name], _ = wire.ParseMillis(r.Header.Get(curfewhttp.Header))
				mu.Unlock()
				err := scope.Run(r.Context(), name, budget.Inherited(), func(ctx context.Context, s *scope.Scope) error {
					s.Go("next", func(ctx context.Context) error {
						if next == nil {
							return nil
						}
						client := &http.Client{Transport: &curfewhttp.Transport{Base: next.Client().Transport}}
						resp, err := client.Do(next.request(t, ctx, r.Header.Values(curfewhttp.Header)...)) // forwards all it got
						if err != nil {
							return err
						}
						defer resp.Body.Close()
						if resp.StatusCode != 200 {
							return fmt.Errorf("%s: %s", name, resp.Status)
						}
						return nil
					})
					return nil
				})
				if err != nil {
					http.Error(w, err.Error(), budget.KindOf(err).HTTPStatus())
				}
			})
			return start(curfewhttp.Handler(h, curfewhttp.Config{Max: time.Hour}))
		}
		warehouse := hop("warehouse", nil)
		inventory := hop("inventory", warehouse)
		edge := hop("edge", inventory)
		resp, body := edge.get(t, "20000")
		require.Equal(t, 200, resp.StatusCode, body)

		assert.Equal(t, []string{"edge", "inventory", "warehouse"}, order)
		assert.Equal(t, 20*time.Second, said["edge"])
		for i := 1; i < len(order); i++ {
			above, here := order[i-1], order[i]
			assert.LessOrEqual(t, said[here], left[above]-50*ms, "%s said", here)
			assert.Greater(t, said[here], left[above]-10*time.Second, "%s said", here)
			assert.LessOrEqual(t, left[here], said[here])
		}
	})
}

// The last of several hops has too little left: it refuses before any work,
// and the one above sees why without a second try.
func TestAHopWithTooLittleLeftRefuses(t *testing.T) {
	inner := serve(t, curfewhttp.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the handler ran")
	}), curfewhttp.Config{Max: time.Hour, Useful: 10 * time.Minute}), false)
	outer := serve(t, curfewhttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		client := &http.Client{Transport: &curfewhttp.Transport{}}
		resp, err := client.Do(inner.request(t, r.Context()))
		if err != nil {
			http.Error(w, err.Error(), budget.KindOf(err).HTTPStatus())
			return
		}
		defer resp.Body.Close()
		w.WriteHeader(resp.StatusCode)
		_, _ = io.Copy(w, resp.Body)
	}), curfewhttp.Config{Max: time.Hour}), false)
	resp, body := outer.get(t, "30000")
	assert.Equal(t, 503, resp.StatusCode)
	assert.Contains(t, body, `"kind":"local_budget_rejected","not_started":true`)
}

// Many requests with random deadlines at once: none begins that has no time,
// none has more than it was given, each is answered by its own rules, and all
// are home in the end.
func TestManyRequestsWithRandomDeadlines(t *testing.T) {
	const requests, waves = 200, 5 // all at once take longer than an answer may on a busy machine
	protocols(t, func(t *testing.T, start func(http.Handler) *server) {
		var refused, ran, tasks atomic.Int64
		boom := errors.New("boom")
		leaf := start(curfewhttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
				http.Error(w, "late", http.StatusGatewayTimeout)
			case <-time.After(time.Duration(rand.IntN(10)) * ms):
			}
		}), curfewhttp.Config{Max: time.Minute, Useful: 2 * ms}))
		client := &http.Client{Transport: &curfewhttp.Transport{Base: leaf.Client().Transport}}
		const most = time.Minute
		s := start(curfewhttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ran.Add(1)
			given := most
			for _, v := range r.Header.Values(curfewhttp.Header) {
				d, err := wire.ParseMillis(v)
				assert.NoError(t, err)
				given = min(given, d)
			}
			assert.Positive(t, given)
			left, ok := budget.Remaining(r.Context())
			assert.True(t, ok)
			assert.LessOrEqual(t, left, given)
			err := scope.Run(r.Context(), "order", budget.Inherited(), func(ctx context.Context, s *scope.Scope) error {
				for range 3 {
					s.Go("leaf", func(ctx context.Context) error {
						tasks.Add(1)
						defer tasks.Add(-1)
						resp, err := client.Do(leaf.request(t, ctx))
						if err != nil {
							return err
						}
						defer resp.Body.Close()
						if _, err := io.Copy(io.Discard, resp.Body); err != nil {
							return err
						}
						if resp.StatusCode != 200 {
							return &budget.Cause{Kind: budget.DependencyTimeout, Err: fmt.Errorf("leaf: %s", resp.Status)}
						}
						if rand.IntN(20) == 0 {
							return boom
						}
						return nil
					})
				}
				return s.Wait()
			})
			kind := budget.KindOf(err)
			w.WriteHeader(kind.HTTPStatus())
		}), curfewhttp.Config{Max: most, Useful: 2 * ms, Refused: func(_ *http.Request, why error) {
			refused.Add(1)
			switch budget.KindOf(why) {
			case budget.ExpiredOnArrival, budget.LocalBudgetRejected:
			case budget.ClientCancelled: // the client had left before anything began
			default:
				t.Errorf("refused as %v", why)
			}
		}}))

		for _, s := range []*server{leaf, s} { // else each of the first requests dials
			resp, _ := s.get(t, "0")
			require.Equal(t, 503, resp.StatusCode)
		}

		var wg sync.WaitGroup
		var mu sync.Mutex
		counts := map[string]int{}
		for range waves {
			gate := make(chan struct{})
			for i := range requests / waves {
				wg.Go(func() {
					values := []string{strconv.Itoa(rand.IntN(300))}
					switch i % 10 {
					case 0:
						values[0] = "0"
					case 1:
						values = append(values, strconv.Itoa(rand.IntN(1000)))
					case 2:
						values = nil // all there is
					case 3:
						values[0] = "1"
					case 5:
						values = []string{"55000", "58000"}
					}
					ctx, leave := context.WithCancel(context.Background())
					defer leave()
					if i%10 == 4 {
						defer time.AfterFunc(time.Duration(rand.IntN(20))*ms, leave).Stop()
					}
					<-gate
					resp, err := s.Client().Do(s.request(t, ctx, values...))
					outcome := "left"
					if err != nil {
						assert.ErrorIs(t, err, context.Canceled)
					} else {
						resp.Body.Close()
						outcome = strconv.Itoa(resp.StatusCode)
						switch i % 10 {
						case 0, 3:
							assert.Equal(t, 503, resp.StatusCode)
						case 2, 5:
							assert.Contains(t, []int{200, 500}, resp.StatusCode, "time enough")
						}
					}
					mu.Lock()
					counts[outcome]++
					mu.Unlock()
				})
			}
			close(gate)
			wg.Wait()
		}
		t.Logf("outcomes %v, refused %d, ran %d", counts, refused.Load(), ran.Load())
		assert.NotZero(t, counts["200"])
		for outcome := range counts {
			assert.Contains(t, []string{"200", "500", "503", "504", "left"}, outcome)
		}
		assert.GreaterOrEqual(t, refused.Load(), int64(requests/5))
		s.Close() // waits for handlers
		assert.Eventually(t, func() bool { return tasks.Load() == 0 }, patience, ms, "a task outlived its request")
		assert.NotContains(t, s.log.String(), "panic")
	})
}
