package curfewsql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewsql "github.com/curfew-go/curfew/adapters/sql"
	"github.com/curfew-go/curfew/adapters/sql/dialect"
)

// failing is a database of which each kind of call fails as it is told to. It counts its connections.
type failing struct {
	plain
	exec, commit, rollback error
	conns                  int
}

func (f *failing) Judge(err error) dialect.Verdict {
	v := f.plain.Judge(err)
	v.TxOver = v.Code == "deadlock"
	return v
}

func (f *failing) open(t *testing.T) *sql.DB {
	db := curfewsql.Wrap(connects(func(context.Context) (driver.Conn, error) {
		f.conns++
		return failingConn{leastConn{&journal{}}, f}, nil
	}), curfewsql.WithDialect(f))
	t.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(1)
	return db
}

type failingConn struct {
	leastConn
	f *failing
}

func (c failingConn) ExecContext(context.Context, string, []driver.NamedValue) (driver.Result, error) {
	return driver.RowsAffected(1), c.f.exec
}

func (c failingConn) Begin() (driver.Tx, error) { return failingTx(c), nil }

type failingTx failingConn

func (t failingTx) Commit() error   { return t.f.commit }
func (t failingTx) Rollback() error { return t.f.rollback }

func TestARollbackThatFailsCostsTheConnectionUnlessNothingIsLeftToRollBack(t *testing.T) {
	for name, c := range map[string]struct {
		exec error
		kept bool
	}{"open": {nil, false}, "over": {codeError("deadlock"), true}} {
		f := &failing{exec: c.exec, rollback: codeError("no transaction")}
		db := f.open(t)
		tx, err := db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		_, err = tx.Exec("insert")
		assert.Equal(t, c.exec, err, name)
		assert.Equal(t, c.kept, tx.Rollback() == nil, name)
		require.NoError(t, db.Ping())
		assert.Equal(t, c.kept, f.conns == 1, name)
	}
}

func TestACommitThatItsCtxCutCostsTheConnection(t *testing.T) {
	f := &failing{commit: context.DeadlineExceeded}
	db := f.open(t)
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	err = tx.Commit()
	var commit *curfewsql.CommitError
	require.True(t, errors.As(err, &commit), "%v", err)
	assert.Equal(t, curfewsql.Unknown, commit.Outcome)
	require.NoError(t, db.Ping())
	assert.Equal(t, 2, f.conns, "it may be in the middle of its answer")
}
