package curfewpgx_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewpgx "github.com/curfew-go/curfew/adapters/pgx"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/netproxy"
)

func TestWithTxEndsWhatItBegins(t *testing.T) {
	server := start(t)
	k := newKeeper(t, server, pgx.QueryExecModeCacheStatement, curfewpgx.Slush(roomy))
	insert := func(ctx context.Context, tx pgx.Tx, n int) (uint32, error) {
		_, err := tx.Exec(ctx, "insert into kept values ($1)", n)
		return tx.Conn().PgConn().PID(), err
	}
	var pid uint32
	within := func(d time.Duration, f func(ctx context.Context, tx pgx.Tx) error) error {
		return curfewpgx.WithTx(context.Background(), k.pool, budget.Within(d), f)
	}

	failure := errors.New("no")
	err := within(time.Minute, func(ctx context.Context, tx pgx.Tx) (err error) {
		pid, err = insert(ctx, tx, 1)
		require.NoError(t, err)
		return failure
	})
	assert.Equal(t, failure, err)
	assert.False(t, k.there(t, pid, 1))

	assert.PanicsWithValue(t, "fn", func() {
		_ = within(time.Minute, func(ctx context.Context, tx pgx.Tx) (err error) {
			pid, err = insert(ctx, tx, 2)
			require.NoError(t, err)
			panic("fn")
		})
	})
	assert.False(t, k.there(t, pid, 2))

	err = within(time.Second, func(ctx context.Context, tx pgx.Tx) (err error) {
		pid, err = insert(ctx, tx, 3)
		require.NoError(t, err)
		<-ctx.Done()
		return nil
	})
	var commit *curfewpgx.CommitError
	require.True(t, errors.As(err, &commit))
	assert.Equal(t, curfewpgx.NotCommitted, commit.Outcome, "nothing was sent")
	assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err))
	assert.False(t, k.there(t, pid, 3))

	err = within(time.Minute, func(ctx context.Context, tx pgx.Tx) error { return tx.Commit(ctx) })
	assert.ErrorIs(t, err, pgx.ErrTxClosed)
	assert.False(t, errors.As(err, &commit), "it may be there or not")

	err = within(time.Minute, func(ctx context.Context, tx pgx.Tx) error {
		_, _ = tx.Exec(ctx, "selec")
		return nil
	})
	require.True(t, errors.As(err, &commit))
	assert.Equal(t, curfewpgx.NotCommitted, commit.Outcome)
	assert.ErrorIs(t, err, pgx.ErrTxCommitRollback)

	assert.Eventually(t, func() bool { return k.pool.Stat().AcquiredConns() == 0 }, 5*time.Second, time.Millisecond)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.Equal(t, budget.ParentCancelled, budget.KindOf(curfewpgx.WithTx(ctx, k.pool, budget.Within(time.Second), nothing)))
	assert.PanicsWithValue(t, "curfewpgx: WithTx: nil db", func() { _ = curfewpgx.WithTx(t.Context(), nil, budget.Inherited(), nothing) })
	assert.PanicsWithValue(t, "curfewpgx: WithTx: nil fn", func() { _ = curfewpgx.WithTx(t.Context(), k.pool, budget.Inherited(), nil) })
	assert.PanicsWithValue(t, "curfewpgx: Resolve: nil db", func() { _, _ = curfewpgx.Resolve(t.Context(), nil, failure) })
}

func TestResolveOfNoCommitIsAnErrorAndNoPanic(t *testing.T) {
	failure := errors.New("no")
	for _, err := range []error{failure, nil} {
		was, again := curfewpgx.Resolve(t.Context(), &pgx.Conn{}, err)
		assert.Equal(t, curfewpgx.Unknown, was)
		require.Error(t, again)
		assert.Equal(t, err != nil, errors.Is(again, failure))
	}
}

func nothing(context.Context, pgx.Tx) error { return nil }

func TestWithTxSaysThatItWaitedForAConnection(t *testing.T) {
	server := start(t)
	pool := newPool(t, config(t, server, server.Addr(), pgx.QueryExecModeExec), 1)
	conn, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	err = curfewpgx.WithTx(t.Context(), pool, budget.Within(50*time.Millisecond), nothing)
	var cause *budget.Cause
	require.True(t, errors.As(err, &cause), "%v", err)
	assert.Equal(t, budget.DeadlineExceeded, cause.Kind)
	assert.Equal(t, "pool_wait", cause.Phase)
}

func TestACommitThatComesLateIsThereAndSaysSo(t *testing.T) {
	server := start(t)
	k := newKeeper(t, server, pgx.QueryExecModeExec, curfewpgx.Slush(roomy))
	ctx, cancel := context.WithCancel(t.Context())
	_, err := k.watcher.Exec(ctx, `create function slow_keep() returns trigger language plpgsql as $$ begin perform pg_sleep(0.1); return null; end $$;
		create constraint trigger s after insert on kept deferrable initially deferred for each row execute function slow_keep()`)
	require.NoError(t, err)
	k.proxy.OnSend(func(b []byte) netproxy.Fate {
		if bytes.Contains(b, []byte("commit\x00")) {
			cancel() // the grace is longer than COMMIT
		}
		return netproxy.Pass
	})
	err = curfewpgx.WithTx(ctx, k.pool, budget.Within(time.Minute), func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "insert into kept values ($1)", 1)
		return err
	})
	var commit *curfewpgx.CommitError
	require.True(t, errors.As(err, &commit), "%v", err)
	assert.Equal(t, curfewpgx.CommittedLate, commit.Outcome, "%v", err)
	assert.NotZero(t, commit.XID)
	assert.Equal(t, budget.ParentCancelled, budget.KindOf(err))
	var rows int
	require.NoError(t, k.watcher.QueryRow(t.Context(), "select count(*) from kept").Scan(&rows))
	assert.Equal(t, 1, rows)
}
