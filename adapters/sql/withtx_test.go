package curfewsql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	curfewsql "github.com/curfew-go/curfew/adapters/sql"
)

func TestWithTxDoesNotSayNotCommittedOfWhatItsFunctionCommitted(t *testing.T) {
	var j journal
	db := curfewsql.Wrap(connects(func(context.Context) (driver.Conn, error) { return fullConn{leastConn{&j}}, nil }), curfewsql.WithDialect(plain{}))
	defer db.Close()
	var commit *curfewsql.CommitError

	err := curfewsql.WithTx(t.Context(), db, within(time.Minute), func(_ context.Context, tx *sql.Tx) error { return tx.Commit() })
	assert.ErrorIs(t, err, sql.ErrTxDone)
	assert.False(t, errors.As(err, &commit), "%v", err)
	assert.Equal(t, 1, j.count("commit"))

	err = curfewsql.WithTx(t.Context(), db, within(time.Minute), func(_ context.Context, tx *sql.Tx) error { return tx.Rollback() })
	assert.ErrorIs(t, err, sql.ErrTxDone)
	assert.True(t, errors.As(err, &commit) && commit.Outcome == curfewsql.NotCommitted, "%v", err)
}
