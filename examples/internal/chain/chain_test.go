package chain

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewhttp "github.com/curfew-go/curfew/adapters/http"
	curfewsql "github.com/curfew-go/curfew/adapters/sql"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/examples/internal/database"
	"github.com/curfew-go/curfew/internal/servers"
)

const (
	patience = 30 * time.Second       // by then all is over, on any machine
	wanted   = 300 * time.Millisecond // by then it is on one that has nothing else to do
)

// stressed is when there is such a machine, and all two hundred clients come.
var stressed = os.Getenv("CURFEW_STRESS") != ""

var clients = map[bool]int{false: 50, true: 200}[stressed]

// A tier is one of the services. It counts who is inside, and why they left.
type tier struct {
	url    string
	inside atomic.Int64
	mu     sync.Mutex
	ends   map[budget.Kind]int // guarded by mu
}

func newTier(t *testing.T, work func(ctx context.Context, r *http.Request) error) *tier {
	tier := &tier{ends: map[budget.Kind]int{}}
	h := curfewhttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tier.inside.Add(1)
		defer tier.inside.Add(-1)
		err := work(r.Context(), r)
		tier.mu.Lock()
		tier.ends[budget.KindOf(err)]++
		tier.mu.Unlock()
		if err != nil {
			curfewhttp.Error(w, r, err)
		}
	}), curfewhttp.Config{Max: time.Minute})
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	tier.url = server.URL
	return tier
}

func (t *tier) left() map[budget.Kind]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ends
}

func newClient() *http.Client {
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.MaxIdleConnsPerHost = clients
	base.MaxIdleConns = clients
	return &http.Client{Transport: &curfewhttp.Transport{Base: base}}
}

func get(ctx context.Context, client *http.Client, url string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if err := curfewhttp.CheckResponse(answer); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}

// What clients ask for: most wait in the server, and one computes there for minutes.
const (
	short    = "select 1"
	waiting  = "select 1 from pg_sleep(600)"
	counting = "select count(*) from generate_series(1, 100000) a, generate_series(1, 100000) b where a * b % 7 = 3"
)

func TestWhenAllClientsLeaveAtOnceTheWholeChainComesToRest(t *testing.T) {
	pg := servers.Start(t, servers.PostgreSQL, fmt.Sprint("max_connections=", clients+20), "jit=off")
	place := database.Place{DSN: pg.DSN(), Schema: "chain"}
	db, err := place.Open(t.Context())
	require.NoError(t, err)
	defer db.Close()
	db.SetMaxOpenConns(clients)
	db.SetMaxIdleConns(clients)
	watcher, err := place.Open(t.Context())
	require.NoError(t, err)
	defer watcher.Close()
	watcher.SetMaxOpenConns(1)

	service := newTier(t, func(ctx context.Context, r *http.Request) error {
		var n int64
		return curfewsql.Error(ctx, db.QueryRowContext(ctx, r.URL.Query().Get("q")).Scan(&n))
	})
	toService := newClient()
	gateway := newTier(t, func(ctx context.Context, r *http.Request) error {
		return get(ctx, toService, service.url+"?"+r.URL.RawQuery)
	})
	toGateway := newClient()
	ask := func(ctx context.Context, queries func(i int) string) []error {
		errs := make([]error, clients)
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() {
				errs[i] = get(ctx, toGateway, gateway.url+"?"+url.Values{"q": {queries(i)}}.Encode())
			})
		}
		wg.Wait()
		return errs
	}
	active := func() int {
		return count(t, watcher, "select count(*) from pg_stat_activity where state = 'active' and pid <> pg_backend_pid()")
	}

	// Everything has run once, so that the pool is full and what is made once is made.
	for _, err := range ask(t.Context(), func(int) string { return short }) {
		require.NoError(t, err)
	}
	atRest := func() int {
		toGateway.CloseIdleConnections()
		toService.CloseIdleConnections()
		return runtime.NumGoroutine()
	}
	base := atRest()
	for at := time.Now(); time.Since(at) < 200*time.Millisecond; runtime.Gosched() { // connections close on both sides
		base = min(base, atRest())
	}

	ctx, leave := context.WithCancel(t.Context())
	over := make(chan []error, 1)
	go func() {
		over <- ask(ctx, func(i int) string {
			if i == 0 {
				return counting
			}
			return waiting
		})
	}()
	require.Eventually(t, func() bool { return active() == clients }, 60*time.Second, 20*time.Millisecond)
	busy := runtime.NumGoroutine()

	began := time.Now()
	leave()
	// Each is watched by a goroutine of its own: a server that is busy answers the watcher late.
	watched := map[string]func() bool{
		"calls in the gateway": func() bool { return gateway.inside.Load() == 0 },
		"calls in the service": func() bool { return service.inside.Load() == 0 },
		"active statements":    func() bool { return active() == 0 },
		"goroutines":           func() bool { return runtime.NumGoroutine() <= base+10 }, // those that watch, and their connection
	}
	var mu sync.Mutex
	took := map[string]time.Duration{} // guarded by mu
	var watching sync.WaitGroup
	for what, resting := range watched {
		watching.Go(func() {
			look := time.NewTicker(5 * time.Millisecond) // a test that computes would be what the server waits for
			defer look.Stop()
			for time.Since(began) < patience {
				if resting() {
					mu.Lock()
					took[what] = time.Since(began)
					mu.Unlock()
					return
				}
				<-look.C
			}
		})
	}
	watching.Wait()
	require.Len(t, took, len(watched), "at rest by now: %v; %d goroutines, %d at base", took, runtime.NumGoroutine(), base)
	t.Logf("%d clients, %d goroutines at base and %d with all; at rest after %v", clients, base, busy, took)
	if stressed {
		for what, after := range took {
			assert.LessOrEqual(t, after, wanted, what)
		}
	}
	for _, err := range <-over {
		assert.ErrorIs(t, err, context.Canceled)
	}
	assert.Equal(t, clients, gateway.left()[budget.ClientCancelled], "%v", gateway.left())
	assert.Equal(t, clients, service.left()[budget.ClientCancelled], "%v", service.left())

	// And the next ones find everything as it was.
	require.Eventually(t, func() bool { return db.Stats().InUse == 0 }, patience, time.Millisecond)
	for _, err := range ask(t.Context(), func(int) string { return short }) {
		assert.NoError(t, err)
	}
}

// count may be called from any goroutine. What cannot be counted is -1.
func count(t *testing.T, db *sql.DB, query string) (n int) {
	if err := db.QueryRowContext(context.Background(), query).Scan(&n); err != nil {
		t.Error(err)
		return -1
	}
	return n
}
