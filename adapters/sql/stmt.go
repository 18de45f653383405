package curfewsql

import (
	"context"
	"database/sql/driver"
	"time"

	"github.com/curfew-go/curfew/adapters/sql/dialect"
	"github.com/curfew-go/curfew/adapters/sql/internal/sqltext"
)

// A stmt is a driver's prepared statement with deadlines.
type stmt struct {
	conn  *conn
	inner driver.Stmt
	query string
	lead  bool          // its first argument is the limit
	once  bool          // the limit is in its text
	lock  time.Duration // and that of waits for locks
}

// columnConverter is driver.ColumnConverter, which is deprecated and in use.
type columnConverter interface {
	ColumnConverter(i int) driver.ValueConverter
}

// converting is a stmt of a driver that converts arguments by column. It is a type of
// its own because database/sql treats those that can differently.
type converting struct {
	*stmt
	inner columnConverter
}

// ColumnConverter implements driver.ColumnConverter.
func (s *converting) ColumnConverter(i int) driver.ValueConverter {
	if s.lead {
		i++
	}
	return s.inner.ColumnConverter(i)
}

// Close implements driver.Stmt.
func (s *stmt) Close() error { return s.inner.Close() }

// NumInput implements driver.Stmt.
func (s *stmt) NumInput() int {
	n := s.inner.NumInput()
	if s.lead && n > 0 {
		n--
	}
	return n
}

// CheckNamedValue implements driver.NamedValueChecker.
func (s *stmt) CheckNamedValue(v *driver.NamedValue) error {
	if checker, ok := s.inner.(driver.NamedValueChecker); ok {
		return checker.CheckNamedValue(v)
	}
	return s.conn.CheckNamedValue(v)
}

// start begins a run of the statement.
func (s *stmt) start(ctx context.Context, args []driver.NamedValue, exec bool) (*call, *dialect.Statement, []driver.NamedValue, error) {
	st := &dialect.Statement{Query: s.query, HasArgs: true, Exec: exec, Prepared: true}
	k, err := s.conn.start(ctx, phaseStatement, st)
	if err != nil {
		return nil, nil, nil, err
	}
	if s.once {
		k.armed, k.lock = true, s.lock
	}
	if s.lead {
		args = withLead(args, k.limit)
	}
	return k, st, args, nil
}

// ExecContext implements driver.StmtExecContext.
func (s *stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	k, st, args, err := s.start(ctx, args, true)
	if err != nil {
		return nil, err
	}
	var result driver.Result
	err = s.conn.first(k, st)
	if err == nil {
		result, err = stmtExec(k.inner, s.inner, args)
	}
	if failed := s.conn.after(k, st, true, err, k.end(err)); failed != nil {
		return nil, failed
	}
	return result, nil
}

// QueryContext implements driver.StmtQueryContext.
func (s *stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	k, st, args, err := s.start(ctx, args, false)
	if err != nil {
		return nil, err
	}
	var result driver.Rows
	err = s.conn.first(k, st)
	if err == nil {
		result, err = stmtQuery(k.inner, s.inner, args)
	}
	if err != nil {
		return nil, s.conn.after(k, st, !sqltext.Reads(s.query), err, k.end(err))
	}
	_ = s.conn.after(k, st, false, nil, nil)
	return k.rowsOf(result, s.query), nil
}

// Exec implements driver.Stmt.
func (s *stmt) Exec(args []driver.Value) (driver.Result, error) {
	return s.ExecContext(context.Background(), named(args))
}

// Query implements driver.Stmt.
func (s *stmt) Query(args []driver.Value) (driver.Rows, error) {
	return s.QueryContext(context.Background(), named(args))
}

func named(args []driver.Value) []driver.NamedValue {
	values := make([]driver.NamedValue, len(args))
	for i, a := range args {
		values[i] = driver.NamedValue{Ordinal: i + 1, Value: a}
	}
	return values
}
