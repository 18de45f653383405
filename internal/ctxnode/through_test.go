package ctxnode_test

import (
	"context"
	"crypto/tls"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
)

// An end is one way in which a context ends, and how that must look from
// wherever the context has gone.
type end struct {
	name     string
	sentinel error
	kind     budget.Kind
	text     string // stands in the cause's text: which limit, who, why
	is       error  // what the cause matches besides the sentinel
	// with opens a context and hands over what ends it. For a deadline that is
	// nothing: it is soon.
	with func(t *testing.T, use func(ctx context.Context, end func()))
}

// soon is long enough for a request to arrive, most times. Nothing depends on
// it: an end that comes earlier must look the same.
const soon = 40 * time.Millisecond

func nothing() {}

var ends = []end{
	{
		name: "deadline", sentinel: context.DeadlineExceeded, kind: budget.DeadlineExceeded, text: "limit route maximum 40ms",
		with: func(t *testing.T, use func(context.Context, func())) {
			ctx, cancel, err := budget.Enter(context.Background(), budget.Within(soon).Named("route maximum"))
			require.NoError(t, err)
			defer cancel()
			use(ctx, nothing)
		},
	},
	{
		name: "deadline of a scope", sentinel: context.DeadlineExceeded, kind: budget.DeadlineExceeded, text: "scope order, limit route maximum 40ms",
		with: func(t *testing.T, use func(context.Context, func())) {
			_ = scope.Run(context.Background(), "order", budget.Within(soon).Named("route maximum"), func(ctx context.Context, s *scope.Scope) error {
				use(ctx, nothing)
				return nil
			})
		},
	},
	{
		name: "deadline of a task", sentinel: context.DeadlineExceeded, kind: budget.DeadlineExceeded, text: "scope order/load, limit profile 40ms < route maximum 1h0m0s",
		with: func(t *testing.T, use func(context.Context, func())) {
			_ = scope.Run(context.Background(), "order", budget.Within(time.Hour).Named("route maximum"), func(ctx context.Context, s *scope.Scope) error {
				s.Limit(budget.Within(soon).Named("profile")).Go("load", func(ctx context.Context) error {
					use(ctx, nothing)
					return nil
				})
				return nil
			})
		},
	},
	{
		name: "deadline of a detached block", sentinel: context.DeadlineExceeded, kind: budget.DeadlineExceeded, text: "limit detached 40ms",
		with: func(t *testing.T, use func(context.Context, func())) {
			outer, cancelOuter, err := budget.Enter(context.Background(), budget.Within(time.Hour).Named("route maximum"))
			require.NoError(t, err)
			cancelOuter()
			ctx, cancel := budget.Detached(outer, soon)
			defer cancel()
			use(ctx, nothing)
		},
	},
	{
		name: "std parent's deadline", sentinel: context.DeadlineExceeded, kind: budget.DeadlineExceeded, text: "limit parent deadline",
		with: func(t *testing.T, use func(context.Context, func())) {
			ctx, cancel, err := budget.Enter(timed(t, context.Background(), soon), budget.Within(time.Hour).Named("route maximum"))
			require.NoError(t, err)
			defer cancel()
			use(ctx, nothing)
		},
	},
	{
		name: "std parent's deadline with a cause", sentinel: context.DeadlineExceeded, kind: budget.DeadlineExceeded, text: "boom", is: errBoom,
		with: func(t *testing.T, use func(context.Context, func())) {
			parent, cancelParent := context.WithTimeoutCause(context.Background(), soon, errBoom)
			defer cancelParent()
			ctx, cancel, err := budget.Enter(parent, budget.Inherited())
			require.NoError(t, err)
			defer cancel()
			use(ctx, nothing)
		},
	},
	{
		name: "curfew parent's deadline", sentinel: context.DeadlineExceeded, kind: budget.DeadlineExceeded, text: "limit gateway 40ms",
		with: func(t *testing.T, use func(context.Context, func())) {
			outer, cancelOuter, err := budget.Enter(context.Background(), budget.Within(soon).Named("gateway"))
			require.NoError(t, err)
			defer cancelOuter()
			_ = scope.Run(context.WithValue(outer, key("span"), 1), "order", budget.Within(time.Hour).Named("route maximum"), func(ctx context.Context, s *scope.Scope) error {
				use(ctx, nothing)
				return nil
			})
		},
	},
	{
		name: "std parent cancelled", sentinel: context.Canceled, kind: budget.ParentCancelled, text: "parent cancelled",
		with: func(t *testing.T, use func(context.Context, func())) {
			parent, cancelParent := context.WithCancel(context.Background())
			defer cancelParent()
			ctx, cancel, err := budget.Enter(parent, budget.Within(time.Hour))
			require.NoError(t, err)
			defer cancel()
			use(ctx, cancelParent)
		},
	},
	{
		name: "std parent cancelled with a cause", sentinel: context.Canceled, kind: budget.ParentCancelled, text: "parent cancelled: scope order: boom", is: errBoom,
		with: func(t *testing.T, use func(context.Context, func())) {
			parent, cancelParent := context.WithCancelCause(context.Background())
			defer cancelParent(nil)
			_ = scope.Run(parent, "order", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
				use(ctx, func() { cancelParent(errBoom) })
				return nil
			})
		},
	},
	{
		name: "curfew parent cancelled", sentinel: context.Canceled, kind: budget.Cancelled, text: "cancelled",
		with: func(t *testing.T, use func(context.Context, func())) {
			outer, cancelOuter, err := budget.Enter(context.Background(), budget.Within(time.Hour))
			require.NoError(t, err)
			defer cancelOuter()
			ctx, cancel, err := budget.Enter(context.WithValue(outer, key("span"), 1), budget.Within(time.Minute))
			require.NoError(t, err)
			defer cancel()
			use(ctx, cancelOuter)
		},
	},
	{
		name: "a sibling's failure", sentinel: context.Canceled, kind: budget.SiblingFailed, text: "sibling failed: scope order, task payment: boom", is: errBoom,
		with: func(t *testing.T, use func(context.Context, func())) {
			_ = scope.Run(context.Background(), "order", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
				fail := make(chan struct{})
				s.Go("payment", func(context.Context) error { <-fail; return errBoom })
				s.Go("stock", func(ctx context.Context) error {
					use(ctx, sync.OnceFunc(func() { close(fail) }))
					return nil
				})
				return s.Wait()
			})
		},
	},
	{
		name: "a sibling's timeout", sentinel: context.Canceled, kind: budget.SiblingFailed, text: "sibling failed: scope order, task payment",
		with: func(t *testing.T, use func(context.Context, func())) {
			_ = scope.Run(context.Background(), "order", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
				s.Limit(budget.Within(soon)).Go("payment", func(ctx context.Context) error {
					<-ctx.Done()
					return context.Cause(ctx)
				})
				s.Go("stock", func(ctx context.Context) error { use(ctx, nothing); return nil })
				return s.Wait()
			})
		},
	},
	{
		name: "cancel", sentinel: context.Canceled, kind: budget.Cancelled, text: "cancelled",
		with: func(t *testing.T, use func(context.Context, func())) {
			ctx, cancel, err := budget.Enter(context.Background(), budget.Within(time.Hour))
			require.NoError(t, err)
			defer cancel()
			use(ctx, cancel)
		},
	},
	{
		name: "scope cancelled", sentinel: context.Canceled, kind: budget.Cancelled, text: "cancelled: scope order: boom", is: errBoom,
		with: func(t *testing.T, use func(context.Context, func())) {
			_ = scope.Run(context.Background(), "order", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
				use(ctx, func() { s.Cancel(errBoom) })
				return nil
			})
		},
	},
	{
		name: "scope cancelled by a person", sentinel: context.Canceled, kind: budget.UserCancelled, text: "user cancelled: scope order",
		with: func(t *testing.T, use func(context.Context, func())) {
			_ = scope.Run(context.Background(), "order", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
				use(ctx, func() { s.Cancel(&budget.Cause{Kind: budget.UserCancelled}) })
				return nil
			})
		},
	},
	{
		name: "detached block cancelled", sentinel: context.Canceled, kind: budget.Cancelled, text: "cancelled",
		with: func(t *testing.T, use func(context.Context, func())) {
			ctx, cancel := budget.Detached(context.Background(), time.Hour)
			defer cancel()
			use(ctx, cancel)
		},
	},
}

