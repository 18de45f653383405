package curfewhttp_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
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
		before, files := runtime.NumGoroutine(), openFiles()
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
		for end := time.Now().Add(patience); openFiles() > files; runtime.Gosched() {
			require.True(t, time.Now().Before(end), "%d files and connections are open, %d before", openFiles(), files)
		}
	})
}

// openFiles returns how many files and connections the process has open, 0 where that
// is not to be seen.
func openFiles() int {
	all, _ := os.ReadDir("/proc/self/fd")
	return len(all)
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
