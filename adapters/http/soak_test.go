package curfewhttp_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewhttp "github.com/curfew-go/curfew/adapters/http"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/retrybudget"
	"github.com/curfew-go/curfew/scope"
	"github.com/curfew-go/curfew/scope/race"
)

// soakRequest does at random what a handler may do, and says in its answer which
// request it was.
func soakRequest(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get("X-Id")
	pick := rand.IntN(12)
	if pick == 0 {
		panic(http.ErrAbortHandler)
	}
	if pick < 4 {
		_, _ = io.Copy(io.Discard, r.Body)
	}
	w.Header().Set("X-Id", id)
	switch pick {
	case 4: // deaf
		time.Sleep(time.Duration(rand.IntN(60)) * ms)
	case 5:
		<-r.Context().Done()
		curfewhttp.Error(w, r, context.Cause(r.Context()))
		return
	case 6:
		w.WriteHeader(http.StatusEarlyHints)
	case 7:
		_, _ = io.WriteString(w, id+" ")
		w.(http.Flusher).Flush()
		time.Sleep(time.Duration(rand.IntN(40)) * ms)
	case 8:
		w.WriteHeader(http.StatusServiceUnavailable)
	case 9:
		_, _ = w.Write(bytes.Repeat([]byte(id+" "), 2000))
	}
	_, err := io.WriteString(w, id+" ")
	if err == nil && pick == 10 {
		w.Header().Set(http.TrailerPrefix+"X-Id", id)
	}
}

// Requests of all kinds share connections, and none sees another's end, answer or
// deadline; nothing is left when they are over.
func TestSoak(t *testing.T) {
	requests := times(1500)
	protocols(t, func(t *testing.T, start func(http.Handler) *server) {
		before := runtime.NumGoroutine()
		var foreign, answered, ended, cut atomic.Int64
		s := start(curfewhttp.Handler(http.HandlerFunc(soakRequest), curfewhttp.Config{Max: time.Second, Grace: 5 * ms}))
		base := s.Client().Transport.(*http.Transport)
		base.MaxIdleConnsPerHost = 64
		credit := retrybudget.New("soak", retrybudget.Config{})
		client := &http.Client{Transport: &curfewhttp.Transport{
			Base:   base,
			Budget: func(string) *retrybudget.Budget { return credit },
			Hedge:  func() time.Duration { return 10 * ms },
		}}
		one := func(i int) {
			id := strconv.Itoa(i)
			limit := time.Duration(5+rand.IntN(80)) * ms
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			if rand.IntN(4) == 0 {
				defer time.AfterFunc(time.Duration(rand.IntN(30))*ms, leave).Stop()
			}
			var body io.Reader
			switch rand.IntN(4) {
			case 0:
				body = bytes.NewReader(make([]byte, rand.IntN(20_000)))
			case 1: // slow, and perhaps broken
				body = &slowBody{left: 1 + rand.IntN(3), broken: rand.IntN(2) == 0}
			}
			method := http.MethodPut
			if rand.IntN(2) == 0 {
				method = http.MethodPost
			}
			r, err := http.NewRequest(method, s.URL, body)
			if err != nil {
				t.Error(err)
				return
			}
			r.Header.Set("X-Id", id)
			resp, err := curfewhttp.Do(ctx, budget.Within(limit), client, r)
			if err != nil {
				ended.Add(1)
				if ctx.Err() == nil && budget.KindOf(err) == budget.ClientCancelled {
					foreign.Add(1)
				}
				return
			}
			text, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil {
				cut.Add(1)
			} else {
				answered.Add(1)
			}
			if got := resp.Header.Get("X-Id"); got != "" && got != id {
				foreign.Add(1)
			}
			if resp.StatusCode == http.StatusOK && len(bytes.ReplaceAll(text, []byte(id+" "), nil)) > len(id) {
				foreign.Add(1)
			}
		}
		var next atomic.Int64
		var all sync.WaitGroup
		for range 16 {
			all.Go(func() {
				for {
					i := int(next.Add(1))
					if i > requests {
						return
					}
					one(i)
				}
			})
		}
		all.Wait()
		t.Logf("%d answered, %d ended, %d cut", answered.Load(), ended.Load(), cut.Load())
		assert.Zero(t, foreign.Load(), "requests that saw another's")
		assert.Positive(t, answered.Load())
		assert.Positive(t, ended.Load())
		client.CloseIdleConnections()
		s.Close()
		backTo(t, before)
	})
}

