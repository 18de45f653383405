package curfewpgx_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewpgx "github.com/curfew-go/curfew/adapters/pgx"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/netproxy"
	"github.com/curfew-go/curfew/internal/stress"
)

// runaways are statements that nobody should have started. The number keeps
// texts apart in pg_stat_activity.
var runaways = map[string]string{
	"sleep":      "select pg_sleep(60), $1::int",
	"cross join": "select count(*), $1::int from generate_series(1,3000000) a, generate_series(1,3000000) b",
	"insert":     "with f as (insert into filled select a from generate_series(1,3000000) a, generate_series(1,3000000) b returning 1) select count(*), $1::int from f",
}

// running counts what server works on, but for the question itself.
func running(t *testing.T, watcher *pgx.Conn) (n int) {
	t.Helper()
	err := watcher.QueryRow(context.Background(), `select count(*) from pg_stat_activity
		where datname = current_database() and state <> 'idle' and backend_type = 'client backend' and pid <> pg_backend_pid()`).Scan(&n)
	require.NoError(t, err)
	return n
}

// run asks for one row of two values and returns the error as callers see it.
func run(ctx context.Context, q querier, sql string) error {
	var ignored any
	var n int
	return curfewpgx.Error(ctx, q.QueryRow(ctx, sql, 1).Scan(&ignored, &n))
}

func TestARunawayIsOverInTheServerAtTheDeadlineWithCancelsBlocked(t *testing.T) {
	server := start(t)
	watcher := bare(t, config(t, server, server.Addr(), pgx.QueryExecModeExec))
	_, err := watcher.Exec(t.Context(), "create table filled (n bigint)")
	require.NoError(t, err)
	eachMode(t, func(t *testing.T, mode pgx.QueryExecMode) {
		for name, sql := range runaways {
			if stress.Level() == 0 && name == "sleep" && mode != pgx.QueryExecModeExec {
				continue // the others sleep less
			}
			for range stress.Shown(1, 20) {
				proxy := netproxy.New(t, server.Addr())
				conn := connect(t, config(t, server, proxy.Addr(), mode))
				require.NoError(t, conn.Ping(t.Context()))
				proxy.Deafen(true) // no cancel request gets through
				began := time.Now()
				err := run(within(t, 200*time.Millisecond), conn, sql)
				assertTook(t, time.Since(began), 0, 300*time.Millisecond, name+", until the caller is back")
				assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err), "%s: %v", name, err)
				for running(t, watcher) > 0 {
					require.Less(t, time.Since(began), late, "%s: it runs on", name)
				}
				assertTook(t, time.Since(began), 0, 300*time.Millisecond, name+", until it is gone from pg_stat_activity")
				require.NoError(t, conn.Close(t.Context()))
			}
		}
	})
	var rows int
	require.NoError(t, watcher.QueryRow(t.Context(), "select count(*) from filled").Scan(&rows))
	assert.Zero(t, rows)
}

func TestAStatementThatTheLimitEndedLeavesTheConnection(t *testing.T) {
	server := start(t)
	eachModeAtOnce(t, func(t *testing.T, mode pgx.QueryExecMode) {
		conn := connect(t, config(t, server, server.Addr(), mode), curfewpgx.Slush(roomy))
		require.NoError(t, conn.Ping(t.Context()))
		pid := conn.PgConn().PID()
		for range 2 {
			err := run(within(t, time.Second), conn, runaways["sleep"])
			assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err), "%v", err)
			assert.Equal(t, "57014", stateOf(err))
			require.NoError(t, run(t.Context(), conn, "select 1, $1::int"))
		}
		assert.Equal(t, pid, conn.PgConn().PID())
	})
}

func TestARunawayInATransactionLeavesItToTheCallerToRollBack(t *testing.T) {
	server := start(t)
	eachModeAtOnce(t, func(t *testing.T, mode pgx.QueryExecMode) {
		conn := connect(t, config(t, server, server.Addr(), mode), curfewpgx.Slush(roomy))
		tx, err := conn.Begin(within(t, time.Minute))
		require.NoError(t, err)
		ctx := within(t, time.Second)
		err = run(ctx, tx, runaways["sleep"])
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, tx.Rollback(t.Context()))
		assert.Equal(t, byte('I'), conn.PgConn().TxStatus())
		assert.False(t, conn.IsClosed())
	})
}