// looksLike checks err, which somebody brought back because the context ended.
// When bare, it is what a package returns that knows no causes: ctx.Err().
func (e end) looksLike(t *testing.T, err error, bare bool) {
	t.Helper()
	require.Error(t, err)
	other := context.Canceled
	if e.sentinel == context.Canceled {
		other = context.DeadlineExceeded
	}
	assert.ErrorIs(t, err, e.sentinel)
	assert.NotErrorIs(t, err, other, "a deadline is never disguised as a cancel, nor the reverse")
	var timeout interface{ Timeout() bool }
	isTimeout := errors.As(err, &timeout) && timeout.Timeout()
	assert.Equal(t, e.sentinel == context.DeadlineExceeded, isTimeout, "Timeout(): %v", err)
	var uerr *url.Error
	if errors.As(err, &uerr) {
		assert.Equal(t, e.sentinel == context.DeadlineExceeded, uerr.Timeout())
	}
	if bare {
		return
	}
	assert.Equal(t, e.kind, budget.KindOf(err))
	assert.ErrorContains(t, err, e.text, "the limit's name, or who it was")
	if e.is != nil {
		assert.ErrorIs(t, err, e.is)
	}
	var netErr net.Error
	if assert.ErrorAs(t, err, &netErr) {
		assert.Equal(t, e.sentinel == context.DeadlineExceeded, netErr.Timeout())
	}
}

