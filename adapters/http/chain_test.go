package curfewhttp_test

import (
	"context"
	"net/http"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewhttp "github.com/curfew-go/curfew/adapters/http"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/stress"
	"github.com/curfew-go/curfew/scope"
	"github.com/curfew-go/curfew/scope/race"
)

// Each of five hops gives on what it has left, less its own time and its slush.
func TestAChainOfFiveShrinksByEachHopsOwnTime(t *testing.T) {
	protocols(t, func(t *testing.T, start func(http.Handler) *server) {
		const hops, rounds = 5, 15
		type visit struct{ arrived, sent time.Duration } // what was left then
		visits := make(chan visit, hops)
		client := &http.Client{}
		next := ""
		for range hops {
			to := next
			s := start(curfewhttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				v := visit{arrived: look(r.Context()).left}
				if to == "" {
					visits <- v
					return
				}
				time.Sleep(10 * ms) // its own time
				v.sent = look(r.Context()).left
				visits <- v // the next one's comes behind
				req, _ := http.NewRequestWithContext(r.Context(), http.MethodGet, to, nil)
				resp, err := client.Do(req)
				if err != nil {
					curfewhttp.Error(w, r, err)
					return
				}
				resp.Body.Close()
				w.WriteHeader(resp.StatusCode)
			}), curfewhttp.Config{Max: time.Minute}))
			next = s.URL
			if client.Transport == nil {
				client.Transport = &curfewhttp.Transport{Base: s.Client().Transport}
			}
		}
		var beyond []time.Duration
		for range rounds {
			r, err := http.NewRequest(http.MethodGet, next, nil)
			require.NoError(t, err)
			resp, err := curfewhttp.Do(t.Context(), budget.Within(2*time.Second), client, r)
			require.NoError(t, err)
			resp.Body.Close()
			assert.Equal(t, http.StatusOK, resp.StatusCode)
			sent := 2 * time.Second
			for i := range hops {
				v := <-visits
				slush := min(max(sent/20, 2*ms), 50*ms)
				assert.GreaterOrEqual(t, sent-v.arrived, slush-ms, "hop %d", i+1)
				if i > 0 { // before the first one the test itself takes time
					beyond = append(beyond, sent-v.arrived-slush)
				}
				sent = v.sent
			}
		}
		slices.Sort(beyond)
		t.Logf("beyond the slush: %v at least, %v half, %v at most", beyond[0], beyond[len(beyond)/2], beyond[len(beyond)-1])
		if stress.Level() > 0 { // half of the hops may meet a machine that is busy with something else
			assert.LessOrEqual(t, beyond[len(beyond)/2], 5*ms)
		}
	})
}

// A client that leaves ends every branch of a fan-out, a hedge's included, and the
// work behind the last server.
func TestAClientThatLeavesEndsAFanOutAndWhatIsBehindIt(t *testing.T) {
	protocols(t, func(t *testing.T, start func(http.Handler) *server) {
		before := runtime.NumGoroutine()
		const rounds = 7
		var working atomic.Int64
		all := make(chan struct{}, 32)
		last := start(curfewhttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			working.Add(1)
			all <- struct{}{}
			<-r.Context().Done()
			working.Add(-1)
		}), curfewhttp.Config{Max: time.Minute}))
		client := &http.Client{Transport: &curfewhttp.Transport{Base: last.Client().Transport}}
		get := func(ctx context.Context) (int, error) {
			r, _ := http.NewRequestWithContext(ctx, http.MethodGet, last.URL, nil)
			resp, err := client.Do(r)
			if err != nil {
				return 0, err
			}
			defer resp.Body.Close()
			return resp.StatusCode, nil
		}
		over := make(chan time.Time, 1)
		front := start(curfewhttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			err := scope.Run(r.Context(), "page", budget.Inherited(), func(ctx context.Context, s *scope.Scope) error {
				for range 9 {
					s.Go("branch", func(ctx context.Context) error { _, err := get(ctx); return err })
				}
				_, err := race.Hedge(ctx, "hedge", ms, get)
				return err
			})
			over <- time.Now()
			curfewhttp.Error(w, r, err)
		}), curfewhttp.Config{Max: time.Minute}))

		var took []time.Duration
		for range rounds {
			ctx, leave := context.WithCancel(t.Context())
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, front.URL, nil)
			require.NoError(t, err)
			gone := make(chan struct{})
			go func() {
				defer close(gone)
				resp, err := front.Client().Do(r)
				if err == nil {
					resp.Body.Close()
				}
			}()
			for range 11 {
				within(t, all, "a branch to arrive")
			}
			left := time.Now()
			leave()
			fanOut := within(t, over, "the fan-out to end").Sub(left)
			for working.Load() > 0 {
				require.Less(t, time.Since(left), patience)
				runtime.Gosched()
			}
			took = append(took, time.Since(left))
			t.Logf("the fan-out was over %v after its client left, the last server's work after %v", fanOut, took[len(took)-1])
			<-gone
		}
		slices.Sort(took)
		if stress.Level() > 0 { // as above
			assert.Less(t, took[rounds/2], 50*ms)
		}
		front.Client().CloseIdleConnections()
		last.Client().CloseIdleConnections()
		front.Close()
		last.Close()
		backTo(t, before)
	})
}