func TestABatchAndACopyAreLimitedAsAWhole(t *testing.T) {
	server := start(t)
	eachModeAtOnce(t, func(t *testing.T, mode pgx.QueryExecMode) {
		conn := connect(t, config(t, server, server.Addr(), mode), curfewpgx.Slush(roomy))
		table := fmt.Sprintf("slow_%d", mode)
		_, err := conn.Exec(t.Context(), strings.ReplaceAll(`create table TBL (n int);
			create or replace function slowly_TBL() returns trigger language plpgsql as
			$$ begin perform pg_sleep(60); return new; end $$;
			create trigger s before insert on TBL for each row execute function slowly_TBL()`, "TBL", table))
		require.NoError(t, err)
		var b pgx.Batch
		b.Queue("select $1::int", 1)
		b.Queue("select pg_sleep(60), $1::int", 1)
		ctx := within(t, time.Second)
		err = curfewpgx.Error(ctx, conn.SendBatch(ctx, &b).Close())
		assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err), "%v", err)
		ctx = within(t, time.Second)
		_, err = conn.CopyFrom(ctx, pgx.Identifier{table}, []string{"n"}, pgx.CopyFromRows([][]any{{1}}))
		err = curfewpgx.Error(ctx, err)
		assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err), "%v", err)
		assert.Equal(t, "57014", stateOf(err))
		require.NoError(t, conn.Ping(t.Context()))
	})
}

func TestWithLessThanAMillisecondNothingIsSent(t *testing.T) {
	server := start(t)
	proxy := netproxy.New(t, server.Addr())
	conn := connect(t, config(t, server, proxy.Addr(), pgx.QueryExecModeCacheStatement))
	before := proxy.Turns()
	for range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), 900*time.Microsecond)
		err := run(ctx, conn, "select 1, $1::int")
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		var cause *budget.Cause
		require.True(t, errors.As(err, &cause), "%T %v", err, err)
		assert.Contains(t, []budget.Kind{budget.LocalBudgetRejected, budget.DeadlineExceeded}, cause.Kind)
		assert.True(t, pgconn.SafeToRetry(err))
	}
	assert.Equal(t, before, proxy.Turns())
	require.NoError(t, conn.Ping(t.Context()))
}

func TestOneWhoOptsOutHasNoLimit(t *testing.T) {
	server := start(t)
	conn := connect(t, config(t, server, server.Addr(), pgx.QueryExecModeExec))
	ctx := within(t, time.Minute)
	tx, err := conn.Begin(ctx)
	require.NoError(t, err)
	var v string
	require.NoError(t, tx.QueryRow(curfewpgx.Without(ctx), "show statement_timeout").Scan(&v))
	assert.Equal(t, "0", v)
	require.NoError(t, tx.Rollback(ctx))
}

func TestACancelBySomebodyElseIsNotTheDeadline(t *testing.T) {
	server := start(t)
	conn := connect(t, config(t, server, server.Addr(), pgx.QueryExecModeExec))
	other := bare(t, config(t, server, server.Addr(), pgx.QueryExecModeExec))
	var wait sync.WaitGroup
	defer wait.Wait()
	wait.Go(func() {
		for running(t, other) == 0 {
		}
		_, err := other.Exec(context.Background(), "select pg_cancel_backend($1)", int32(conn.PgConn().PID()))
		assert.NoError(t, err)
	})
	err := run(within(t, time.Minute), conn, runaways["sleep"])
	assert.Equal(t, "57014", stateOf(err))
	assert.NotErrorIs(t, err, context.DeadlineExceeded)
	assert.Equal(t, budget.Failed, budget.KindOf(err))
}

func stateOf(err error) string {
	if pg := (*pgconn.PgError)(nil); errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}
