package curfewsql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/curfew-go/curfew/budget"
)

// A report is what a transaction tells WithTx and cannot tell database/sql. It is
// written by the call that is under way and read behind it.
type report struct {
	reached bool // a connection was had
	asked   bool // to commit
	late    bool // committed after the deadline
}

type reportKey struct{}

// WithTx runs f in a transaction under limit: it begins one, calls f once with a ctx that
// has the deadline, and commits when f returns nil. When f returns an error, panics or
// exits its goroutine, the transaction is rolled back, and the error or panic goes
// on to the caller. One of opts at most says how to begin. f must not end the transaction: of one
// that f committed WithTx says only that, with sql.ErrTxDone.
//
// The error is that of f, or of what could not be begun, each as Error has it, or a
// *CommitError: NotCommitted also when the ctx ended before the commit, of which
// database/sql says only that the transaction is done; and CommittedLate when the commit is
// done but its answer came after the deadline. WithTx waits for a connection no longer than
// the limit allows; the phase of that is pool_wait.
//
// WithTx panics if db or f is nil.
func WithTx(ctx context.Context, db *sql.DB, limit budget.Limit, f func(ctx context.Context, tx *sql.Tx) error, opts ...sql.TxOptions) error {
	switch {
	case db == nil:
		panic("curfewsql: WithTx: nil db")
	case f == nil:
		panic("curfewsql: WithTx: nil f")
	case len(opts) > 1:
		panic("curfewsql: WithTx: more than one opts")
	}
	ctx, cancel, err := budget.Enter(ctx, limit)
	defer cancel()
	if err != nil {
		return err
	}
	var options *sql.TxOptions
	if len(opts) > 0 {
		options = &opts[0]
	}
	told := &report{}
	tx, err := db.BeginTx(context.WithValue(ctx, reportKey{}, told), options)
	if err != nil {
		if !told.reached && err == ctx.Err() {
			return endOf(ctx, phasePoolWait, nil)
		}
		return Error(ctx, err)
	}
	done := false
	defer func() {
		if !done { // f panicked, or exited the goroutine
			_ = tx.Rollback()
		}
	}()
	err = f(ctx, tx)
	done = true
	if err != nil {
		_ = tx.Rollback() // bounded; it says nothing that err does not
		return Error(ctx, err)
	}
	if told.asked {
		return fmt.Errorf("curfewsql: WithTx: f ended the transaction itself: %w", sql.ErrTxDone)
	}
	err = tx.Commit()
	var known *CommitError
	switch {
	case errors.As(err, &known):
		return err
	case err != nil: // the driver was not asked
		_ = tx.Rollback()
		return &CommitError{Outcome: NotCommitted, Err: Error(ctx, err)}
	case told.late:
		c := namesOf(ctx)
		if ctx.Err() != nil {
			c = endOf(ctx, phaseCommit, nil)
		}
		c.Kind, c.Phase = budget.DeadlineExceeded, phaseCommit
		return &CommitError{Outcome: CommittedLate, Err: c}
	}
	return nil
}
