package curfewpgx

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/curfew-go/curfew/adapters/pgx/internal/stream"
	"github.com/curfew-go/curfew/budget"
)

// SQLSTATE codes, from appendix A of PostgreSQL's documentation.
const (
	queryCanceled    = "57014"
	lockNotAvailable = "55P03"
)

// Error says what ended a call of pgx that returned err under ctx. pgx lets nobody
// change its errors, so callers who ask for kinds pass them through here:
//
//	err = curfewpgx.Error(ctx, err)
//
// An error that a deadline or the end of ctx made becomes a *budget.Cause: a
// limit that ran out in the server is DeadlineExceeded with the phase "statement",
// also when ctx itself has a moment left. Another phase is "commit",
// around a *[CommitError]. A lock that was not to be had (55P03)
// is DependencyTimeout with the phase "lock_wait".
//
// A connection that was not to be had is a *budget.Cause of the phase "connect" that says why: the end of
// ctx; DependencyTimeout, where a connect_timeout ran out before; Overloaded, where the
// server has none left (53300); Shutdown, where it takes none now (57P03); and Failed, of a
// connection that was refused, a password, a name, or TLS.
//
// Every other err, and nil, is returned as it is, and so is a *budget.Cause. The error of pgx can
// still be found by errors.As. A cancel by somebody else, such as pg_cancel_backend, stays the
// pgconn.PgError it is.
//
// The texts of what Error makes hold neither arguments nor user, password, database and host. The error of pgx
// behind them keeps its own, and so does one that is returned as it is: that of a
// *pgconn.ConnectError names user, database and host, and that of a *pgconn.PgError is what the server wrote.
func Error(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if have := (*budget.Cause)(nil); errors.As(err, &have) {
		return err
	}
	if commit := (*CommitError)(nil); errors.As(err, &commit) {
		if c, ok := commitCause(ctx, commit.Err).(*budget.Cause); ok {
			c.Err = commit
			return c
		}
		return commit
	}
	if noConnection(err) {
		return connectCause(ctx, err)
	}
	if pg := (*pgconn.PgError)(nil); errors.As(err, &pg) {
		switch {
		case pg.Code == lockNotAvailable:
			c := whose(ctx)
			return &budget.Cause{Kind: budget.DependencyTimeout, Scope: c.Scope, Task: c.Task, Phase: "lock_wait", Err: err}
		case pg.Code != queryCanceled:
			return err
		case strings.HasPrefix(pg.Detail, stream.DetailPrefix):
			c := whose(ctx)
			c.Kind, c.Phase, c.Err = budget.DeadlineExceeded, "statement", err
			return c
		case ctx.Err() == nil:
			return err
		}
		return endOf(ctx, err)
	}
	// Safe to retry is also what a call says that found its connection closed, as the
	// second step of a call does whose first one ctx cut.
	late := timedOut(err)
	at, bounded := ctx.Deadline()
	switch {
	case ctx.Err() != nil && (late || errors.Is(err, context.Canceled) || pgconn.SafeToRetry(err)):
		return endOf(ctx, quiet{err})
	case bounded && (late || pgconn.SafeToRetry(err) && !time.Now().Before(at)):
		c := whose(ctx)
		c.Kind, c.Phase, c.Err = budget.DeadlineExceeded, "statement", quiet{err}
		return c
	}
	return err
}

// noConnection reports whether err says that no connection was to be had.
func noConnection(err error) bool {
	connect, parse := (*pgconn.ConnectError)(nil), (*pgconn.ParseConfigError)(nil)
	return errors.As(err, &connect) || errors.As(err, &parse)
}

func phaseOf(err error) string {
	if noConnection(err) {
		return "connect"
	}
	return "statement"
}

// inPhase names the phase of a cause of which nothing else is known than that it
// was a statement.
func inPhase(phase string, err error) error {
	c, ok := err.(*budget.Cause)
	if !ok || c.Phase != "" && c.Phase != "statement" {
		return err
	}
	named := *c
	named.Phase = phase
	return &named
}

// endOf returns why ctx, which has ended, did so, with err behind it.
func endOf(ctx context.Context, err error) *budget.Cause {
	var c budget.Cause
	switch known := (*budget.Cause)(nil); {
	case errors.As(context.Cause(ctx), &known):
		c = *known // which others share
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		c = *whose(ctx)
		c.Kind = budget.DeadlineExceeded
	default:
		c.Kind = budget.Cancelled
	}
	if c.Phase == "" {
		c.Phase = phaseOf(err)
	}
	if c.Err != nil {
		err = errors.Join(c.Err, err)
	}
	c.Err = err
	return &c
}

// whose returns a cause that names the limits and the place of ctx, which may have ended.
func whose(ctx context.Context) *budget.Cause {
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

// quiet keeps the text of err out of ours: those of failed connections name the
// user, the database and the host.
type quiet struct{ err error }

func (q quiet) Error() string { return "curfewpgx: no answer in time" }
func (q quiet) Unwrap() error { return q.err }
