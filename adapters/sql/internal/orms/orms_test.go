package orms

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
)

func TestWhatStandsOnADatabaseRunsUnchangedAndItsStatementsEndInTime(t *testing.T) {
	for name, e := range engines(t) {
		for what, newKit := range kits {
			t.Run(name+", "+what, func(t *testing.T) {
				db := e.fresh(t)
				k := newKit(t, e, db)
				readsAndWrites(t, e, k)
				commitsAndRollsBack(t, k)
				endsInTime(t, e, db, k)
				endsInTimeInTransactions(t, db, k)
				beginsNothingWithoutTime(t, k)
				idle(t, db)
			})
		}
	}
}

func readsAndWrites(t *testing.T, e *engine, k kit) {
	ctx := within(t, patience)
	lamp := item{Name: "lamp", Cents: 1999, Note: sql.NullString{String: "ä ' \" \\", Valid: true}}
	desk := item{Name: "desk", Cents: 29900}
	for _, i := range []*item{&lamp, &desk} {
		id, err := k.add(ctx, *i)
		require.NoError(t, err)
		require.NotZero(t, id)
		i.ID = id
		got, err := k.get(ctx, id)
		require.NoError(t, err)
		assert.Equal(t, *i, got)
	}
	all, err := k.below(ctx, 1e9)
	require.NoError(t, err)
	assert.Equal(t, []item{lamp, desk}, all)
	all, err = k.below(ctx, 2000)
	require.NoError(t, err)
	assert.Equal(t, []item{lamp}, all)
	n, err := k.rename(ctx, lamp.ID, "light")
	require.NoError(t, err)
	assert.EqualValues(t, 1, n)
	n, err = k.rename(ctx, 1<<40, "nothing")
	require.NoError(t, err)
	assert.Zero(t, n)
	_, err = k.get(ctx, 1<<40)
	assert.ErrorIs(t, err, sql.ErrNoRows)
	_, err = k.add(ctx, desk)
	assert.True(t, e.conflict(err), "%T %v", err, err)
}

var errUser = errors.New("the user's own")

func commitsAndRollsBack(t *testing.T, k kit) {
	ctx := within(t, patience)
	var kept int64
	require.NoError(t, k.inTx(ctx, func(k kit) (err error) {
		kept, err = k.add(ctx, item{Name: "kept", Cents: 1})
		return err
	}))
	_, err := k.get(ctx, kept)
	assert.NoError(t, err)
	var gone int64
	assert.ErrorIs(t, k.inTx(ctx, func(k kit) (err error) {
		if gone, err = k.add(ctx, item{Name: "gone", Cents: 1}); err != nil {
			return err
		}
		if _, err := k.get(ctx, gone); err != nil {
			return err
		}
		return errUser
	}), errUser)
	_, err = k.get(ctx, gone)
	assert.ErrorIs(t, err, sql.ErrNoRows)
}

// A runaway statement over enough rows for hours.
func endsInTime(t *testing.T, e *engine, db *sql.DB, k kit) {
	ctx := within(t, patience)
	require.NoError(t, k.inTx(ctx, func(k kit) error {
		for i := range 300 {
			if _, err := k.add(ctx, item{Name: fmt.Sprint("item ", i), Cents: int64(i)}); err != nil {
				return err
			}
		}
		return nil
	}))
	for range 2 {
		began := time.Now()
		err := k.cross(within(t, 200*time.Millisecond))
		isDeadline(t, err)
		assert.Less(t, time.Since(began), patience)
		idle(t, db)
		if running := e.running(t, db); running >= 0 {
			require.Eventually(t, func() bool { return e.running(t, db) == 0 }, patience, time.Millisecond, "the server works on")
		}
		_, err = k.below(ctx, 10)
		require.NoError(t, err)
	}
}

func endsInTimeInTransactions(t *testing.T, db *sql.DB, k kit) {
	var id int64
	ctx := within(t, 300*time.Millisecond)
	err := k.inTx(ctx, func(k kit) (err error) {
		if id, err = k.add(ctx, item{Name: "never", Cents: 1}); err != nil {
			return err
		}
		return k.cross(ctx)
	})
	isDeadline(t, err)
	idle(t, db)
	if id != 0 { // else the machine was too slow
		_, err = k.get(within(t, patience), id)
		assert.ErrorIs(t, err, sql.ErrNoRows)
	}
}

func beginsNothingWithoutTime(t *testing.T, k kit) {
	ctx, cancel := context.WithDeadline(context.Background(), time.Now().Add(-time.Second))
	defer cancel()
	_, err := k.add(ctx, item{Name: "late", Cents: 1})
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.ErrorIs(t, k.inTx(ctx, func(kit) error { panic("begun") }), context.DeadlineExceeded)
	all, err := k.below(within(t, patience), 2)
	require.NoError(t, err)
	for _, i := range all {
		assert.NotEqual(t, "late", i.Name)
	}
}

func isDeadline(t *testing.T, err error) {
	t.Helper()
	var cause *budget.Cause
	require.Truef(t, errors.As(err, &cause), "%T %v", err, err)
	assert.Equal(t, budget.DeadlineExceeded, cause.Kind)
	assert.ErrorIs(t, err, context.DeadlineExceeded)
}

// running counts the runaway statements in the server; it is negative where there is no server.
func (e *engine) running(t *testing.T, db *sql.DB) (n int) {
	t.Helper()
	query := map[string]string{
		"pgx":   "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%items e WHERE%' AND pid <> pg_backend_pid()",
		"mysql": "SELECT count(*) FROM information_schema.processlist WHERE info LIKE '%items e WHERE%' AND id <> connection_id()",
	}[e.sqlx]
	if query == "" {
		return -1
	}
	require.NoError(t, db.QueryRowContext(within(t, patience), query).Scan(&n))
	return n
}
