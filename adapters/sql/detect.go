package curfewsql

import (
	"context"
	"database/sql/driver"
	"errors"
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
	return nil, errors.New("curfewsql: no dialect for this server: see WithDialect")
}

// limitsInStream asks for the limit in force, once under a deadline. No driver sends a
// limit for one, but for curfewpgx.
func limitsInStream(ctx context.Context, inner driver.Conn) (bool, error) {
	const ask = "select current_setting('statement_timeout')"
	plain, err := queryRow(unbounded{ctx}, inner, ask)
	if err != nil {
		return false, err
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 97*time.Minute)
		defer cancel()
	}
	under, err := queryRow(ctx, inner, ask)
	if err != nil {
		return false, err
	}
	return text(plain[0]) != text(under[0]), nil
}

// unbounded hides the deadline of a ctx from a driver that would send it.
type unbounded struct{ context.Context }

func (unbounded) Deadline() (time.Time, bool) { return time.Time{}, false }
