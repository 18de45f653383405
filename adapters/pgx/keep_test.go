package curfewpgx_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewpgx "github.com/curfew-go/curfew/adapters/pgx"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/servers"
	"github.com/curfew-go/curfew/internal/stress"
)

// pidOf returns the server's process behind the only place of pool.
func pidOf(t *testing.T, q querier) (pid int) {
	t.Helper()
	require.NoError(t, q.QueryRow(within(t, late), "select pg_backend_pid()").Scan(&pid))
	return pid
}

// shortly is a deadline that passes while a server is frozen.
const shortly = 100 * time.Millisecond

// whileFrozen runs f with server frozen.
func whileFrozen(server *servers.Server, f func()) {
	server.Freeze()
	defer server.Thaw()
	f()
}

func TestASessionThatWasGivenUpComesBackAsANewOne(t *testing.T) {
	server := servers.Start(t, servers.PostgreSQL)
	cfg := config(t, server, server.Addr(), pgx.QueryExecModeCacheStatement)
	cfg.RuntimeParams["application_name"] = "ours"
	curfewpgx.Configure(cfg, curfewpgx.Patience(late))
	pc, err := pgxpool.ParseConfig("")
	require.NoError(t, err)
	made := 0
	pc.ConnConfig, pc.MaxConns = cfg, 1
	pc.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		made++
		_, err := conn.Exec(ctx, "create temp table seen (n int)") // fails where there is one
		return err
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), pc)
	require.NoError(t, err)
	defer pool.Close()
	_, err = pool.Exec(t.Context(), "create table kept (n int)")
	require.NoError(t, err)
	before := pidOf(t, pool)
	for what, giveUp := range map[string]func() error{
		"in a statement": func() error {
			server.Freeze()
			return run(within(t, shortly), pool, "select 1, $1::int")
		},
		"in a transaction": func() error {
			tx, err := pool.Begin(t.Context())
			require.NoError(t, err)
			_, err = tx.Exec(t.Context(), "insert into kept values (1)")
			require.NoError(t, err)
			server.Freeze()
			err = run(within(t, shortly), tx, "select 1, $1::int")
			assert.Error(t, tx.Rollback(t.Context()))
			return err
		},
		"in a batch": func() error {
			server.Freeze()
			ctx := within(t, shortly)
			var b pgx.Batch
			b.Queue("select pg_sleep(0), $1::int", 1) // of several a cancel is sent
			return curfewpgx.Error(ctx, pool.SendBatch(ctx, &b).Close())
		},
		"in a ping": func() error {
			server.Freeze()
			ctx := within(t, shortly)
			return curfewpgx.Error(ctx, pool.Ping(ctx))
		},
	} {
		t.Run(what, func(t *testing.T) {
			for _, text := range []string{"set work_mem = '1234kB'", "set application_name = 'other'", "listen x", "select pg_advisory_lock(1)",
				"insert into seen values (1)", "prepare mine as select 1"} {
				_, err := pool.Exec(t.Context(), text)
				require.NoError(t, err, text)
			}
			was, counted := made, curfewpgx.StatsOf(cfg)
			err := giveUp()
			server.Thaw()
			assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err), "%v", err)
			assert.Equal(t, before, pidOf(t, pool), "the same session")
			counted.Kept, counted.Reused = counted.Kept+1, counted.Reused+1
			assert.Equal(t, counted, curfewpgx.StatsOf(cfg))
			assert.Equal(t, was+1, made, "to the driver it is a new connection")
			var name, memory, schema string
			var locks, channels, prepared, seen, kept int
			require.NoError(t, pool.QueryRow(t.Context(), `select current_setting('application_name'), current_setting('work_mem'), current_schema,
				(select count(*) from pg_locks where locktype = 'advisory'), (select count(*) from pg_listening_channels()),
				(select count(*) from pg_prepared_statements where name = 'mine'), (select count(*) from seen), (select count(*) from kept)`).
				Scan(&name, &memory, &schema, &locks, &channels, &prepared, &seen, &kept))
			assert.Equal(t, "ours", name)
			assert.NotEqual(t, "1234kB", memory)
			assert.Equal(t, make([]int, 5), []int{locks, channels, prepared, seen, kept})
			require.NoError(t, pool.AcquireFunc(t.Context(), func(conn *pgxpool.Conn) error {
				assert.Equal(t, "ours", conn.Conn().PgConn().ParameterStatus("application_name"))
				assert.EqualValues(t, before, conn.Conn().PgConn().PID())
				assert.Equal(t, server.Host, conn.Conn().Config().Host, "the configuration is as it was")
				assert.Empty(t, conn.Conn().Config().Fallbacks)
				return nil
			}))
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(20*time.Millisecond, cancel)
			err = run(ctx, pool, runaways["sleep"])
			assert.Equal(t, budget.Cancelled, budget.KindOf(err), "a cancel has the key that it needs: %v", err)
			before = pidOf(t, pool)
		})
	}
}

