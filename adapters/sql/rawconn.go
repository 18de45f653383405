package curfewsql

//lint:file-ignore SA1019 drivers of old have only what is deprecated

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
)

// The functions here ask a driver what database/sql would ask it, in the same order
// of its optional interfaces.

// bare returns args as the drivers of old take them, which are not asked any more once
// ctx has ended.
func bare(ctx context.Context, args []driver.NamedValue) ([]driver.Value, error) {
	values := make([]driver.Value, len(args))
	for i, a := range args {
		if a.Name != "" {
			return nil, errors.New("sql: driver does not support the use of Named Parameters")
		}
		values[i] = a.Value
	}
	return values, ctx.Err()
}

// connExec returns driver.ErrSkip where conn wants the statement prepared.
func connExec(ctx context.Context, conn driver.Conn, query string, args []driver.NamedValue) (driver.Result, error) {
	if e, ok := conn.(driver.ExecerContext); ok {
		return e.ExecContext(ctx, query, args)
	}
	e, ok := conn.(driver.Execer)
	if !ok {
		return nil, driver.ErrSkip
	}
	values, err := bare(ctx, args)
	if err != nil {
		return nil, err
	}
	return e.Exec(query, values)
}

// connQuery returns driver.ErrSkip where conn wants the statement prepared.
func connQuery(ctx context.Context, conn driver.Conn, query string, args []driver.NamedValue) (driver.Rows, error) {
	if q, ok := conn.(driver.QueryerContext); ok {
		return q.QueryContext(ctx, query, args)
	}
	q, ok := conn.(driver.Queryer)
	if !ok {
		return nil, driver.ErrSkip
	}
	values, err := bare(ctx, args)
	if err != nil {
		return nil, err
	}
	return q.Query(query, values)
}

func connPrepare(ctx context.Context, conn driver.Conn, query string) (driver.Stmt, error) {
	if p, ok := conn.(driver.ConnPrepareContext); ok {
		return p.PrepareContext(ctx, query)
	}
	stmt, err := conn.Prepare(query)
	if err == nil && ctx.Err() != nil {
		_ = stmt.Close()
		return nil, ctx.Err()
	}
	return stmt, err
}

func connBegin(ctx context.Context, conn driver.Conn, opts driver.TxOptions) (driver.Tx, error) {
	if b, ok := conn.(driver.ConnBeginTx); ok {
		return b.BeginTx(ctx, opts)
	}
	switch {
	case opts.Isolation != 0:
		return nil, errors.New("sql: driver does not support non-default isolation level")
	case opts.ReadOnly:
		return nil, errors.New("sql: driver does not support read-only transactions")
	}
	tx, err := conn.Begin()
	if err == nil && ctx.Err() != nil {
		_ = tx.Rollback()
		return nil, ctx.Err()
	}
	return tx, err
}

func stmtExec(ctx context.Context, stmt driver.Stmt, args []driver.NamedValue) (driver.Result, error) {
	if e, ok := stmt.(driver.StmtExecContext); ok {
		return e.ExecContext(ctx, args)
	}
	values, err := bare(ctx, args)
	if err != nil {
		return nil, err
	}
	return stmt.Exec(values)
}

func stmtQuery(ctx context.Context, stmt driver.Stmt, args []driver.NamedValue) (driver.Rows, error) {
	if q, ok := stmt.(driver.StmtQueryContext); ok {
		return q.QueryContext(ctx, args)
	}
	values, err := bare(ctx, args)
	if err != nil {
		return nil, err
	}
	return stmt.Query(values)
}

// execText runs a text of ours.
func execText(ctx context.Context, conn driver.Conn, query string) error {
	_, err := connExec(ctx, conn, query, nil)
	if !errors.Is(err, driver.ErrSkip) {
		return err
	}
	stmt, err := connPrepare(ctx, conn, query)
	if err != nil {
		return err
	}
	_, err = stmtExec(ctx, stmt, nil)
	return errors.Join(err, stmt.Close())
}

// queryRow runs a text of ours and returns the one row it gives.
func queryRow(ctx context.Context, conn driver.Conn, query string) ([]driver.Value, error) {
	rows, err := connQuery(ctx, conn, query, nil)
	if errors.Is(err, driver.ErrSkip) {
		var stmt driver.Stmt
		if stmt, err = connPrepare(ctx, conn, query); err != nil {
			return nil, err
		}
		defer stmt.Close()
		rows, err = stmtQuery(ctx, stmt, nil)
	}
	if err != nil {
		return nil, err
	}
	row := make([]driver.Value, len(rows.Columns()))
	err = rows.Next(row)
	for i, v := range row {
		if b, ok := v.([]byte); ok {
			row[i] = string(b) // which the driver may overwrite
		}
	}
	if err == io.EOF {
		err = errors.New("curfewsql: no row")
	}
	return row, errors.Join(err, rows.Close())
}

// text returns a value of queryRow as text, "" for NULL.
func text(v driver.Value) string {
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}
