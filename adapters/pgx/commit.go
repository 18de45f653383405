package curfewpgx

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/curfew-go/curfew/adapters/pgx/internal/stream"
	"github.com/curfew-go/curfew/budget"
)

// An Outcome says what became of a transaction whose COMMIT did not simply succeed.
type Outcome uint8

const (
	// NotCommitted: nothing of the transaction is there, and nothing of it will be.
	NotCommitted Outcome = iota
	// Unknown: COMMIT was sent and its answer did not come. Resolve finds out.
	Unknown
	// CommittedLate: all of the transaction is there, but the answer came after the
	// deadline, or after ctx was cancelled, or the connection was lost right behind it.
	CommittedLate
)

// String returns the outcome in words.
func (o Outcome) String() string {
	switch o {
	case NotCommitted:
		return "not committed"
	case Unknown:
		return "commit unknown"
	case CommittedLate:
		return "committed late"
	}
	return fmt.Sprintf("outcome %d", uint8(o))
}

// A CommitError says what became of a transaction when its COMMIT failed, or
// succeeded too late. WithTx returns one whenever it came as far as COMMIT. The Commit
// of a pgx.Tx, and of a sql.Tx over pgx, has one in its error, to be found by
// errors.As, when the connection was lost or given up under COMMIT; its other errors
// mean that nothing was committed, but for [pgx.ErrTxClosed], a second Commit.
//
// Unknown and CommittedLate are never safe to retry in the sense of
// [pgconn.SafeToRetry]. A CommitError is not changed after it was made.
type CommitError struct {
	Outcome Outcome
	// XID is the transaction's id, as pg_current_xact_id has it. It is 0 when the
	// transaction had none, having written nothing, and when the server is older
	// than PostgreSQL 13 or another product.
	XID uint64
	// Err is what ended the COMMIT, such as a *budget.Cause of the phase "commit". It
	// may be nil.
	Err error
}

// Error returns the outcome and what led to it, without address or argument; but the message of
// an error of the server, such as one that a deferred trigger raised, is what the server wrote.
func (e *CommitError) Error() string {
	if e.Err == nil {
		return "curfewpgx: " + e.Outcome.String()
	}
	return "curfewpgx: " + e.Outcome.String() + ": " + e.Err.Error()
}

// Unwrap returns Err.
func (e *CommitError) Unwrap() error { return e.Err }

// A lostError is what the driver reads from a connection that ended under COMMIT. It is a
// timeout because the driver drops every other kind: it closes the connection at
// its first look, and then answers "conn closed", which it holds for safe to retry.
type lostError struct{ *CommitError }

func (e *lostError) Unwrap() error   { return e.CommitError }
func (e *lostError) Timeout() bool   { return true }
func (e *lostError) Temporary() bool { return false }

// LostCommit tells curfewsql what is known: the transaction's id, "" for none, and the outcome in its
// words.
func (e *lostError) LostCommit() (mark, outcome string) {
	if e.XID != 0 {
		mark = strconv.FormatUint(e.XID, 10)
	}
	switch e.Outcome {
	case NotCommitted:
		return mark, "not_committed"
	case CommittedLate:
		return mark, "committed_late"
	}
	return mark, "unknown"
}

func lostCommit(l stream.Lost) error {
	e := &CommitError{Outcome: Unknown, XID: l.XID, Err: errLost}
	switch l.Outcome {
	case stream.NotCommitted:
		e.Outcome = NotCommitted
	case stream.Committed:
		e.Outcome = CommittedLate
	}
	var fatal pgproto3.ErrorResponse
	switch {
	case l.Ended != nil:
		e.Err = noAnswer{l.Ended}
	case l.Fatal != nil && fatal.Decode(l.Fatal) == nil:
		e.Err = pgconn.ErrorResponseToPgError(&fatal)
	}
	return &lostError{e}
}

var errLost = errors.New("the connection was lost")

// noAnswer is the end of the ctx, why.
type noAnswer struct{ why error }

func (e noAnswer) Error() string        { return "no answer in time" }
func (e noAnswer) Is(target error) bool { return errors.Is(e.why, target) }

