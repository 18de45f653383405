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
	"slices"
	"strconv"
	"strings"
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
	"github.com/curfew-go/curfew/internal/stress"
)

const (
	patience = 30 * time.Second       // by then all is over, on any machine
	wanted   = 300 * time.Millisecond // by then it is on one that has nothing else to do
)

// stressed says that this is such a machine, and all two hundred clients come.
var stressed = stress.Level() > 0

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

// What clients ask for: something that is over at once, that waits in the server, or that computes there for minutes.
const (
	short    = "select 1"
	waiting  = "select 1 from pg_sleep(600)"
	counting = "select count(*) from generate_series(1, 100000) a, generate_series(1, 100000) b where a * b % 7 = 3"
)

// A load is what runs when all clients leave. Clients for whom there is no connection wait for one.
type load struct {
	connections int
	computing   int // statements; the others wait
	shown       bool
}

// Where all statements compute, on the processors that the clients and the services have as well, no call
// is even told in time that its client has left. These loads are measured, and nothing is asserted of
// how long they took.
func TestWhenAllClientsLeaveAtOnceTheWholeChainComesToRest(t *testing.T) {
	loads := map[string]load{
		"a connection for each client":      {connections: clients, computing: 1, shown: true},
		"a pool of twenty":                  {connections: 20, computing: 1, shown: true},
		"a pool of four, of which all work": {connections: 4, computing: 4},
	}
	if stressed {
		loads["a pool of twenty, of which all work"] = load{connections: 20, computing: 20}
	}
	for name, load := range loads {
		t.Run(name, func(t *testing.T) { leave(t, load) })
	}
}