func TestACommitThatWasGivenUpIsUnknownAndItsSessionComesBack(t *testing.T) {
	server := servers.Start(t, servers.PostgreSQL)
	pool := newPool(t, config(t, server, server.Addr(), pgx.QueryExecModeCacheStatement), 1, curfewpgx.Patience(late))
	_, err := pool.Exec(t.Context(), "create table frozen (n int)")
	require.NoError(t, err)
	for n := range stress.Shown(3, 30) {
		before := pidOf(t, pool)
		frozenInACommit(t, server, pool, n) // and resolved at the end
		server.Thaw()
		assert.Equal(t, before, pidOf(t, pool))
	}
}

// endless is a source of rows for COPY that never ends.
type endless struct {
	first sync.Once
	begun chan struct{}
}

func (e *endless) Next() bool {
	e.first.Do(func() { close(e.begun) })
	time.Sleep(time.Microsecond)
	return true
}
func (e *endless) Values() ([]any, error) { return []any{1}, nil }
func (e *endless) Err() error             { return nil }

func TestWhatWaitsForDataIsClosed(t *testing.T) {
	server := servers.Start(t, servers.PostgreSQL)
	pool := newPool(t, config(t, server, server.Addr(), pgx.QueryExecModeCacheStatement), 1)
	_, err := pool.Exec(t.Context(), "create table copied (n int)")
	require.NoError(t, err)
	before := pidOf(t, pool)
	frozen := false
	for d := time.Second; !frozen; d *= 2 { // until that was time enough to begin
		require.LessOrEqual(t, d, 2*late)
		source := &endless{begun: make(chan struct{})}
		ctx := within(t, d)
		ended := make(chan error, 1)
		go func() {
			_, err := pool.CopyFrom(ctx, pgx.Identifier{"copied"}, []string{"n"}, source)
			ended <- curfewpgx.Error(ctx, err)
		}()
		select {
		case <-source.begun:
		case <-ctx.Done():
		}
		whileFrozen(server, func() {
			left, _ := budget.Remaining(ctx)
			frozen = left > d/4 // or the server's limit came first
			err := <-ended
			assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err), "%v", err)
		})
		if !frozen {
			before = pidOf(t, pool)
		}
	}
	assert.NotEqual(t, before, pidOf(t, pool))
	var rows int
	require.NoError(t, pool.QueryRow(t.Context(), "select count(*) from copied").Scan(&rows))
	assert.Zero(t, rows)
}

func TestAServerThatIsKilledIsLoggedInToAnew(t *testing.T) {
	server := servers.Start(t, servers.PostgreSQL)
	pool := newPool(t, config(t, server, server.Addr(), pgx.QueryExecModeCacheStatement), 2)
	fill(t, pool, 2)
	server.Freeze()
	assert.Error(t, run(within(t, shortly), pool, "select 1, $1::int"))
	assert.Error(t, run(within(t, shortly), pool, "select 1, $1::int"))
	assert.Error(t, run(within(t, 2*shortly), pool, "select 1, $1::int"), "a login in the freeze")
	server.Kill()
	server.Restart()
	fill(t, pool, 2)
}

func TestASessionThatDoesNotAnswerIsClosed(t *testing.T) {
	server := servers.Start(t, servers.PostgreSQL)
	watcher := bare(t, config(t, server, server.Addr(), pgx.QueryExecModeExec))
	cfg := config(t, server, server.Addr(), pgx.QueryExecModeCacheStatement)
	cfg.RuntimeParams["application_name"] = "kept"
	pool := newPool(t, cfg, 1, curfewpgx.KeepFor(shortly))
	before := pidOf(t, pool)
	stats := func() curfewpgx.Stats { return curfewpgx.StatsOf(pool.Config().ConnConfig) }
	whileFrozen(server, func() {
		assert.Error(t, run(within(t, shortly), pool, "select 1, $1::int"))
		assert.EqualValues(t, 1, stats().Kept)
		assert.Error(t, run(within(t, 3*shortly), pool, "select 1, $1::int"))
	})
	assert.NotEqual(t, before, pidOf(t, pool))
	require.Eventually(t, func() bool {
		var n int
		require.NoError(t, watcher.QueryRow(t.Context(), "select count(*) from pg_stat_activity where application_name = 'kept'").Scan(&n))
		return n == 1
	}, late, time.Millisecond)
	require.Eventually(t, func() bool { return stats().Dropped == 1 }, late, time.Millisecond)
	assert.Zero(t, stats().Reused)
	assert.Zero(t, stats().KeptNow)
}

