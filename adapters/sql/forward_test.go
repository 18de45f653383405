package curfewsql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewsql "github.com/curfew-go/curfew/adapters/sql"
)

// What a driver is asked, and what users get from it, is the same with us in between,
// whatever optional interfaces it has.
func TestADriverIsAskedTheSameAndAnswersTheSame(t *testing.T) {
	for name, conn := range map[string]func(j *journal) driver.Conn{
		"with nothing optional": func(j *journal) driver.Conn { return leastConn{j} },
		"of old":                func(j *journal) driver.Conn { return oldConn{leastConn{j}} },
		"with everything":       func(j *journal) driver.Conn { return fullConn{leastConn{j}} },
	} {
		t.Run(name, func(t *testing.T) {
			var bare, wrapped journal
			want := use(sql.OpenDB(connects(func(context.Context) (driver.Conn, error) { return conn(&bare), nil })))
			got := use(curfewsql.Wrap(connects(func(context.Context) (driver.Conn, error) { return conn(&wrapped), nil }), curfewsql.WithDialect(plain{})))
			assert.Equal(t, want, got)
			assert.Equal(t, bare.read(), wrapped.read())
		})
	}
}

// use does with db what users do and writes down all that comes of it.
func use(db *sql.DB) (text []string) {
	defer db.Close()
	db.SetMaxOpenConns(1)
	ctx := context.Background()
	note := func(args ...any) { text = append(text, fmt.Sprintln(args...)) }
	read := func(rows *sql.Rows, err error) {
		if err != nil {
			note(err)
			return
		}
		defer rows.Close()
		for more := true; more; more = rows.NextResultSet() {
			types, err := rows.ColumnTypes()
			note(err)
			for _, c := range types {
				l, hasL := c.Length()
				p, s, hasP := c.DecimalSize()
				n, hasN := c.Nullable()
				note(c.Name(), c.DatabaseTypeName(), c.ScanType(), l, hasL, p, s, hasP, n, hasN)
			}
			for rows.Next() {
				var v any
				note(rows.Scan(&v), v)
			}
		}
		note(rows.Err())
	}
	note(db.PingContext(ctx))
	for _, args := range [][]any{nil, {1}, {true, "gone"}, {sql.Named("a", 1)}} {
		for _, query := range []string{"x", "skip"} {
			_, err := db.ExecContext(ctx, query, args...)
			note(err)
			read(db.QueryContext(ctx, query, args...))
		}
	}
	if stmt, err := db.PrepareContext(ctx, "p"); err != nil {
		note(err)
	} else {
		for _, args := range [][]any{nil, {1}, {true}, {"x", 2}, {struct{}{}}, {sql.Named("a", 1)}} {
			_, err := stmt.ExecContext(ctx, args...)
			note(err)
			read(stmt.QueryContext(ctx, args...))
		}
		note(stmt.Close())
	}
	for _, opts := range []*sql.TxOptions{nil, {Isolation: sql.LevelSerializable}, {ReadOnly: true}} {
		tx, err := db.BeginTx(ctx, opts)
		note(err)
		if err != nil {
			continue
		}
		_, err = tx.Exec("in")
		note(err, tx.Commit())
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		note(err)
		return text
	}
	note(tx.Rollback(), tx.Rollback())
	return text
}

func TestRawReachesTheDriversConnection(t *testing.T) {
	var j journal
	inner := fullConn{leastConn{&j}}
	db := curfewsql.Wrap(connects(func(context.Context) (driver.Conn, error) { return inner, nil }), curfewsql.WithDialect(plain{}))
	defer db.Close()
	conn, err := db.Conn(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.Raw(func(c any) error {
		assert.Equal(t, inner, curfewsql.Unwrap(c))
		assert.NotEqual(t, inner, c)
		return nil
	}))
	assert.Equal(t, inner, curfewsql.Unwrap(inner), "of a driver that is not wrapped")
}

func TestBadCallsPanicNamingTheArgument(t *testing.T) {
	db := curfewsql.Wrap(connects(nil), curfewsql.WithDialect(plain{}))
	defer db.Close()
	f := func(context.Context, *sql.Tx) error { return nil }
	for want, call := range map[string]func(){
		"curfewsql: Wrap: nil connector":        func() { curfewsql.Wrap(nil) },
		"curfewsql: Wrap: nil opts":             func() { curfewsql.Wrap(connects(nil), nil) },
		"curfewsql: Open: nil opts":             func() { _, _ = curfewsql.Open("x", "", nil) },
		"curfewsql: WithTx: nil db":             func() { _ = curfewsql.WithTx(t.Context(), nil, within(1), f) },
		"curfewsql: Resolve: nil db":            func() { _, _ = curfewsql.Resolve(t.Context(), nil, &curfewsql.CommitError{}, nil) },
		"curfewsql: WithTx: nil f":              func() { _ = curfewsql.WithTx(t.Context(), db, within(1), nil) },
		"curfewsql: WithTx: more than one opts": func() { _ = curfewsql.WithTx(t.Context(), db, within(1), f, sql.TxOptions{}, sql.TxOptions{}) },
		"curfewsql: WithDialect: nil d":         func() { curfewsql.WithDialect(nil) },
		"curfewsql: Poll: nil db":               func() { curfewsql.Poll(nil, "x") },
		"curfewsql: Poll: empty query":          func() { curfewsql.Poll(db, "") },
	} {
		assert.PanicsWithValue(t, want, call)
	}
}

func TestOpenDoesNotTellTheDataSourceName(t *testing.T) {
	_, err := curfewsql.Open("nobody", "user:secret@host")
	require.Error(t, err)
	assert.NotContains(t, err.Error(), "secret")
	db, err := curfewsql.Open("mydriver", "user:secret@host", curfewsql.WithDialect(plain{}))
	require.NoError(t, err)
	defer db.Close()
	require.NoError(t, db.Ping())
	assert.Equal(t, old{}, db.Driver())
}

// old is a driver from before connectors.
type old struct{}

func (old) Open(string) (driver.Conn, error) { return leastConn{&journal{}}, nil }
