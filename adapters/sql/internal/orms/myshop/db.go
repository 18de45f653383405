// Package myshop is written in the shape in which sqlc generates code for MySQL,
// with emit_prepared_queries.
package myshop

import (
	"context"
	"database/sql"
	"fmt"
)

// DBTX is a database or a transaction.
type DBTX interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
	PrepareContext(context.Context, string) (*sql.Stmt, error)
	QueryContext(context.Context, string, ...any) (*sql.Rows, error)
	QueryRowContext(context.Context, string, ...any) *sql.Row
}

// New returns the queries on db.
func New(db DBTX) *Queries { return &Queries{db: db} }

// Prepare returns the queries on db, prepared.
func Prepare(ctx context.Context, db DBTX) (*Queries, error) {
	q := Queries{db: db}
	var err error
	for _, p := range []struct {
		stmt **sql.Stmt
		text string
	}{{&q.addItemStmt, addItem}, {&q.getItemStmt, getItem}, {&q.listItemsStmt, listItems}, {&q.renameItemStmt, renameItem}, {&q.crossStmt, cross}} {
		if *p.stmt, err = db.PrepareContext(ctx, p.text); err != nil {
			return nil, fmt.Errorf("error preparing query: %w", err)
		}
	}
	return &q, nil
}

// Close closes what Prepare prepared.
func (q *Queries) Close() error {
	for _, stmt := range []*sql.Stmt{q.addItemStmt, q.getItemStmt, q.listItemsStmt, q.renameItemStmt, q.crossStmt} {
		if stmt != nil {
			if err := stmt.Close(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (q *Queries) exec(ctx context.Context, stmt *sql.Stmt, query string, args ...any) (sql.Result, error) {
	switch {
	case stmt != nil && q.tx != nil:
		return q.tx.StmtContext(ctx, stmt).ExecContext(ctx, args...)
	case stmt != nil:
		return stmt.ExecContext(ctx, args...)
	default:
		return q.db.ExecContext(ctx, query, args...)
	}
}

func (q *Queries) query(ctx context.Context, stmt *sql.Stmt, query string, args ...any) (*sql.Rows, error) {
	switch {
	case stmt != nil && q.tx != nil:
		return q.tx.StmtContext(ctx, stmt).QueryContext(ctx, args...)
	case stmt != nil:
		return stmt.QueryContext(ctx, args...)
	default:
		return q.db.QueryContext(ctx, query, args...)
	}
}

func (q *Queries) queryRow(ctx context.Context, stmt *sql.Stmt, query string, args ...any) *sql.Row {
	switch {
	case stmt != nil && q.tx != nil:
		return q.tx.StmtContext(ctx, stmt).QueryRowContext(ctx, args...)
	case stmt != nil:
		return stmt.QueryRowContext(ctx, args...)
	default:
		return q.db.QueryRowContext(ctx, query, args...)
	}
}

// Queries are the queries.
type Queries struct {
	db             DBTX
	tx             *sql.Tx
	addItemStmt    *sql.Stmt
	getItemStmt    *sql.Stmt
	listItemsStmt  *sql.Stmt
	renameItemStmt *sql.Stmt
	crossStmt      *sql.Stmt
}

// WithTx returns the queries in tx.
func (q *Queries) WithTx(tx *sql.Tx) *Queries {
	in := *q
	in.db, in.tx = tx, tx
	return &in
}
