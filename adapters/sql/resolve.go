package curfewsql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/curfew-go/curfew/adapters/sql/dialect"
)

// resolvePause is how long Resolve waits before it asks again about a transaction
// that is still under way in the server: 12 ms at most, measured.
const resolvePause = 5 * time.Millisecond

// A Probe looks whether what a transaction wrote is there, such as the row of an
// idempotency key.
type Probe func(ctx context.Context, db *sql.DB) (committed bool, err error)

// ErrNoProbe is the error of Resolve when the server does not remember what became of the
// transaction and there is no probe.
var ErrNoProbe = errors.New("curfewsql: Resolve: the server cannot say, and there is no probe")

// Resolve says what became of a transaction, or of a statement by itself, that returned
// err, which is mostly a *CommitError with the Outcome Unknown: Committed or
// NotCommitted. It asks until the transaction is no longer under way or ctx
// ends, and so needs a ctx with time left, not that of the transaction. With an
// error the Outcome is Unknown.
//
// The server itself is asked when it remembers: PostgreSQL does, for transactions
// under TrackTx, or over curfewpgx. Elsewhere probe is asked, which may be nil. Before that, on MariaDB and
// MySQL, the connection is ended in the server and awaited to be gone, if its id was
// proven: a commit that is still under way is not there yet, and would be afterwards.
// Where that cannot be, as behind a pooler, a probe that says no is only
// as good as its own waiting.
//
// A nil err is Committed, and a *CommitError that is not Unknown is taken at its word. For
// any other err the Outcome is Unknown, with an error that wraps it. Resolve panics if db is nil.
func Resolve(ctx context.Context, db *sql.DB, err error, probe Probe) (Outcome, error) {
	if db == nil {
		panic("curfewsql: Resolve: nil db")
	}
	if err == nil {
		return Committed, nil
	}
	var commit *CommitError
	if !errors.As(err, &commit) {
		return Unknown, fmt.Errorf("curfewsql: Resolve: not the error of a commit: %w", err)
	}
	if commit.Outcome != Unknown {
		return commit.Outcome, nil
	}
	var speaks dialect.Dialect
	if err := onConn(ctx, db, func(c *conn) error { speaks = c.db.dialect; return nil }); err != nil {
		return Unknown, err
	}
	if resolver, ok := speaks.(dialect.Resolver); ok && commit.mark != "" {
		return askStatus(ctx, db, resolver.Status(commit.mark))
	}
	if probe == nil {
		return Unknown, ErrNoProbe
	}
	if _, ok := speaks.(dialect.Killer); ok && commit.id != 0 {
		if err := makeGone(ctx, db, commit.id); err != nil {
			return Unknown, err
		}
	}
	committed, err := probe(ctx, db)
	switch {
	case err != nil:
		return Unknown, err
	case committed:
		return Committed, nil
	}
	return NotCommitted, nil
}

// onConn runs f with a connection of ours.
func onConn(ctx context.Context, db *sql.DB, f func(*conn) error) error {
	sc, err := db.Conn(ctx)
	if err != nil {
		return Error(ctx, err)
	}
	defer sc.Close()
	return sc.Raw(func(driverConn any) error {
		c, ok := driverConn.(*conn)
		if !ok {
			return errors.New("curfewsql: not a database that Open or Wrap returned")
		}
		return f(c)
	})
}

// askStatus asks query until its answer is a final one.
func askStatus(ctx context.Context, db *sql.DB, query string) (Outcome, error) {
	for {
		var status sql.NullString
		if err := db.QueryRowContext(ctx, query).Scan(&status); err != nil {
			return Unknown, Error(ctx, err)
		}
		switch status.String {
		case "committed":
			return Committed, nil
		case "aborted":
			return NotCommitted, nil
		case "in progress":
		default:
			return Unknown, errors.New("curfewsql: Resolve: the server has forgotten the transaction")
		}
		if err := pause(ctx); err != nil {
			return Unknown, err
		}
	}
}

// makeGone ends the connection id in the server and returns once it is not there.
func makeGone(ctx context.Context, db *sql.DB, id int64) error {
	n := strconv.FormatInt(id, 10)
	for {
		var there int
		err := db.QueryRowContext(ctx, "select count(*) from information_schema.processlist where id = "+n).Scan(&there)
		if err != nil {
			return Error(ctx, err)
		}
		if there == 0 {
			return nil
		}
		_, _ = db.ExecContext(ctx, "KILL CONNECTION "+n) // or it has just gone
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

func pause(ctx context.Context) error {
	timer := time.NewTimer(resolvePause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return endOf(ctx, "", nil)
	case <-timer.C:
		return nil
	}
}
