package curfewpgx

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/curfew-go/curfew/adapters/pgx/internal/stream"
	"github.com/curfew-go/curfew/budget"
)

// A Beginner begins transactions. A *pgxpool.Pool and a *pgx.Conn are ones; over a
// pgx.Tx the end of the inner one would be taken for that of the whole.
type Beginner interface {
	BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error)
}

// Rollback has at least leastRollback, also when no time is left, so that the
// connection is kept, and never more than mostRollback.
const (
	leastRollback = 50 * time.Millisecond
	mostRollback  = time.Second
)

// WithTx runs fn in a transaction of db under limit, and commits it. The deadline bounds
// the wait for a connection, BEGIN, every statement that fn sends with the ctx it
// is given, and COMMIT.
//
// WithTx returns nil if, and only if, the transaction was committed in time. If fn fails the
// transaction is rolled back and fn's error returned as [Error] has it; what
// ends before fn began likewise, with the phase "pool_wait" if it was the wait
// for a connection. As far as COMMIT got, the error is a *[CommitError], with a *budget.Cause
// in it if time or ctx ended. A panic of fn rolls back and goes on.
//
// A rollback has what is left of ctx, but never less than 50 ms nor more than a
// second. When even that fails the connection is closed, and the server rolls back.
// fn must not commit, roll back or keep tx.
func WithTx(ctx context.Context, db Beginner, limit budget.Limit, fn func(ctx context.Context, tx pgx.Tx) error) error {
	return WithTxOptions(ctx, db, limit, pgx.TxOptions{}, fn)
}

// WithTxOptions is WithTx for a transaction begun with options, such as an isolation level.
func WithTxOptions(ctx context.Context, db Beginner, limit budget.Limit, options pgx.TxOptions, fn func(ctx context.Context, tx pgx.Tx) error) error {
	switch {
	case db == nil:
		panic("curfewpgx: WithTx: nil db")
	case fn == nil:
		panic("curfewpgx: WithTx: nil fn")
	}
	parent := ctx
	ctx, cancel, err := budget.Enter(ctx, limit)
	defer cancel()
	if err != nil {
		return err
	}
	if pool, ok := db.(*pgxpool.Pool); ok {
		conn, err := pool.Acquire(ctx)
		if err != nil {
			return inPhase("pool_wait", Error(ctx, err))
		}
		defer conn.Release()
		db = conn
	}
	tx, err := db.BeginTx(ctx, options)
	if err != nil {
		return Error(ctx, err)
	}
	done := false
	defer func() {
		if !done {
			rollBack(parent, tx)
		}
	}()
	if err := fn(ctx, tx); err != nil {
		return Error(ctx, err)
	}
	done = true
	s, ours := tx.Conn().PgConn().Conn().(*stream.Conn)
	var xid uint64
	if ours { // before Commit, behind which the connection may be somebody else's
		xid = s.XID()
	}
	err = tx.Commit(ctx)
	return committed(ctx, xid, ours && !s.Committing(), err)
}

func rollBack(ctx context.Context, tx pgx.Tx) {
	d := mostRollback
	if left, ok := budget.Remaining(ctx); ok {
		d = min(max(left, leastRollback), mostRollback)
	}
	ctx, cancel := budget.Detached(ctx, d)
	defer cancel()
	_ = tx.Rollback(ctx) // pgx closes the connection if it fails
}