// forEachEnd runs f once for each end. f returns when the context has ended
// and it has what somebody brought back.
func forEachEnd(t *testing.T, f func(t *testing.T, e end, ctx context.Context, end func())) {
	for _, e := range ends {
		t.Run(e.name, func(t *testing.T) {
			used := false
			e.with(t, func(ctx context.Context, end func()) {
				used = true
				f(t, e, ctx, end)
			})
			assert.True(t, used)
		})
	}
}

func TestEndsSeenInTheContextItself(t *testing.T) {
	t.Parallel()
	forEachEnd(t, func(t *testing.T, e end, ctx context.Context, end func()) {
		end()
		<-ctx.Done()
		assert.Equal(t, e.sentinel, ctx.Err())
		e.looksLike(t, context.Cause(ctx), false)
		e.looksLike(t, ctx.Err(), true)
		assert.IsType(t, &budget.Cause{}, context.Cause(ctx))
	})
}

func TestEndsSeenInStdChildren(t *testing.T) {
	t.Parallel()
	for _, c := range children {
		t.Run(c.name, func(t *testing.T) {
			forEachEnd(t, func(t *testing.T, e end, ctx context.Context, end func()) {
				direct, stop := c.derive(ctx)
				defer stop()
				behind, stop := c.derive(context.WithValue(ctx, key("span"), 1))
				defer stop()
				end()
				<-direct.Done()
				<-behind.Done()
				late, stop := c.derive(context.WithValue(ctx, key("span"), 1))
				defer stop()
				<-late.Done()
				for _, child := range []context.Context{direct, behind, late} {
					assert.Same(t, context.Cause(ctx), context.Cause(child))
					if c.name != "AfterFunc" { // whose child is a context of the test's own
						assert.Equal(t, e.sentinel, child.Err())
						e.looksLike(t, child.Err(), true)
					}
				}
			})
		})
	}
}

func TestEndsSeenInScopesBelow(t *testing.T) {
	t.Parallel()
	forEachEnd(t, func(t *testing.T, e end, ctx context.Context, end func()) {
		err := scope.Run(context.WithValue(ctx, key("span"), 1), "inner", budget.Inherited(), func(inner context.Context, s *scope.Scope) error {
			s.Go("task", func(ctx context.Context) error {
				<-ctx.Done()
				return context.Cause(ctx)
			})
			end()
			return s.Wait()
		})
		e.looksLike(t, err, false)
		var se *scope.Error
		require.ErrorAs(t, err, &se)
		assert.Same(t, context.Cause(ctx), se.Cause)
	})
}

// A server whose handlers tell that a request is there, and then wait for its
// end; /body sends the beginning of a body before.
type sleeper struct {
	*httptest.Server
	arrived chan struct{}
}

func newSleeper(t *testing.T, http2 bool) *sleeper {
	s := &sleeper{arrived: make(chan struct{}, 1)}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/warm":
			return
		case "/body":
			_, _ = w.Write([]byte("the beginning"))
			_ = http.NewResponseController(w).Flush()
		}
		s.arrived <- struct{}{}
		<-r.Context().Done()
	}))
	if http2 {
		s.EnableHTTP2 = true
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	resp, err := s.Client().Get(s.URL + "/warm")
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http2, resp.ProtoMajor == 2)
	return s
}

// onArrival calls f when a request has arrived, or when ctx ended before.
func (s *sleeper) onArrival(ctx context.Context, f func()) (done <-chan struct{}) {
	c := make(chan struct{})
	go func() {
		defer close(c)
		select {
		case <-s.arrived:
		case <-ctx.Done():
		}
		f()
	}()
	return c
}

