package sqltest

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// lost reports whether err says that the connection was given up, as a driver may that
// ends a statement by ending its connection.
func lost(err error) bool {
	return errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone)
}

// answersAsBare asks both and compares all that database/sql shows.
func answersAsBare(t *testing.T, c Config) {
	wrapped := c.open(t)
	bare := sql.OpenDB(c.Connector(t))
	defer bare.Close()
	require.NotEmpty(t, c.Shapes)
	for _, shape := range c.Shapes {
		for _, ctx := range []context.Context{t.Context(), within(t, time.Minute)} {
			assert.Equal(t, answer(t.Context(), bare, shape), answer(ctx, wrapped, shape), shape)
			assert.Equal(t, prepared(t.Context(), bare, shape), prepared(ctx, wrapped, shape), shape)
		}
	}
	insert := c.args("insert into t (n) values (?)")
	_, want := bare.ExecContext(t.Context(), insert)
	_, err := wrapped.ExecContext(within(t, time.Minute), insert)
	assert.Equal(t, fmt.Sprint(want), fmt.Sprint(err), "an argument is missing")
	exec(t, wrapped, "delete from t")
	for _, db := range []*sql.DB{bare, wrapped} {
		result, err := db.ExecContext(within(t, time.Minute), insert, 3)
		require.NoError(t, err)
		n, err := result.RowsAffected()
		require.NoError(t, err)
		assert.Equal(t, int64(1), n)
	}
	assert.Equal(t, 2, count(t, wrapped))
	for _, db := range []*sql.DB{bare, wrapped} { // without arguments it may go another way
		result, err := db.ExecContext(within(t, time.Minute), "update t set n = n + 1")
		require.NoError(t, err)
		n, err := result.RowsAffected()
		require.NoError(t, err)
		assert.Equal(t, int64(2), n)
	}
}

func answer(ctx context.Context, db *sql.DB, query string) string {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return err.Error()
	}
	return all(rows)
}

func prepared(ctx context.Context, db *sql.DB, query string) string {
	stmt, err := db.PrepareContext(ctx, query)
	if err != nil {
		return err.Error()
	}
	defer stmt.Close()
	rows, err := stmt.QueryContext(ctx)
	if err != nil {
		return err.Error()
	}
	return all(rows)
}

// all writes down all of rows, result set by result set.
func all(rows *sql.Rows) (text string) {
	defer rows.Close()
	for more := true; more; more = rows.NextResultSet() {
		types, err := rows.ColumnTypes()
		if err != nil {
			return err.Error()
		}
		for _, c := range types {
			length, hasLength := c.Length()
			precision, scale, hasScale := c.DecimalSize()
			nullable, knowsNull := c.Nullable()
			text += fmt.Sprintln(c.Name(), c.DatabaseTypeName(), c.ScanType(), length, hasLength, precision, scale, hasScale, nullable, knowsNull)
		}
		for rows.Next() {
			row := make([]any, len(types))
			for i := range row {
				row[i] = new(any)
			}
			if err := rows.Scan(row...); err != nil {
				return err.Error()
			}
			for _, v := range row {
				text += fmt.Sprintf("%T %v\n", *v.(*any), *v.(*any))
			}
		}
	}
	return text + fmt.Sprintln(rows.Err())
}
