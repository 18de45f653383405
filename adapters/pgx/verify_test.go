package curfewpgx_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewpgx "github.com/curfew-go/curfew/adapters/pgx"
	"github.com/curfew-go/curfew/internal/netproxy"
	"github.com/curfew-go/curfew/internal/servers"
)

// askTheLimit is run and names what statement_timeout the server then has.
func askTheLimit(t *testing.T, q querier) (shown string) {
	t.Helper()
	require.NoError(t, q.QueryRow(within(t, 30*time.Second), "select current_setting('statement_timeout')").Scan(&shown))
	return shown
}

// pgbouncer takes the startup option and drops it. We rely on none: what the option says is part of the
// limit that goes with each statement, and whether that arrives is asked with SHOW, once for a pool.
func TestCase54_AStartupOptionThatAPoolerIgnoresIsInForceAllTheSameAndTheLimitIsVerifiedOnce(t *testing.T) {
	server := start(t)
	bouncer := servers.StartPgBouncer(t, server, "ignore_startup_parameters=statement_timeout")
	eachMode(t, func(t *testing.T, mode pgx.QueryExecMode) {
		if mode == pgx.QueryExecModeCacheStatement {
			t.Skip("pgx's named statements do not survive a pooler in transaction mode, ours or not")
		}
		proxy := netproxy.New(t, bouncer.Addr())
		cfg := config(t, bouncer, proxy.Addr(), mode)
		cfg.RuntimeParams["statement_timeout"] = "20s"
		plain := cfg.Copy()
		plain.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
		assert.Equal(t, "0", askTheLimit(t, bare(t, plain)), "the option was ignored")

		curfewpgx.Configure(cfg, curfewpgx.BehindPooler(), curfewpgx.Log(slog.New(slog.NewTextHandler(failing{t}, nil))))
		assert.Zero(t, curfewpgx.StatsOf(cfg).LimitsSeen)
		first := bare(t, cfg)
		before := proxy.Turns()
		assert.Equal(t, "20s", askTheLimit(t, first))
		turns := proxy.Turns() - before
		assert.EqualValues(t, 1, curfewpgx.StatsOf(cfg).LimitsSeen, "verified")
		for range 3 { // which do not ask
			conn := bare(t, cfg)
			before := proxy.Turns()
			assert.Equal(t, "20s", askTheLimit(t, conn))
			assert.Equal(t, turns, proxy.Turns()-before)
		}
		stats := curfewpgx.StatsOf(first.Config())
		assert.EqualValues(t, 1, stats.LimitsSeen, "once")
		assert.Zero(t, stats.LimitsMissed)
	})
}

func TestCase54_TheQuestionCostsNoTurn(t *testing.T) {
	server := start(t)
	eachMode(t, func(t *testing.T, mode pgx.QueryExecMode) {
		var turns [2]int64
		for i, configure := range []bool{false, true} {
			proxy := netproxy.New(t, server.Addr())
			cfg := config(t, server, proxy.Addr(), mode)
			if configure {
				curfewpgx.Configure(cfg)
			}
			conn := bare(t, cfg)
			before := proxy.Turns()
			require.NoError(t, ask(within(t, time.Minute), conn, "select $1::int")) // the first of the connection
			turns[i] = proxy.Turns() - before
			if configure {
				assert.EqualValues(t, 1, curfewpgx.StatsOf(cfg).LimitsSeen)
			}
		}
		assert.Equal(t, turns[0], turns[1])
	})
}

// failing fails the test that something is logged in.
type failing struct{ t *testing.T }

func (f failing) Write(p []byte) (int, error) {
	f.t.Errorf("logged: %s", p)
	return len(p), nil
}

// A deafConn is a pooler that takes what sets a limit, and sets something else.
type deafConn struct{ net.Conn }

func (c deafConn) Write(p []byte) (int, error) {
	for _, set := range []string{"set local statement_timeout", "set_config('statement_timeout'"} {
		other := strings.Replace(set, "statement_timeout", "curfew.not_at_all", 1) // of the same length
		p = bytes.ReplaceAll(p, []byte(set), []byte(other))
	}
	return c.Conn.Write(p)
}

func TestCase54_ALimitThatTheServerDoesNotHaveIsReported(t *testing.T) {
	server := start(t)
	eachMode(t, func(t *testing.T, mode pgx.QueryExecMode) {
		cfg := config(t, server, server.Addr(), mode)
		dial := cfg.DialFunc
		var deaf atomic.Bool
		deaf.Store(true)
		cfg.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dial(ctx, network, addr)
			if err == nil && deaf.Load() {
				conn = deafConn{conn}
			}
			return conn, err
		}
		told := &told{lines: make(chan struct{}, 1)}
		pool := newPool(t, cfg, 4, curfewpgx.Log(slog.New(slog.NewTextHandler(told, nil))))
		all := func(want string) {
			fresh(t, pool, 4, func(conn *pgxpool.Conn) {
				for range 3 {
					shown := askTheLimit(t, conn)
					assert.Equal(t, want == "0", shown == "0", shown)
				}
			})
		}
		all("0")
		stats := curfewpgx.StatsOf(pool.Config().ConnConfig)
		assert.EqualValues(t, 4, stats.LimitsMissed, "each connection asks, once")
		assert.Zero(t, stats.LimitsSeen)
		select {
		case <-told.lines:
		case <-time.After(late):
			t.Fatal("nothing was told")
		}
		deaf.Store(false)
		all("a limit")
		after := curfewpgx.StatsOf(cfg)
		assert.Equal(t, stats.LimitsMissed, after.LimitsMissed)
		assert.NotZero(t, after.LimitsSeen)
		assert.Equal(t, 1, strings.Count(told.String(), "does not show the statement limit"), "once: %s", told)
	})
}

// fresh is atOnce with new connections.
func fresh(t *testing.T, pool *pgxpool.Pool, size int, f func(*pgxpool.Conn)) {
	t.Helper()
	pool.Reset()
	atOnce(t, pool, size, f)
}

// atOnce has f run at once with each of size connections of pool.
func atOnce(t *testing.T, pool *pgxpool.Pool, size int, f func(*pgxpool.Conn)) {
	t.Helper()
	var wait, got sync.WaitGroup
	got.Add(size)
	for range size {
		wait.Go(func() {
			conn, err := pool.Acquire(context.Background())
			got.Done()
			if !assert.NoError(t, err) {
				return
			}
			defer conn.Release()
			got.Wait()
			f(conn)
		})
	}
	wait.Wait()
}

func TestStatsAreOfWhatWasConfiguredAndOfItsCopies(t *testing.T) {
	assert.PanicsWithValue(t, "curfewpgx: StatsOf: nil cfg", func() { curfewpgx.StatsOf(nil) })
	cfg, err := pgx.ParseConfig("")
	require.NoError(t, err)
	assert.PanicsWithValue(t, "curfewpgx: StatsOf: cfg: not configured", func() { curfewpgx.StatsOf(cfg) })
	cfg.Tracer = &noted{}
	assert.PanicsWithValue(t, "curfewpgx: StatsOf: cfg: not configured", func() { curfewpgx.StatsOf(cfg) })
	curfewpgx.Configure(cfg, curfewpgx.FreshSessions())
	assert.Zero(t, curfewpgx.StatsOf(cfg))
	assert.Zero(t, curfewpgx.StatsOf(cfg.Copy()))
}