// drain forgets the arrival of a request whose context ended before it arrived.
func (s *sleeper) drain() {
	select {
	case <-s.arrived:
	default:
	}
}

// For HTTP/1.1 net/http returns the cause. For HTTP/2 it returns the bare Err,
// which is right but names no limit; package curfewhttp puts the cause back.
func TestEndsSeenThroughAnHTTPClient(t *testing.T) {
	t.Parallel()
	for _, http2 := range []bool{false, true} {
		name := "HTTP/1.1"
		if http2 {
			name = "HTTP/2"
		}
		t.Run(name, func(t *testing.T) {
			server := newSleeper(t, http2)
			request := func(t *testing.T, ctx context.Context, path string) *http.Request {
				r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+path, nil)
				require.NoError(t, err)
				return r
			}
			for _, derived := range []bool{false, true} {
				suffix := ""
				if derived {
					suffix = " of a std child"
				}
				below := func(ctx context.Context) context.Context {
					if derived {
						return child(t, context.WithValue(ctx, key("span"), 1))
					}
					return ctx
				}
				t.Run("headers"+suffix, func(t *testing.T) {
					forEachEnd(t, func(t *testing.T, e end, ctx context.Context, end func()) {
						done := server.onArrival(ctx, end)
						_, err := server.Client().Do(request(t, below(ctx), "/headers"))
						<-done
						server.drain()
						require.IsType(t, &url.Error{}, err)
						e.looksLike(t, err, http2)
					})
				})
				t.Run("body"+suffix, func(t *testing.T) {
					forEachEnd(t, func(t *testing.T, e end, ctx context.Context, end func()) {
						resp, err := server.Client().Do(request(t, below(ctx), "/body"))
						if err == nil {
							end()
							_, err = io.ReadAll(resp.Body)
							resp.Body.Close()
						}
						server.drain()
						e.looksLike(t, err, http2)
					})
				})
			}
			t.Run("headers with a client timeout that is longer", func(t *testing.T) {
				forEachEnd(t, func(t *testing.T, e end, ctx context.Context, end func()) {
					client := *server.Client()
					client.Timeout = time.Minute
					done := server.onArrival(ctx, end)
					_, err := client.Do(request(t, ctx, "/headers"))
					<-done
					server.drain()
					e.looksLike(t, err, http2)
				})
			})
		})
	}
}

// Before the first byte a request waits for a connection.
func TestEndsSeenWhileAnHTTPClientConnects(t *testing.T) {
	t.Parallel()
	for _, phase := range []string{"dial", "tls handshake", "a connection of its host"} {
		t.Run(phase, func(t *testing.T) {
			forEachEnd(t, func(t *testing.T, e end, ctx context.Context, end func()) {
				waiting := make(chan struct{}, 1)
				tr := &http.Transport{}
				defer tr.CloseIdleConnections()
				target := "http://192.0.2.1/" // reserved for documentation; never dialled
				release := make(chan struct{})
				defer close(release)
				hang := func(ctx context.Context) (net.Conn, error) {
					waiting <- struct{}{}
					select {
					case <-ctx.Done():
						return nil, context.Cause(ctx)
					case <-release:
						return nil, net.ErrClosed
					}
				}
				switch phase {
				case "dial":
					tr.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return hang(ctx) }
				case "tls handshake":
					target = "https://192.0.2.1/"
					tr.TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
					tr.DialContext = func(context.Context, string, string) (net.Conn, error) {
						client, server := net.Pipe()
						go func() { // reads the hello and never answers
							_, _ = server.Read(make([]byte, 1))
							waiting <- struct{}{}
							<-release
							server.Close()
						}()
						return client, nil
					}
				default:
					tr.MaxConnsPerHost = 1
					tr.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return hang(context.Background()) }
					first, cancelFirst := context.WithCancel(context.Background())
					defer cancelFirst()
					r, _ := http.NewRequestWithContext(first, http.MethodGet, target, nil)
					go func() { _, _ = tr.RoundTrip(r) }()
				}
				go func() {
					select {
					case <-waiting:
					case <-ctx.Done():
					}
					end()
				}()
				r, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
				require.NoError(t, err)
				_, err = (&http.Client{Transport: tr}).Do(r)
				e.looksLike(t, err, false)
			})
		})
	}
}