func leave(t *testing.T, load load) {
	pg := servers.Start(t, servers.PostgreSQL, fmt.Sprint("max_connections=", load.connections+20), "jit=off")
	place := database.Place{DSN: pg.DSN(), Schema: "chain"}
	db, err := place.Open(t.Context())
	require.NoError(t, err)
	defer db.Close()
	db.SetMaxOpenConns(load.connections)
	db.SetMaxIdleConns(load.connections)
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
	ask := func(ctx context.Context, query func() string) []error {
		errs := make([]error, clients)
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() {
				errs[i] = get(ctx, toGateway, gateway.url+"?"+url.Values{"q": {query()}}.Encode())
			})
		}
		wg.Wait()
		return errs
	}
	active := func() int {
		// What pg_stat_activity reads. A look at the view costs a server with 100 sessions 1.0 ms, and this one 0.2.
		return count(t, watcher, "select count(*) from pg_stat_get_activity(null) where state = 'active' and pid <> pg_backend_pid()")
	}

	// Everything has run once, so that the pool is full and what is made once is made.
	for _, err := range ask(t.Context(), func() string { return "select 1 from pg_sleep(0.05)" }) {
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
	sessions := backends(t, watcher)

	ctx, leave := context.WithCancel(t.Context())
	over := make(chan []error, 1)
	var asked atomic.Int64
	go func() {
		over <- ask(ctx, func() string {
			// All of a pool compute when all clients do: who gets a connection first is not known.
			if load.computing == load.connections || asked.Add(1) == 1 {
				return counting
			}
			return waiting
		})
	}()
	require.Eventually(t, func() bool {
		return service.inside.Load() == int64(clients) && active() == min(load.connections, clients)
	}, 60*time.Second, 20*time.Millisecond)
	busy := runtime.NumGoroutine()

	began := time.Now()
	leave()
	// Each is watched by a goroutine of its own: a server that is busy answers the watcher late. Beside these one
	// may be left, of the connection over which many were cancelled, which stays for a second.
	var watchers atomic.Int64
	watched := map[string]func() bool{
		"calls in the gateway": func() bool { return gateway.inside.Load() == 0 },
		"calls in the service": func() bool { return service.inside.Load() == 0 },
		"active statements":    func() bool { return active() == 0 },
		"goroutines": func() bool {
			most := base + int(watchers.Load()) + 1
			n := runtime.NumGoroutine()
			return n <= most || n <= most+load.connections && n-readers() <= most
		},
	}
	var mu sync.Mutex
	took := map[string]time.Duration{} // guarded by mu
	var watching sync.WaitGroup
	for what, resting := range watched {
		watchers.Add(1)
		watching.Go(func() {
			defer watchers.Add(-1)
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
	t.Logf("%d clients, %d connections, %d goroutines at base and %d with all; at rest after %v", clients, load.connections, base, busy, took)
	if stressed && load.shown {
		for what, after := range took {
			assert.LessOrEqual(t, after, wanted, what)
		}
	}
	if stressed {
		// From the end of the time that there is for it, nothing works on for those who left. The connections
		// are there for the next ones: a login costs a server a hundred times what a cancel does.
		time.Sleep(time.Until(began.Add(wanted)))
		before, window := processorTime(t, watcher), 200*time.Millisecond
		time.Sleep(window)
		used := processorTime(t, watcher) - before
		gone := len(missing(sessions, backends(t, watcher)))
		t.Logf("in the %v after that this process and the server's used %v of a processor; %d connections were given up", window, used, gone)
		if load.shown {
			assert.LessOrEqual(t, used, window/4)
			assert.LessOrEqual(t, gone, load.connections/10, "connections that were given up")
		}
	}
	for _, err := range <-over {
		assert.ErrorIs(t, err, context.Canceled)
	}
	assert.Equal(t, clients, gateway.left()[budget.ClientCancelled], "%v", gateway.left())
	assert.Equal(t, clients, service.left()[budget.ClientCancelled], "%v", service.left())

	// And the next ones find everything as it was.
	require.Eventually(t, func() bool { return db.Stats().InUse == 0 }, patience, time.Millisecond)
	for _, err := range ask(t.Context(), func() string { return short }) {
		assert.NoError(t, err)
	}
	var left int
	assert.Eventually(t, func() bool { left = atRest() - readers(); return left <= base+1 }, patience, 20*time.Millisecond, "goroutines, of which this looks in one of its own")
	t.Logf("%d goroutines at the end", left)
}

// readers counts the goroutines with which pgx reads from connections on which a write was slow. Each lives
// until its connection has something to read.
func readers() int {
	all := make([]byte, 1<<20)
	return strings.Count(string(all[:runtime.Stack(all, true)]), "(*BGReader).bgRead(")
}

// count may be called from any goroutine. What cannot be counted is -1.
func count(t *testing.T, db *sql.DB, query string) (n int) {
	if err := db.QueryRowContext(context.Background(), query).Scan(&n); err != nil {
		t.Error(err)
		return -1
	}
	return n
}

// backends returns the ids of the server's processes that serve clients.
func backends(t *testing.T, db *sql.DB) (pids []int) {
	rows, err := db.QueryContext(t.Context(), "select pid from pg_stat_get_activity(null) where client_port > 0")
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var pid int
		require.NoError(t, rows.Scan(&pid))
		pids = append(pids, pid)
	}
	require.NoError(t, rows.Err())
	return pids
}

// missing returns what is in before and not in now.
func missing(before, now []int) []int {
	return slices.DeleteFunc(before, func(pid int) bool { return slices.Contains(now, pid) })
}

// processorTime is what this process and those that serve clients have used, in steps of 10 ms.
//
// Source: proc_pid_stat(5), utime and stime.
func processorTime(t *testing.T, db *sql.DB) (used time.Duration) {
	for _, pid := range append(backends(t, db), os.Getpid()) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue // it has ended
		}
		_, fields, _ := strings.Cut(string(text), ") ") // behind the name, which may be anything
		for _, field := range strings.Fields(fields)[11:13] {
			ticks, err := strconv.Atoi(field)
			require.NoError(t, err)
			used += time.Duration(ticks) * 10 * time.Millisecond
		}
	}
	return used
}
