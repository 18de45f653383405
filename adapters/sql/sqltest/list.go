package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewsql "github.com/curfew-go/curfew/adapters/sql"
	"github.com/curfew-go/curfew/budget"
)

// late is when a statement that takes a minute must have ended, on a busy machine.
const late = 10 * time.Second

// Run runs the list, each item as a subtest.
func Run(t *testing.T, c Config) {
	for _, item := range []struct {
		name string
		test func(*testing.T, Config)
	}{
		{"AWrappedDatabaseAnswersAsABareOne", answersAsBare},
		{"AQueryEndsByItsDeadline", queryEnds},
		{"AWriteThatEndsByItsDeadlineLeavesNoRow", writeEnds},
		{"APreparedStatementEndsByItsDeadline", preparedEnds},
		{"WithLessThanAMillisecondNothingIsSent", tooLate},
		{"OneWhoOptsOutIsEndedFromTheClient", optsOut},
		{"ACancelIsNoDeadline", cancelled},
		{"AnErrorThatTimeDidNotMakeStaysItself", otherErrors},
		{"ATransactionEndsItsStatements", txEndsStatements},
		{"ARollbackAfterTheDeadlineKeepsTheConnection", rollbackKeeps},
		{"APinnedConnectionRefusesStatementsOfADoomedTransaction", pinned},
		{"NothingRunsBehindATransactionThatTheServerEnded", over},
		{"WithTxCommitsRollsBackAndSaysWhich", withTx},
		{"AConnectionHasItsDriversOwnWithin", unwraps},
		{"ACtxThatEndsInTheMiddleOfATransactionLeavesNoRow", race},
		{"ACancelNeverReachesTheNextStatement", reuse},
	} {
		t.Run(item.name, func(t *testing.T) { item.test(t, c) })
	}
}

// ends checks that f, under a deadline of a quarter of a second, was ended by it.
func ends(t *testing.T, f func(ctx context.Context) error) {
	t.Helper()
	began := time.Now()
	ctx := within(t, 250*time.Millisecond)
	err := f(ctx)
	took := time.Since(began)
	require.Error(t, err)
	var cause *budget.Cause
	require.True(t, errors.As(err, &cause), "%T %v", err, err)
	assert.Equal(t, budget.DeadlineExceeded, cause.Kind, "%v", err)
	assert.Equal(t, "statement", cause.Phase)
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Less(t, took, late)
	t.Logf("back after %v: %v", took, err)
}

func queryEnds(t *testing.T, c Config) {
	db := c.open(t)
	db.SetMaxOpenConns(1)
	kept := 0
	for range 3 {
		before := backend(t, db)
		ends(t, func(ctx context.Context) error {
			var ignored any
			return db.QueryRowContext(ctx, c.Slow).Scan(&ignored)
		})
		require.NoError(t, db.PingContext(t.Context()))
		if backend(t, db) == before {
			kept++
		}
	}
	if c.KeepsConnection {
		assert.NotZero(t, kept, "on a busy machine an answer may come too late, but not three times")
	}
	assert.Zero(t, db.Stats().InUse)
}

// backend returns the driver's connection that db uses, of which there is one.
func backend(t *testing.T, db *sql.DB) (inner any) {
	t.Helper()
	conn, err := db.Conn(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.Raw(func(c any) error {
		inner = curfewsql.Unwrap(c)
		return nil
	}))
	return inner
}

func writeEnds(t *testing.T, c Config) {
	db := c.open(t)
	ends(t, func(ctx context.Context) error {
		_, err := db.ExecContext(ctx, c.SlowInsert)
		return err
	})
	assert.Zero(t, count(t, db))
}

func preparedEnds(t *testing.T, c Config) {
	db := c.open(t)
	insert, err := db.PrepareContext(t.Context(), c.args("insert into t (n) values (?)"))
	require.NoError(t, err)
	defer insert.Close()
	for _, ctx := range []context.Context{t.Context(), within(t, time.Minute), curfewsql.Without(within(t, time.Minute))} {
		_, err := insert.ExecContext(ctx, 7)
		require.NoError(t, err)
	}
	assert.Equal(t, 3, count(t, db))

	slow, err := db.PrepareContext(t.Context(), c.Slow)
	require.NoError(t, err)
	defer slow.Close()
	for range 2 {
		ends(t, func(ctx context.Context) error {
			var ignored any
			return slow.QueryRowContext(ctx).Scan(&ignored)
		})
	}
}

func tooLate(t *testing.T, c Config) {
	db := c.open(t)
	require.NoError(t, db.PingContext(t.Context()))
	rejected := 0
	for range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), 950*time.Microsecond)
		_, err := db.ExecContext(ctx, c.args("insert into t (n) values (?)"), 1)
		err = curfewsql.Error(ctx, err)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		if budget.KindOf(err) == budget.LocalBudgetRejected {
			rejected++
		}
	}
	assert.NotZero(t, rejected)
	assert.Zero(t, count(t, db))
}

func optsOut(t *testing.T, c Config) {
	db := c.open(t)
	ctx := curfewsql.Without(within(t, 250*time.Millisecond))
	began := time.Now()
	var ignored any
	err := curfewsql.Error(ctx, db.QueryRowContext(ctx, c.Slow).Scan(&ignored)) // database/sql may be the first to see it
	assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err), "%v", err)
	assert.GreaterOrEqual(t, time.Since(began), 250*time.Millisecond)
	assert.Less(t, time.Since(began), late)
	require.NoError(t, db.PingContext(t.Context()))
}

func cancelled(t *testing.T, c Config) {
	db := c.open(t)
	for _, parent := range []context.Context{t.Context(), within(t, time.Minute)} {
		ctx, cancel := context.WithCancel(parent)
		time.AfterFunc(50*time.Millisecond, cancel)
		began := time.Now()
		_, err := db.ExecContext(ctx, c.SlowInsert)
		t.Logf("back after %v: %v", time.Since(began), err)
		assert.Equal(t, budget.Cancelled, budget.KindOf(err), "%v", err)
		assert.NotErrorIs(t, err, context.DeadlineExceeded)
		assert.Less(t, time.Since(began), late)
		require.NoError(t, db.PingContext(t.Context()))
	}
	assert.Zero(t, count(t, db))
}

func otherErrors(t *testing.T, c Config) {
	db := c.open(t)
	_, err := db.ExecContext(within(t, time.Minute), "insert into nothing_of_that_name (n) values (1)")
	require.Error(t, err)
	assert.Equal(t, budget.Failed, budget.KindOf(err))
	var cause *budget.Cause
	assert.False(t, errors.As(err, &cause))
	var commit *curfewsql.CommitError
	assert.False(t, errors.As(err, &commit))
	require.NoError(t, db.PingContext(t.Context()))
}

func unwraps(t *testing.T, c Config) {
	db := c.open(t)
	bare := sql.OpenDB(c.Connector(t))
	defer bare.Close()
	assert.IsType(t, backend(t, bare), backend(t, db))
}