// database/sql knows no causes: where it answers itself that is ctx.Err(). What
// a driver sees, and what it returns, is the whole of it.
func TestEndsSeenThroughDatabaseSQL(t *testing.T) {
	t.Parallel()
	type op struct {
		name string
		bare bool // database/sql answers, not the driver
		do   func(ctx context.Context, db *sql.DB, running func()) error
	}
	ops := []op{
		{"query", false, func(ctx context.Context, db *sql.DB, running func()) error {
			running()
			rows, err := db.QueryContext(ctx, "wait")
			if err == nil {
				rows.Close()
			}
			return err
		}},
		{"exec", false, func(ctx context.Context, db *sql.DB, running func()) error {
			running()
			_, err := db.ExecContext(ctx, "wait")
			return err
		}},
		{"exec in a transaction", false, func(ctx context.Context, db *sql.DB, running func()) error {
			tx, err := db.BeginTx(context.WithoutCancel(ctx), nil)
			if err != nil {
				return err
			}
			defer func() { _ = tx.Rollback() }()
			running()
			_, err = tx.ExecContext(ctx, "wait")
			return err
		}},
		{"rows", true, func(ctx context.Context, db *sql.DB, running func()) error {
			rows, err := db.QueryContext(ctx, "rows")
			if err != nil {
				return err
			}
			defer rows.Close()
			running()
			for rows.Next() {
				select { // a reader that takes its time
				case <-ctx.Done():
				case <-time.After(time.Millisecond):
				}
			}
			return rows.Err()
		}},
		{"waiting for a connection", true, func(ctx context.Context, db *sql.DB, running func()) error {
			conn, err := db.Conn(context.Background())
			if err != nil {
				return err
			}
			defer conn.Close()
			running()
			return db.PingContext(ctx)
		}},
		{"after the end", true, func(ctx context.Context, db *sql.DB, running func()) error {
			running()
			<-ctx.Done()
			return db.PingContext(ctx)
		}},
		{"begin after the end", true, func(ctx context.Context, db *sql.DB, running func()) error {
			running()
			<-ctx.Done()
			_, err := db.BeginTx(ctx, nil)
			return err
		}},
	}
	for _, op := range ops {
		t.Run(op.name, func(t *testing.T) {
			forEachEnd(t, func(t *testing.T, e end, ctx context.Context, end func()) {
				d := &waitingDriver{}
				db := sql.OpenDB(d)
				db.SetMaxOpenConns(1)
				defer db.Close()
				stopped := make(chan struct{})
				err := op.do(ctx, db, func() { go func() { defer close(stopped); end() }() })
				if err == nil {
					t.Fatal("no error")
				}
				bare := op.bare || d.seen() == nil // it may have ended before the driver was asked
				e.looksLike(t, err, bare)
				if seen := d.seen(); seen != nil {
					e.looksLike(t, seen, false)
					assert.Equal(t, e.sentinel, d.err)
				}
			})
		})
	}
}

// waitingDriver is a database whose statement "wait" runs until its context
// ends, and whose query "rows" never ends.
type waitingDriver struct {
	mu    sync.Mutex
	err   error // ctx.Err() as the driver saw it
	cause error
}

func (d *waitingDriver) seen() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cause
}

func (d *waitingDriver) Connect(context.Context) (driver.Conn, error) { return &waitingConn{d}, nil }
func (d *waitingDriver) Driver() driver.Driver                        { return nil }

type waitingConn struct{ d *waitingDriver }

func (c *waitingConn) Prepare(string) (driver.Stmt, error) { return nil, driver.ErrSkip }
func (c *waitingConn) Close() error                        { return nil }
func (c *waitingConn) Begin() (driver.Tx, error)           { return waitingTx{}, nil }
func (c *waitingConn) BeginTx(context.Context, driver.TxOptions) (driver.Tx, error) {
	return waitingTx{}, nil
}

func (c *waitingConn) wait(ctx context.Context) error {
	<-ctx.Done()
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	c.d.err, c.d.cause = ctx.Err(), context.Cause(ctx)
	return c.d.cause
}

func (c *waitingConn) QueryContext(ctx context.Context, query string, _ []driver.NamedValue) (driver.Rows, error) {
	if query == "rows" {
		return endlessRows{}, nil
	}
	return nil, c.wait(ctx)
}

func (c *waitingConn) ExecContext(ctx context.Context, _ string, _ []driver.NamedValue) (driver.Result, error) {
	return nil, c.wait(ctx)
}

type waitingTx struct{}

func (waitingTx) Commit() error   { return nil }
func (waitingTx) Rollback() error { return nil }

type endlessRows struct{}

func (endlessRows) Columns() []string            { return []string{"n"} }
func (endlessRows) Close() error                 { return nil }
func (endlessRows) Next(to []driver.Value) error { to[0] = int64(1); return nil }
