package curfewhttp_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewhttp "github.com/curfew-go/curfew/adapters/http"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/budget/meter"
	"github.com/curfew-go/curfew/internal/stress"
	"github.com/curfew-go/curfew/retrybudget"
)

// A soak is what becomes of many requests.
type soak struct {
	calls   sync.Map // of *soakCall, by id
	meter   meter.Memory
	foreign atomic.Int64 // that saw another's end, answer or deadline

	// How often there was each kind of trouble.
	answered, late, refused, left, expired, brokeOff, cut, closedEarly, reused atomic.Int64
	sawLeave, sawDeadline                                                      atomic.Int64 // handlers
}

// A soakCall is what its handlers may know of one call.
type soakCall struct {
	deadline time.Time
	attempts atomic.Int32
	over     atomic.Bool // it is given up, broken off or read
}

// mine notes that s's request saw what may not be its own.
func (s *soak) mine(t *testing.T, own bool, format string, args ...any) {
	if !own && s.foreign.Add(1) < 10 {
		t.Errorf(format, args...)
	}
}

// see looks at the end of a handler's context, which must be its own request's.
func (s *soak) see(t *testing.T, r *http.Request, id string) {
	cause := context.Cause(r.Context())
	if cause == nil {
		return
	}
	v, _ := s.calls.Load(id)
	c := v.(*soakCall)
	deadline, _ := r.Context().Deadline()
	switch budget.KindOf(cause) {
	case budget.DeadlineExceeded:
		s.sawDeadline.Add(1)
		s.mine(t, !time.Now().Before(deadline), "request %s: %v, %v too early", id, cause, time.Until(deadline))
	case budget.ClientCancelled:
		s.sawLeave.Add(1)
		// A Transport gives up an attempt that another one has won against.
		own := c.over.Load() || c.attempts.Load() > 1 || !time.Now().Before(c.deadline)
		s.mine(t, own, "request %s: %v, and the client is there", id, cause)
	default:
		s.mine(t, false, "request %s: %v", id, cause)
	}
}

// handle does at random what a handler may do, and says in its answer which request it
// was.
func (s *soak) handle(t *testing.T, w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get("X-Id")
	defer s.see(t, r, id)
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

// call makes one call, with trouble of all kinds.
func (s *soak) call(t *testing.T, client *http.Client, address string, i int) {
	id := strconv.Itoa(i)
	limit := time.Duration(5+rand.IntN(80)) * ms
	if rand.IntN(8) == 0 {
		limit = patience // on a busy machine, too, some are answered
	}
	c := &soakCall{deadline: time.Now().Add(limit)}
	s.calls.Store(id, c)
	ctx, cancel := context.WithCancel(httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		GetConn: func(string) { c.attempts.Add(1) },
		GotConn: func(info httptrace.GotConnInfo) {
			if info.Reused {
				s.reused.Add(1)
			}
		},
	}))
	leave := func() { c.over.Store(true); cancel() }
	defer leave()
	if rand.IntN(4) == 0 {
		defer time.AfterFunc(time.Duration(rand.IntN(30))*ms, leave).Stop()
	}
	var body io.Reader
	switch rand.IntN(4) {
	case 0:
		body = bytes.NewReader(make([]byte, rand.IntN(20_000)))
	case 1: // slow, and perhaps broken
		body = &slowBody{left: 1 + rand.IntN(3), broken: rand.IntN(2) == 0, breaks: func() { c.over.Store(true) }}
	}
	r, err := http.NewRequest([]string{http.MethodPut, http.MethodPost}[rand.IntN(2)], address, body)
	if err != nil {
		t.Error(err)
		return
	}
	r.Header.Set("X-Id", id)
	resp, err := curfewhttp.Do(ctx, budget.Within(limit), client, r)
	if err != nil {
		switch {
		case errors.Is(err, errBroken):
			s.brokeOff.Add(1)
		case budget.KindOf(err) == budget.DeadlineExceeded:
			s.expired.Add(1)
			s.mine(t, !time.Now().Before(c.deadline), "call %s: %v, too early", id, err)
		case errors.Is(err, context.Canceled):
			s.left.Add(1)
			s.mine(t, ctx.Err() != nil, "call %s: %v, and it was not given up", id, err)
		}
		return
	}
	got := resp.Header.Get("X-Id")
	s.mine(t, got == "" || got == id, "call %s: the answer is that of %s", id, got)
	if rand.IntN(8) == 0 {
		_, _ = resp.Body.Read(make([]byte, 1))
		c.over.Store(true)
		resp.Body.Close()
		s.closedEarly.Add(1)
		return
	}
	text, err := io.ReadAll(resp.Body)
	c.over.Store(true)
	resp.Body.Close()
	switch {
	case err != nil:
		s.cut.Add(1)
	case resp.StatusCode == http.StatusOK:
		s.answered.Add(1)
	case resp.StatusCode == http.StatusGatewayTimeout:
		s.late.Add(1)
	default:
		s.refused.Add(1)
	}
	if resp.StatusCode == http.StatusOK {
		s.mine(t, len(bytes.ReplaceAll(text, []byte(id+" "), nil)) <= len(id), "call %s: %.100q", id, text)
	}
}

