package curfewsql_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	curfewsql "github.com/curfew-go/curfew/adapters/sql"
)

var errUser = errors.New("the user's own")

func TestACommitErrorOfNobodysMakingHasAText(t *testing.T) {
	for outcome, want := range map[curfewsql.Outcome]string{
		curfewsql.Unknown: "curfewsql: not known whether it is committed", curfewsql.NotCommitted: "curfewsql: not committed",
		curfewsql.Committed: "curfewsql: committed", curfewsql.CommittedLate: "curfewsql: committed, but late",
	} {
		assert.EqualError(t, &curfewsql.CommitError{Outcome: outcome}, want)
		assert.EqualError(t, &curfewsql.CommitError{Outcome: outcome, Err: errUser}, want+": the user's own")
	}
}

// SQLite's drivers answer with the ctx's own error, once it has ended.
func TestADeadlineOfPlainContextsIsNamedAlsoWhenItHasPassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := curfewsql.Wrap(connects(func(context.Context) (driver.Conn, error) { return sleeper{}, nil }), curfewsql.WithDialect(plain{}))
		defer db.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := db.ExecContext(ctx, "sleeps")
		assert.ErrorContains(t, err, "limit parent deadline")
		assert.ErrorContains(t, curfewsql.Error(ctx, ctx.Err()), "limit parent deadline")
	})
}

// sleeper is a connection whose statements end a while behind their ctx, with its error.
type sleeper struct{ leastConn }

func (sleeper) ExecContext(ctx context.Context, _ string, _ []driver.NamedValue) (driver.Result, error) {
	<-ctx.Done()
	time.Sleep(time.Second)
	return nil, ctx.Err()
}
