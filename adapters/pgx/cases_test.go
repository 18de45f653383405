package curfewpgx_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewpgx "github.com/curfew-go/curfew/adapters/pgx"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/netproxy"
	"github.com/curfew-go/curfew/internal/servers"
)

func TestCase44_AQueryUnderADeadlineEndsWithCancelsBlocked(t *testing.T) {
	server := start(t)
	watcher := bare(t, config(t, server, server.Addr(), pgx.QueryExecModeExec))
	proxy := netproxy.New(t, server.Addr())
	conn := connect(t, config(t, server, proxy.Addr(), pgx.QueryExecModeCacheStatement))
	ctx := within(t, 300*time.Millisecond)
	tx, err := conn.Begin(ctx)
	require.NoError(t, err)
	proxy.Deafen(true)
	began := time.Now()
	assert.ErrorIs(t, run(ctx, tx, runaways["sleep"]), context.DeadlineExceeded)
	assertTook(t, time.Since(began), 0, 350*time.Millisecond, "until the deadline")
	_ = tx.Rollback(t.Context()) // fails if the connection had to be given up
	assert.Zero(t, running(t, watcher), "working, or idle in a transaction")
}

func TestCase55_NothingOfTheLimitIsLeftForTheNextClientOfAPooler(t *testing.T) {
	server := start(t)
	bouncer := servers.StartPgBouncer(t, server, "default_pool_size=1")
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec} {
		t.Run(mode.String(), func(t *testing.T) {
			ours := connect(t, config(t, bouncer, bouncer.Addr(), mode), curfewpgx.BehindPooler())
			other := bare(t, config(t, bouncer, bouncer.Addr(), pgx.QueryExecModeSimpleProtocol))
			for range 50 {
				ctx := within(t, 30*time.Second)
				var mine, theirs string
				require.NoError(t, ours.QueryRow(ctx, "select current_setting('statement_timeout')").Scan(&mine))
				require.NoError(t, other.QueryRow(ctx, "select current_setting('statement_timeout')").Scan(&theirs))
				assertLimit(t, 30*time.Second, mine)
				require.Equal(t, "0", theirs)
			}
			err := run(within(t, 150*time.Millisecond), ours, runaways["sleep"])
			assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err), "%v", err)
		})
	}
}

func TestCase57_NoNoticePerStatement(t *testing.T) {
	server := start(t)
	eachMode(t, func(t *testing.T, mode pgx.QueryExecMode) {
		cfg := config(t, server, server.Addr(), mode)
		cfg.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { t.Errorf("notice: %s", n.Message) }
		conn := connect(t, cfg)
		for _, w := range walks[4:7] { // transactions
			require.NoError(t, w.walk(within(t, time.Minute), conn))
		}
		for range 3 {
			require.NoError(t, ask(within(t, time.Minute), conn, "select $1::int"))
		}
	})
}

func TestCase58_VacuumAndConcurrentIndexesRun(t *testing.T) {
	server := start(t)
	conn := connect(t, config(t, server, server.Addr(), pgx.QueryExecModeCacheStatement))
	for _, sql := range []string{"create table c58 (n int)", "vacuum c58", "create index concurrently on c58 (n)"} {
		_, err := conn.Exec(within(t, time.Minute), sql)
		assert.NoError(t, err, sql)
	}
}

func TestCase60_ADeferredTriggerIsCutBeforeTheCommit(t *testing.T) {
	server := start(t)
	eachModeAtOnce(t, func(t *testing.T, mode pgx.QueryExecMode) {
		table := fmt.Sprintf("c60_%d", mode)
		setup := bare(t, config(t, server, server.Addr(), mode))
		_, err := setup.Exec(t.Context(), strings.ReplaceAll(`create table TBL (n int);
			create or replace function slow_TBL() returns trigger language plpgsql as
			$$ begin perform pg_sleep(case new.n when 1 then 0 else 60 end); return null; end $$;
			create constraint trigger s after insert on TBL deferrable initially deferred
			for each row execute function slow_TBL()`, "TBL", table))
		require.NoError(t, err)
		conn := connect(t, config(t, server, server.Addr(), mode), curfewpgx.Slush(roomy))
		insert := func(d time.Duration, n int) (took time.Duration, err error) {
			ctx := within(t, d)
			tx, err := conn.Begin(ctx)
			require.NoError(t, err)
			_, err = tx.Exec(ctx, "insert into "+table+" values ($1)", n)
			require.NoError(t, err)
			began := time.Now()
			err = curfewpgx.Error(ctx, tx.Commit(ctx))
			return time.Since(began), err
		}
		_, err = insert(time.Minute, 1)
		require.NoError(t, err)
		took, err := insert(500*time.Millisecond, 2)
		assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err), "%v", err)
		assertTook(t, took, 0, 550*time.Millisecond, "until the deadline")
		var rows int
		require.NoError(t, setup.QueryRow(t.Context(), "select count(*) from "+table).Scan(&rows))
		assert.Equal(t, 1, rows)
	})
}

func TestDatabaseSQLCarriesTheDeadlineToo(t *testing.T) {
	server := start(t)
	cfg := config(t, server, server.Addr(), pgx.QueryExecModeCacheStatement)
	theirs := &noted{}
	cfg.Tracer = theirs
	curfewpgx.Configure(cfg)
	db := sql.OpenDB(stdlib.GetConnector(*cfg))
	defer db.Close()
	for range 3 {
		var v string
		require.NoError(t, db.QueryRowContext(within(t, 30*time.Second), "show statement_timeout").Scan(&v))
		assert.Equal(t, "0", v, "show has none of its own")
		require.NoError(t, db.QueryRowContext(within(t, 30*time.Second), "select current_setting('statement_timeout')").Scan(&v))
		assertLimit(t, 30*time.Second, v)
	}
	assert.NotZero(t, theirs.started, "the user's tracer goes on")
	assert.Equal(t, theirs.started, theirs.ended)
	ctx := within(t, 200*time.Millisecond)
	_, err := db.ExecContext(ctx, "select pg_sleep($1)", 60)
	err = curfewpgx.Error(ctx, err)
	assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err), "%v", err)
}

func TestALockTimeoutNamesItsPhase(t *testing.T) {
	server := start(t)
	holder := bare(t, config(t, server, server.Addr(), pgx.QueryExecModeExec))
	conn := connect(t, config(t, server, server.Addr(), pgx.QueryExecModeExec))
	_, err := holder.Exec(t.Context(), "create table held (n int)")
	require.NoError(t, err)
	_, err = holder.Exec(t.Context(), "begin; lock table held")
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), "set lock_timeout to 50")
	require.NoError(t, err)
	ctx := within(t, time.Minute)
	_, err = conn.Exec(ctx, "insert into held values (1)")
	err = curfewpgx.Error(ctx, err)
	var cause *budget.Cause
	require.True(t, errors.As(err, &cause))
	assert.Equal(t, budget.DependencyTimeout, cause.Kind)
	assert.Equal(t, "lock_wait", cause.Phase)
	assert.Equal(t, "55P03", stateOf(err))
}
