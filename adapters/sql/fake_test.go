package curfewsql_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/curfew-go/curfew/adapters/sql/dialect"
)

// plain is a dialect that leaves everything to the driver.
type plain struct{}

func (plain) Name() string { return "plain" }
func (plain) Limit(s dialect.Statement, _ time.Duration) dialect.Statement {
	return s
}
func (plain) Begin(dialect.Transaction, time.Duration) string { return "" }
func (plain) Commit(dialect.Transaction, time.Duration) (text string, armed bool) {
	return "", false
}
func (plain) Rollback(dialect.Transaction) string { return "" }
func (plain) Judge(err error) dialect.Verdict {
	var coded codeError
	if errors.As(err, &coded) {
		return dialect.Verdict{Code: string(coded), Reason: map[codeError]dialect.Reason{"killed": dialect.Interrupted, "limit": dialect.LimitRanOut}[coded]}
	}
	return dialect.Verdict{}
}

// codeError is an error with a server's code.
type codeError string

func (e codeError) Error() string { return "fake: error " + string(e) }

// A journal is what a fake driver was asked. It is safe for use by many goroutines.
type journal struct {
	mu    sync.Mutex
	lines []string // guarded by mu
}

func (j *journal) note(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, fmt.Sprintf(format, args...))
}

func (j *journal) read() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]string(nil), j.lines...)
}

func (j *journal) count(line string) (n int) {
	for _, l := range j.read() {
		if l == line {
			n++
		}
	}
	return n
}

// connects makes connections by a function.
type connects func(ctx context.Context) (driver.Conn, error)

func (c connects) Connect(ctx context.Context) (driver.Conn, error) { return c(ctx) }
func (c connects) Driver() driver.Driver                            { return nil }

// leastConn has nothing that a driver need not have.
type leastConn struct{ j *journal }

func (c leastConn) Prepare(q string) (driver.Stmt, error) {
	c.j.note("prepare %s", q)
	return leastStmt(c), nil
}
func (c leastConn) Close() error { return nil }
func (c leastConn) Begin() (driver.Tx, error) {
	c.j.note("begin")
	return fakeTx(c), nil
}

type fakeTx struct{ j *journal }

func (t fakeTx) Commit() error   { t.j.note("commit"); return nil }
func (t fakeTx) Rollback() error { t.j.note("rollback"); return nil }

type leastStmt struct{ j *journal }

func (s leastStmt) Close() error  { s.j.note("close statement"); return nil }
func (s leastStmt) NumInput() int { return -1 }
func (s leastStmt) Exec(args []driver.Value) (driver.Result, error) {
	s.j.note("stmt exec %v", args)
	return driver.RowsAffected(1), nil
}
func (s leastStmt) Query(args []driver.Value) (driver.Rows, error) {
	s.j.note("stmt query %v", args)
	return &leastRows{}, nil
}

// leastRows is one row of one column.
type leastRows struct{ read bool }

func (r *leastRows) Columns() []string { return []string{"n"} }
func (r *leastRows) Close() error      { return nil }
func (r *leastRows) Next(dest []driver.Value) error {
	if r.read {
		return io.EOF
	}
	r.read, dest[0] = true, int64(7)
	return nil
}

// oldConn is a driver from before contexts, that converts arguments by column.
type oldConn struct{ leastConn }

func (c oldConn) Exec(q string, args []driver.Value) (driver.Result, error) {
	c.j.note("exec %s %v", q, args)
	return driver.RowsAffected(1), nil
}
func (c oldConn) Query(q string, args []driver.Value) (driver.Rows, error) {
	c.j.note("query %s %v", q, args)
	if strings.Contains(q, "skip") {
		return nil, driver.ErrSkip
	}
	return &leastRows{}, nil
}
func (c oldConn) Prepare(q string) (driver.Stmt, error) {
	c.j.note("prepare %s", q)
	return oldStmt{leastStmt{c.j}}, nil
}

type oldStmt struct{ leastStmt }

func (s oldStmt) NumInput() int { return 1 }
func (s oldStmt) ColumnConverter(i int) driver.ValueConverter {
	s.j.note("converter of %d", i)
	return driver.Bool
}

// fullConn has everything.
type fullConn struct{ leastConn }

func (c fullConn) Ping(context.Context) error { c.j.note("ping"); return nil }
func (c fullConn) ExecContext(_ context.Context, q string, args []driver.NamedValue) (driver.Result, error) {
	c.j.note("exec %s %v", q, args)
	if strings.Contains(q, "skip") {
		return nil, driver.ErrSkip
	}
	return driver.RowsAffected(1), nil
}
func (c fullConn) QueryContext(_ context.Context, q string, args []driver.NamedValue) (driver.Rows, error) {
	c.j.note("query %s %v", q, args)
	if strings.Contains(q, "skip") {
		return nil, driver.ErrSkip
	}
	return &fullRows{}, nil
}
func (c fullConn) PrepareContext(_ context.Context, q string) (driver.Stmt, error) {
	c.j.note("prepare %s", q)
	return fullStmt{leastStmt{c.j}}, nil
}
func (c fullConn) BeginTx(_ context.Context, opts driver.TxOptions) (driver.Tx, error) {
	c.j.note("begin %+v", opts)
	return fakeTx{c.j}, nil
}
func (c fullConn) CheckNamedValue(v *driver.NamedValue) error {
	c.j.note("check %v", v.Value)
	if v.Value == "gone" {
		return driver.ErrRemoveArgument
	}
	return driver.ErrSkip
}
func (c fullConn) ResetSession(context.Context) error { c.j.note("reset"); return nil }
func (c fullConn) IsValid() bool                      { c.j.note("valid"); return true }

type fullStmt struct{ leastStmt }

func (s fullStmt) ExecContext(_ context.Context, args []driver.NamedValue) (driver.Result, error) {
	s.j.note("stmt exec %v", args)
	return driver.RowsAffected(1), nil
}
func (s fullStmt) QueryContext(_ context.Context, args []driver.NamedValue) (driver.Rows, error) {
	s.j.note("stmt query %v", args)
	return &fullRows{}, nil
}
func (s fullStmt) CheckNamedValue(v *driver.NamedValue) error {
	s.j.note("stmt check %v", v.Value)
	return nil
}

// fullRows are two result sets.
type fullRows struct {
	leastRows
	second bool
}

func (r *fullRows) HasNextResultSet() bool { return !r.second }
func (r *fullRows) NextResultSet() error {
	if r.second {
		return io.EOF
	}
	r.second, r.read = true, false
	return nil
}
func (r *fullRows) ColumnTypeScanType(int) reflect.Type       { return reflect.TypeFor[int8]() }
func (r *fullRows) ColumnTypeDatabaseTypeName(int) string     { return "TINY" }
func (r *fullRows) ColumnTypeLength(int) (int64, bool)        { return 3, true }
func (r *fullRows) ColumnTypeNullable(int) (nullable, k bool) { return true, true }
func (r *fullRows) ColumnTypePrecisionScale(int) (p, s int64, ok bool) {
	return 2, 1, true
}
