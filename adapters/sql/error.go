package curfewsql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"os"

	"github.com/curfew-go/curfew/adapters/sql/dialect"
	"github.com/curfew-go/curfew/budget"
)

// Error says what ended a call of database/sql that returned err under ctx. What the
// driver returned is a *budget.Cause already; Error makes one of what database/sql
// says by itself: the error of ctx, while it waited for a connection or between two
// rows, and sql.ErrTxDone, when ctx was the one of BeginTx and has ended. No phase is
// named, as none is known. Every other err, and nil, is returned as it is.
//
//	err = curfewsql.Error(ctx, err)
func Error(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if have := (*budget.Cause)(nil); errors.As(err, &have) {
		return err
	}
	if ctx.Err() == nil {
		return err
	}
	if err == ctx.Err() || errors.Is(err, sql.ErrTxDone) {
		return endOf(ctx, "", err)
	}
	return err
}

// A TxError is the error of a statement in a transaction that is over in the server,
// or of which the connection is lost, or that is about to be rolled back because its
// ctx has ended. Nothing was sent. The transaction ends with Rollback, or with a Commit that
// rolls back. It matches sql.ErrTxDone and, by Unwrap, what ended the transaction.
type TxError struct{ Err error }

// Error returns the text of the error.
func (e *TxError) Error() string {
	return "curfewsql: the transaction is over, only Rollback may follow: " + e.Err.Error()
}

// Unwrap returns what ended the transaction.
func (e *TxError) Unwrap() error { return e.Err }

// Is reports whether target is sql.ErrTxDone.
func (e *TxError) Is(target error) bool { return target == sql.ErrTxDone }

// deadline returns the cause of a call that time ended before ctx itself did.
func deadline(ctx context.Context, phase string, err error, v dialect.Verdict) *budget.Cause {
	c := namesOf(ctx)
	c.Kind, c.Phase, c.Err = budget.DeadlineExceeded, phase, quieted(err, v)
	return c
}

// endOf returns why ctx, which has ended, did so, with err behind it. One that has not
// is at its deadline: another timer for the same instant came first.
func endOf(ctx context.Context, phase string, err error) *budget.Cause {
	var c budget.Cause
	switch known := (*budget.Cause)(nil); {
	case errors.As(context.Cause(ctx), &known):
		c = *known // which others share
	case ctx.Err() == nil, errors.Is(ctx.Err(), context.DeadlineExceeded):
		c = *namesOf(ctx)
		c.Kind = budget.DeadlineExceeded
	default:
		c.Kind = budget.Cancelled
	}
	if c.Phase == "" {
		c.Phase = phase
	}
	if err == ctx.Err() {
		err = nil
	}
	if c.Err != nil && err != nil {
		err = errors.Join(c.Err, err)
	}
	if err != nil {
		c.Err = err
	}
	return &c
}

// tooLate returns the cause of a call that has less than leastLimit.
func tooLate(ctx context.Context) error {
	err := budget.Require(ctx, leastLimit)
	if known := (*budget.Cause)(nil); err == nil || !errors.As(err, &known) {
		return endOf(ctx, "", err)
	}
	return err
}

// namesOf returns a cause that names the limits and the place of ctx, which may have ended.
func namesOf(ctx context.Context) *budget.Cause {
	var known *budget.Cause
	if !errors.As(budget.Require(alive{ctx}, 1<<62), &known) {
		return &budget.Cause{}
	}
	return &budget.Cause{Limit: known.Limit, Scope: known.Scope, Task: known.Task}
}

// alive hides that a ctx has ended: of one that has, Require says what ended it, and the
// deadline of a context.WithTimeout has no name there.
type alive struct{ context.Context }

func (alive) Err() error { return nil }

// quiet keeps the text of err out of ours: it may hold arguments, and that of a failed
// connection names the user, the database and the host.
type quiet struct {
	text string
	err  error
}

func (q *quiet) Error() string { return q.text }
func (q *quiet) Unwrap() error { return q.err }

func quieted(err error, v dialect.Verdict) error {
	if v.Code != "" {
		return &quiet{"curfewsql: the server answered " + v.Code, err}
	}
	if errors.Is(err, driver.ErrBadConn) {
		err = nil // upon which database/sql would try again
	}
	return &quiet{"curfewsql: no answer in time", err}
}

// connectionLost reports whether err, which no server sent, says that the connection
// broke, so that it is not known what became of what was sent.
func connectionLost(conn driver.Conn, err error) bool {
	var network *net.OpError
	for _, broken := range []error{driver.ErrBadConn, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, os.ErrDeadlineExceeded, context.DeadlineExceeded, context.Canceled} {
		if errors.Is(err, broken) {
			return true
		}
	}
	if errors.As(err, &network) {
		return true
	}
	valid, ok := conn.(driver.Validator)
	return ok && !valid.IsValid()
}