// backTo waits until no more goroutines than before are left.
func backTo(t *testing.T, before int) {
	t.Helper()
	for end := time.Now().Add(patience); ; runtime.Gosched() {
		if runtime.NumGoroutine() <= before {
			return
		}
		if time.Now().After(end) {
			buf := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
		}
	}
}

// A slowBody comes in pieces, and may break off.
type slowBody struct {
	left   int
	broken bool
}

func (b *slowBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		if b.broken {
			return 0, errors.New("broken")
		}
		return 0, io.EOF
	}
	b.left--
	time.Sleep(time.Duration(rand.IntN(5)) * ms)
	return copy(p, "piece"), nil
}

// Each of five hops gives on what it has left, less its own time and its slush.
func TestAChainOfFiveShrinksByEachHopsOwnTime(t *testing.T) {
	const hops = 5
	left := make(chan time.Duration, hops)
	client := &http.Client{Transport: &curfewhttp.Transport{}}
	next := ""
	for range hops {
		to := next
		s := serve(t, curfewhttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mine, _ := budget.Remaining(r.Context())
			left <- mine
			if to == "" {
				return
			}
			time.Sleep(10 * ms) // its own time
			req, _ := http.NewRequestWithContext(r.Context(), http.MethodGet, to, nil)
			resp, err := client.Do(req)
			if err != nil {
				curfewhttp.Error(w, r, err)
				return
			}
			resp.Body.Close()
			w.WriteHeader(resp.StatusCode)
		}), curfewhttp.Config{Max: time.Minute}), false)
		next = s.URL
	}
	r, err := http.NewRequest(http.MethodGet, next, nil)
	require.NoError(t, err)
	resp, err := curfewhttp.Do(t.Context(), budget.Within(2*time.Second), client, r)
	require.NoError(t, err)
	resp.Body.Close()
	assert.Equal(t, http.StatusOK, resp.StatusCode)
	before := 2 * time.Second
	for i := range hops {
		now := <-left
		took := before - now
		slush := min(max(before/20, 2*ms), 50*ms)
		t.Logf("hop %d: %v left, %v less: %v beyond its own time and slush", i+1, now, took, took-slush-10*ms)
		assert.GreaterOrEqual(t, took, slush-ms, "hop %d", i+1)
		before = now
	}
}

// A client that leaves ends every branch of a fan-out, a hedge's included, and the
// work behind the last server.
func TestAClientThatLeavesEndsAFanOutAndWhatIsBehindIt(t *testing.T) {
	before := runtime.NumGoroutine()
	var working atomic.Int64
	all := make(chan struct{}, 32)
	last := serve(t, curfewhttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		working.Add(1)
		all <- struct{}{}
		<-r.Context().Done()
		working.Add(-1)
	}), curfewhttp.Config{Max: time.Minute}), false)
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
	front := serve(t, curfewhttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := scope.Run(r.Context(), "page", budget.Inherited(), func(ctx context.Context, s *scope.Scope) error {
			for range 9 {
				s.Go("branch", func(ctx context.Context) error { _, err := get(ctx); return err })
			}
			_, err := race.Hedge(ctx, "hedge", ms, get)
			return err
		})
		over <- time.Now()
		curfewhttp.Error(w, r, err)
	}), curfewhttp.Config{Max: time.Minute}), false)

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
	t.Logf("the fan-out was over %v after its client left", within(t, over, "the fan-out to end").Sub(left))
	for working.Load() > 0 {
		require.Less(t, time.Since(left), patience)
		runtime.Gosched()
	}
	t.Logf("the last server's work was over after %v", time.Since(left))
	<-gone
	front.Client().CloseIdleConnections()
	last.Client().CloseIdleConnections()
	front.Close()
	last.Close()
	backTo(t, before)
}