// Requests of all kinds share connections, and none sees another's end, answer or
// deadline; nothing is left when they are over. Half of them have a handler that hears
// of every end at once, behind a queue, the other half one that looks when it is asked.
func TestSoak(t *testing.T) {
	const workers = 32
	requests := stress.Rounds(1500)
	protocols(t, func(t *testing.T, start func(http.Handler) *server) {
		before, files := runtime.NumGoroutine(), openFiles()
		s := &soak{}
		handle := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.handle(t, w, r) })
		config := curfewhttp.Config{Max: time.Second, Grace: 5 * ms}
		mux := http.NewServeMux()
		mux.Handle("/0", curfewhttp.Handler(handle, config))
		config.Recorder, config.Queue = &s.meter, curfewhttp.NewQueue(workers/4, workers)
		mux.Handle("/1", curfewhttp.Handler(handle, config))
		server := start(mux)
		base := server.Client().Transport.(*http.Transport)
		base.MaxIdleConnsPerHost = 2 * workers
		credit := retrybudget.New("soak", retrybudget.Config{})
		client := &http.Client{Transport: &curfewhttp.Transport{
			Base:   base,
			Budget: func(string) *retrybudget.Budget { return credit },
			Hedge:  func() time.Duration { return 10 * ms },
			Target: func(*http.Request) string { return "soak" },
			Meter:  &s.meter,
		}}
		var next atomic.Int64
		var all sync.WaitGroup
		for range workers {
			all.Go(func() {
				for i := int(next.Add(1)); i <= requests; i = int(next.Add(1)) {
					s.call(t, client, server.URL+"/"+strconv.Itoa(i%2), i)
				}
			})
		}
		all.Wait()
		client.CloseIdleConnections()
		server.Close()
		backTo(t, before)
		for end := time.Now().Add(patience); len(openFiles()) > len(files); runtime.Gosched() {
			require.True(t, time.Now().Before(end), "open files and connections: %q, before: %q", openFiles(), files)
		}
		assert.Zero(t, s.foreign.Load(), "requests that saw another's")
		s.report(t, stress.Level() > 0)
	})
}

// report logs how often there was what, and fails when something never was; all says
// that there were enough requests for the rarest.
func (s *soak) report(t *testing.T, all bool) {
	for _, k := range []struct {
		what string
		n    int64
		rare bool
	}{
		{"answered", s.answered.Load(), false},
		{"answered with 504", s.late.Load(), true},
		{"answered with another failure", s.refused.Load(), true},
		{"calls out of time", s.expired.Load(), false},
		{"calls given up", s.left.Load(), false},
		{"request bodies broken off", s.brokeOff.Load(), false},
		{"replies cut", s.cut.Load(), true},
		{"replies closed before their end", s.closedEarly.Load(), true},
		{"connections used again", s.reused.Load(), false},
		{"handlers that saw the client leave", s.sawLeave.Load(), false},
		{"handlers that saw the deadline", s.sawDeadline.Load(), false},
		{"handlers answered for", s.meter.Count(meter.Straggler), true},
		{"requests refused unhandled", s.meter.Count(meter.Refused), true},
		{"retries", s.meter.Count(meter.RetryAllowed), true},
		{"hedges", s.meter.Count(meter.HedgeSent), true},
		{"hedges that won", s.meter.Count(meter.HedgeWon), true},
	} {
		t.Logf("%8d %s", k.n, k.what)
		if all || !k.rare {
			assert.Positive(t, k.n, k.what)
		}
	}
}

// openFiles returns which files and connections the process has open, none where that
// is not to be seen.
func openFiles() (open []string) {
	const dir = "/proc/self/fd/"
	all, _ := os.ReadDir(dir)
	for _, f := range all {
		// Not the directory itself, and not what the runtime waits for all of them with.
		if what, err := os.Readlink(dir + f.Name()); err == nil && !strings.HasPrefix(what, "anon_inode:") {
			open = append(open, what)
		}
	}
	return open
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
	breaks func()
}

var errBroken = errors.New("broken")

func (b *slowBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		if b.broken {
			b.breaks()
			return 0, errBroken
		}
		return 0, io.EOF
	}
	b.left--
	time.Sleep(time.Duration(rand.IntN(5)) * ms)
	return copy(p, "piece"), nil
}
