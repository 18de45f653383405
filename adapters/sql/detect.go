package curfewsql

import (
	"context"
	"database/sql/driver"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/curfew-go/curfew/adapters/sql/dialect"
)

// detect asks inner what it speaks.
func detect(ctx context.Context, inner driver.Conn) (dialect.Dialect, error) {
	row, err := queryRow(ctx, inner, "select version()")
	if err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		if _, lite := queryRow(ctx, inner, "select sqlite_version()"); lite == nil {
			return dialect.SQLite(), nil
		}
		return nil, err
	}
	version := text(row[0])
	switch {
	case strings.Contains(version, "MariaDB"):
		return dialect.MariaDB(), nil
	case strings.HasPrefix(version, "PostgreSQL"):
		inStream, err := limitsInStream(ctx, inner)
		if inStream {
			return dialect.CurfewPGX(), err
		}
		return dialect.PostgreSQL(), err
	case version != "" && version[0] >= '0' && version[0] <= '9':
		return dialect.MySQL(), nil
	}
	return nil, errNoDialect
}

var errNoDialect = errors.New("curfewsql: no dialect for this server: see WithDialect")

// limitsInStream asks for the limit in force, in milliseconds, once under a deadline. No driver sends
// a limit for one, but for curfewpgx, which leaves a shorter one of the session alone: so the deadline
// is sooner than that.
func limitsInStream(ctx context.Context, inner driver.Conn) (bool, error) {
	const ask = "select setting from pg_catalog.pg_settings where name = 'statement_timeout'"
	plain, err := queryRow(unbounded{ctx}, inner, ask)
	if err != nil {
		return false, err
	}
	at := time.Now().Add(97 * time.Minute)
	if own, err := strconv.ParseInt(text(plain[0]), 10, 32); err == nil && own > 0 {
		at = time.Now().Add(time.Duration(own) * time.Millisecond / 2)
	}
	if ends, ok := ctx.Deadline(); !ok || at.Before(ends) {
		ctx = sooner{ctx, at}
	}
	under, err := queryRow(ctx, inner, ask)
	if err != nil {
		return false, err
	}
	return text(plain[0]) != text(under[0]), nil
}

// sooner shows another deadline of a ctx to a driver that would send it.
type sooner struct {
	context.Context
	at time.Time
}

func (s sooner) Deadline() (time.Time, bool) { return s.at, true }

// unbounded hides the deadline of a ctx from a driver that would send it.
type unbounded struct{ context.Context }

func (unbounded) Deadline() (time.Time, bool) { return time.Time{}, false }
