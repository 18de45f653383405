package sqltest

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	curfewsql "github.com/curfew-go/curfew/adapters/sql"
	"github.com/curfew-go/curfew/budget/wire"
)

// Config says what a database looks like. All fields but the last are needed.
type Config struct {
	// Connector makes connections to a database of the test's own, to which all
	// connections it makes go. What is in it is the list's.
	Connector func(tb testing.TB) driver.Connector
	// Slow is a query of one row that computes for a minute or more.
	Slow string
	// Short is a query of one row that computes for some milliseconds.
	Short string
	// SlowInsert inserts a row with the value 1 into the table t(n), and takes as long.
	SlowInsert string
	// Shapes are queries without effect, of which a wrapped database has to give the
	// same values and column types as a bare one.
	Shapes []string
	// Dollar says that arguments are written $1; else they are ?.
	Dollar bool
	// KeepsConnection says that a statement ended by its deadline leaves the connection.
	KeepsConnection bool
	// Options are given to Wrap.
	Options []curfewsql.Option
}

// roomy is a slush with time for every step on a busy machine.
var roomy = wire.Slush{Share: 0.5, Cap: time.Second}

// open returns the wrapped database, with an empty table t(n).
func (c Config) open(tb testing.TB, opts ...curfewsql.Option) *sql.DB {
	tb.Helper()
	db := curfewsql.Wrap(c.Connector(tb), append(append([]curfewsql.Option{curfewsql.Slush(roomy)}, c.Options...), opts...)...)
	tb.Cleanup(func() { require.NoError(tb, db.Close()) })
	exec(tb, db, "drop table if exists t")
	exec(tb, db, "create table t (n int)")
	return db
}

func exec(tb testing.TB, db *sql.DB, query string) {
	tb.Helper()
	_, err := db.ExecContext(tb.Context(), query)
	require.NoError(tb, err, query)
}

// count returns how many rows t has.
func count(tb testing.TB, db *sql.DB) (n int) {
	tb.Helper()
	require.NoError(tb, db.QueryRowContext(context.Background(), "select count(*) from t").Scan(&n))
	return n
}

// args writes query for the database: each ? as it wants it.
func (c Config) args(query string) string {
	for n := 1; c.Dollar && strings.Contains(query, "?"); n++ {
		query = strings.Replace(query, "?", "$"+strconv.Itoa(n), 1)
	}
	return query
}

func within(tb testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	tb.Cleanup(cancel)
	return ctx
}