// committed says what err, of the Commit under ctx of the transaction xid, means.
// With unsent it is certain that no COMMIT was written.
func committed(ctx context.Context, xid uint64, unsent bool, err error) error {
	e := &CommitError{Outcome: Unknown, XID: xid}
	switch have, pg := (*CommitError)(nil), (*pgconn.PgError)(nil); {
	case err == nil && ctx.Err() == nil:
		return nil
	case err == nil:
		e.Outcome, e.Err = CommittedLate, inPhase("commit", endOf(ctx, nil))
		return e
	case errors.As(err, &have):
		e.Outcome, err = have.Outcome, have.Err
	case errors.Is(err, pgx.ErrTxClosed):
		return fmt.Errorf("curfewpgx: WithTx: fn ended the transaction itself: %w", err)
	case errors.Is(err, pgx.ErrTxCommitRollback), errors.As(err, &pg) && stream.Refuses(cmp.Or(pg.SeverityUnlocalized, pg.Severity), pg.Code), unsent:
		e.Outcome = NotCommitted
	}
	e.Err = commitCause(ctx, err)
	return e
}

// commitCause is Error for what ended a COMMIT.
func commitCause(ctx context.Context, err error) error {
	var end noAnswer
	switch {
	case !errors.As(err, &end):
		err = Error(ctx, err)
	case ctx.Err() == nil: // its slush had begun: the deadline is a moment away, or the timer late
		c := whose(ctx)
		c.Kind, c.Err = budget.DeadlineExceeded, err
		err = c
	default:
		err = endOf(ctx, err)
	}
	return inPhase("commit", err)
}

// resolvePause is how long Resolve waits before it asks a second time; it doubles
// up to resolvePauseMost. A transaction whose connection was cut stays "in progress" until
// the server notices, which took up to 12 ms on loopback.
const (
	resolvePause     = time.Millisecond
	resolvePauseMost = 100 * time.Millisecond
)

// ErrNoXID is the error of Resolve for a transaction whose id is not known.
var ErrNoXID = errors.New("curfewpgx: Resolve: the transaction's id is not known")

// Resolve finds out what became of the transaction that err, an error of WithTx or
// of a Commit, is about: NotCommitted or CommittedLate. For an err with an outcome other than
// Unknown it returns that one at once. It asks db, which must lead to the server
// of the transaction or what has taken its place, until ctx ends: while the
// server has not noticed the lost connection the transaction is still open, and may
// yet be committed.
//
// The error is nil unless the outcome is Unknown. Then it is ErrNoXID, or what kept db
// from answering, as Error has it; a server that has lost or forgotten the transaction is a
// *pgconn.PgError, or an error that says so. For an err without a *CommitError, and for nil, the
// error says that and wraps err: it comes from elsewhere than a COMMIT, or from one that was
// done in time. Resolve panics if db is nil.
func Resolve(ctx context.Context, db Querier, err error) (Outcome, error) {
	var e *CommitError
	switch {
	case db == nil:
		panic("curfewpgx: Resolve: nil db")
	case err == nil:
		return Unknown, errors.New("curfewpgx: Resolve: nil err, which says that it is committed")
	case !errors.As(err, &e):
		return Unknown, fmt.Errorf("curfewpgx: Resolve: not the error of a commit: %w", err)
	case e.Outcome != Unknown:
		return e.Outcome, nil
	case e.XID == 0:
		return Unknown, ErrNoXID
	}
	for pause := resolvePause; ; pause = min(2*pause, resolvePauseMost) {
		var status *string
		// As text, so that no exec mode has to know the type.
		err := db.QueryRow(ctx, "select pg_xact_status($1::text::xid8)", fmt.Sprint(e.XID)).Scan(&status)
		switch {
		case err != nil:
			return Unknown, Error(ctx, err)
		case status == nil:
			return Unknown, errors.New("curfewpgx: Resolve: the server no longer knows the transaction")
		case *status == "committed":
			return CommittedLate, nil
		case *status == "aborted":
			return NotCommitted, nil
		}
		again := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			again.Stop()
			return Unknown, inPhase("commit", endOf(ctx, nil))
		case <-again.C:
		}
	}
}

// A Querier asks for one row. A *pgxpool.Pool and a *pgx.Conn are ones.
type Querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}
