package curfewsql_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"

	curfewsql "github.com/curfew-go/curfew/adapters/sql"
)

// returning is a connection whose statements give one row and then fail with err. Close of the rows
// is silent about what Next has said, as that of go-sql-driver is.
type returning struct {
	killableConn
	err error
}

func (c *returning) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if query != "insert returning" {
		return c.killableConn.QueryContext(ctx, query, args)
	}
	return &failingRows{err: c.err}, nil
}

type failingRows struct {
	leastRows
	err error
}

func (r *failingRows) Next(dest []driver.Value) error {
	if r.read {
		return r.err
	}
	return r.leastRows.Next(dest)
}

// A row of INSERT RETURNING comes before the statement is committed.
func TestAWriteThatFailsBehindItsFirstRowIsNoSuccess(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context()) // for the ladder
	defer cancel()
	var commit *curfewsql.CommitError
	for _, c := range []struct {
		fails   error
		unknown bool
	}{{codeError("duplicate"), false}, {io.ErrUnexpectedEOF, true}} {
		server := &killable{}
		db := curfewsql.Wrap(connects(func(context.Context) (driver.Conn, error) {
			return &returning{killableConn{leastConn{&server.j}, server, 1}, c.fails}, nil
		}), curfewsql.WithDialect(server))
		defer db.Close()

		var n int
		err := db.QueryRowContext(ctx, "insert returning").Scan(&n)
		assert.ErrorIs(t, err, c.fails, "Scan")
		assert.Equal(t, c.unknown, errors.As(err, &commit) && commit.Outcome == curfewsql.Unknown, "%v", err)

		rows, err := db.QueryContext(ctx, "insert returning")
		assert.NoError(t, err)
		for rows.Next() {
		}
		assert.ErrorIs(t, rows.Err(), c.fails, "Next")
		assert.Equal(t, c.unknown, errors.As(rows.Err(), &commit) && commit.Outcome == curfewsql.Unknown, "%v", rows.Err())
	}
}
