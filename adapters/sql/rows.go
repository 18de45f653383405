package curfewsql

import (
	"database/sql/driver"
	"io"
	"reflect"

	"github.com/curfew-go/curfew/adapters/sql/internal/sqltext"
)

// rows are a driver's rows, whose call lasts until they are closed. What a driver
// does not know about columns is answered as database/sql answers it.
type rows struct {
	inner driver.Rows
	call  *call
	query string
	last  error // the last of Next, when it was one
}

// rowsOf returns the rows of the call, which has one set of them.
func (k *call) rowsOf(inner driver.Rows, query string) *rows {
	k.rows = rows{inner: inner, call: k, query: query}
	return &k.rows
}

// Columns implements driver.Rows.
func (r *rows) Columns() []string { return r.inner.Columns() }

// Next implements driver.Rows.
func (r *rows) Next(dest []driver.Value) error {
	err := r.inner.Next(dest)
	if isAnswer(err) {
		r.last = err
		return r.failed(err, r.call.translate(err))
	}
	return err
}

// failed says what became of a statement that gave rows and may write, such as one with RETURNING:
// its rows come before it is committed.
func (r *rows) failed(sent, err error) error {
	return r.call.conn.after(r.call, nil, !sqltext.Reads(r.query), sent, err)
}

// Close implements driver.Rows. A driver may stop looking at its context and then read
// to the end: so what is left is read before, while it looks. An error of that is one of Close,
// as it is when the driver reads.
func (r *rows) Close() error {
	had := r.last
	if r.call.drains {
		r.drain()
	}
	err := r.inner.Close()
	if err == nil && had == nil {
		err = r.last
	}
	last := r.last
	if last == nil {
		last = err
	}
	ended := r.call.end(last)
	if err == nil {
		return nil
	}
	return r.failed(last, ended)
}

func (r *rows) drain() {
	dest := r.room()
	defer func() { clear(r.call.conn.scratch) }()
	for r.last == nil {
		switch err := r.inner.Next(dest); {
		case err == nil:
		case err != io.EOF:
			r.last = err
			return
		case !r.HasNextResultSet():
			return
		default:
			if r.NextResultSet() != nil { // which keeps it
				return
			}
			dest = r.room()
		}
	}
}

// room returns a place for a row that nobody reads.
func (r *rows) room() []driver.Value {
	n := len(r.inner.Columns())
	c := r.call.conn
	if cap(c.scratch) < n {
		c.scratch = make([]driver.Value, n)
	}
	c.scratch = c.scratch[:n]
	return c.scratch
}

// HasNextResultSet implements driver.RowsNextResultSet.
func (r *rows) HasNextResultSet() bool {
	n, ok := r.inner.(driver.RowsNextResultSet)
	return ok && n.HasNextResultSet()
}

// NextResultSet implements driver.RowsNextResultSet.
func (r *rows) NextResultSet() error {
	n, ok := r.inner.(driver.RowsNextResultSet)
	if !ok {
		return io.EOF
	}
	err := n.NextResultSet()
	if isAnswer(err) {
		r.last = err
		return r.failed(err, r.call.translate(err))
	}
	return err
}

// ColumnTypeScanType implements driver.RowsColumnTypeScanType.
func (r *rows) ColumnTypeScanType(i int) reflect.Type {
	if t, ok := r.inner.(driver.RowsColumnTypeScanType); ok {
		return t.ColumnTypeScanType(i)
	}
	return reflect.TypeFor[any]()
}

// ColumnTypeDatabaseTypeName implements driver.RowsColumnTypeDatabaseTypeName.
func (r *rows) ColumnTypeDatabaseTypeName(i int) string {
	if t, ok := r.inner.(driver.RowsColumnTypeDatabaseTypeName); ok {
		return t.ColumnTypeDatabaseTypeName(i)
	}
	return ""
}

// ColumnTypeLength implements driver.RowsColumnTypeLength.
func (r *rows) ColumnTypeLength(i int) (length int64, ok bool) {
	if t, ok := r.inner.(driver.RowsColumnTypeLength); ok {
		return t.ColumnTypeLength(i)
	}
	return 0, false
}

// ColumnTypeNullable implements driver.RowsColumnTypeNullable.
func (r *rows) ColumnTypeNullable(i int) (nullable, ok bool) {
	if t, ok := r.inner.(driver.RowsColumnTypeNullable); ok {
		return t.ColumnTypeNullable(i)
	}
	return false, false
}

// ColumnTypePrecisionScale implements driver.RowsColumnTypePrecisionScale.
func (r *rows) ColumnTypePrecisionScale(i int) (precision, scale int64, ok bool) {
	if t, ok := r.inner.(driver.RowsColumnTypePrecisionScale); ok {
		return t.ColumnTypePrecisionScale(i)
	}
	return 0, 0, false
}