func TestAPoolIsClosedWithoutAWaitForWhatIsKept(t *testing.T) {
	server := servers.Start(t, servers.PostgreSQL)
	watcher := bare(t, config(t, server, server.Addr(), pgx.QueryExecModeExec))
	cfg := config(t, server, server.Addr(), pgx.QueryExecModeCacheStatement)
	cfg.RuntimeParams["application_name"] = "kept"
	pool := newPool(t, cfg, 2)
	fill(t, pool, 2)
	whileFrozen(server, func() {
		for range 3 { // the last one leaves a login behind
			assert.Error(t, run(within(t, shortly), pool, "select 1, $1::int"))
		}
		began := time.Now()
		pool.Close()
		assertTook(t, time.Since(began), 0, 50*time.Millisecond, "until the pool was closed")
	})
	require.Eventually(t, func() bool {
		var n int
		require.NoError(t, watcher.QueryRow(t.Context(), "select count(*) from pg_stat_activity where application_name = 'kept'").Scan(&n))
		return n == 0
	}, late, time.Millisecond)
}

func TestASessionIsForNobodyElse(t *testing.T) {
	server := servers.Start(t, servers.PostgreSQL)
	admin := bare(t, config(t, server, server.Addr(), pgx.QueryExecModeExec))
	_, err := admin.Exec(t.Context(), "create role other login password 'secret'")
	require.NoError(t, err)
	cfg := config(t, server, server.Addr(), pgx.QueryExecModeCacheStatement)
	curfewpgx.Configure(cfg, curfewpgx.Patience(late))
	was := cfg.Copy()
	for name, differ := range map[string]func(*pgx.ConnConfig){
		"user":       func(c *pgx.ConnConfig) { c.User, c.Password = "other", "secret" },
		"parameters": func(c *pgx.ConnConfig) { c.RuntimeParams["search_path"] = "pg_catalog" },
		"database":   func(c *pgx.ConnConfig) { c.Database = "template1" },
	} {
		t.Run(name, func(t *testing.T) {
			first, second := bare(t, cfg), bare(t, cfg)
			before := []int{pidOf(t, first), pidOf(t, second)}
			whileFrozen(server, func() {
				assert.Error(t, run(within(t, shortly), first, "select 1, $1::int"))
				assert.Error(t, run(within(t, shortly), second, "select 1, $1::int"))
			})
			other := cfg.Copy()
			differ(other)
			assert.NotContains(t, before, pidOf(t, bare(t, other)))
			assert.Equal(t, before[1], pidOf(t, bare(t, cfg)), "the first one is closed for the other login")
			assert.NotContains(t, before, pidOf(t, bare(t, cfg)), "nor for two")
		})
	}
	assert.Equal(t, []any{was.Host, was.Port, was.Fallbacks, was.RuntimeParams}, []any{cfg.Host, cfg.Port, cfg.Fallbacks, cfg.RuntimeParams})
}

// grows waits until eight more are counted.
func grows(t *testing.T, n *atomic.Int64) {
	t.Helper()
	was := n.Load()
	assert.Eventually(t, func() bool { return n.Load() >= was+8 }, late, time.Millisecond)
}

// While a server freezes and thaws, callers come and go. Each gets its own answer or none.
func TestNobodyGetsTheAnswerOfAnotherCall(t *testing.T) {
	server := servers.Start(t, servers.PostgreSQL)
	pool := newPool(t, config(t, server, server.Addr(), pgx.QueryExecModeCacheStatement), 4)
	_, err := pool.Exec(t.Context(), "create table written (n int primary key)")
	require.NoError(t, err)
	var next, answered, lost atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for ctx.Err() == nil {
				n := int(next.Add(1))
				var got int
				call, cancel := context.WithTimeout(context.Background(), time.Duration(2+rand.IntN(60))*time.Millisecond)
				var err error
				switch n % 4 {
				case 0:
					err = pool.QueryRow(call, "insert into written values ($1) returning n", n).Scan(&got)
				case 1:
					err = pool.QueryRow(call, "select $1::int from pg_sleep(0.02)", n).Scan(&got)
				case 2:
					err = pool.QueryRow(call, fmt.Sprintf("select %d", n)).Scan(&got)
				case 3:
					err = curfewpgx.WithTx(call, pool, budget.Within(time.Second), func(ctx context.Context, tx pgx.Tx) error {
						return tx.QueryRow(ctx, "select $1::int", n).Scan(&got)
					})
				}
				cancel()
				if err == nil {
					assert.Equal(t, n, got)
					answered.Add(1)
				} else {
					lost.Add(1)
				}
			}
		})
	}
	for range stress.Shown(10, 100) {
		grows(t, &answered)
		whileFrozen(server, func() { grows(t, &lost) })
	}
	stop()
	workers.Wait()
	fill(t, pool, 4)
	var busy int
	require.NoError(t, pool.QueryRow(t.Context(), "select count(*) from pg_stat_activity where state like 'idle in%'").Scan(&busy))
	assert.Zero(t, busy, "open transactions")
	t.Logf("%d answers, %d calls without one, %d connections made", answered.Load(), lost.Load(), pool.Stat().NewConnsCount())
	assert.NotZero(t, answered.Load())
	assert.NotZero(t, lost.Load())
}
