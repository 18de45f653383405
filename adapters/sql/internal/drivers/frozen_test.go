package drivers

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewsql "github.com/curfew-go/curfew/adapters/sql"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/servers"
)

// A server that is frozen costs its callers no more than their deadlines, whatever they do, and
// once it is thawed the pool is back.
func TestAFrozenServerCostsNoMoreThanTheDeadlineAndThePoolComesBack(t *testing.T) {
	for _, kind := range []servers.Kind{servers.PostgreSQL, servers.MariaDB} {
		t.Run(string(kind), func(t *testing.T) {
			s := servers.Start(t, kind)
			c := connects[kind](t, s)
			db, plain := wrap(t, c), bare(t, c)
			must(t, db, "create table f (id int)")
			var ours, theirs []time.Duration
			for range shown(1, 20) {
				thaw := frozenInCommit(t, s, db)
				ours = append(ours, recovers(t, db, thaw))
				thaw = frozenInQuery(t, s, db)
				ours = append(ours, recovers(t, db, thaw))
				require.Eventually(t, func() bool { return db.Stats().InUse == 0 }, patience, time.Millisecond)

				plain.SetMaxIdleConns(0) // a new connection, bare, is what ours can be compared with
				thaw = freeze(t, s)
				assert.Error(t, selectOne(within(t, 100*time.Millisecond), plain))
				theirs = append(theirs, recovers(t, plain, thaw))
			}
			assert.Zero(t, number(t, db, "select count(*) from f where id < 0"))
			slices.Sort(ours)
			slices.Sort(theirs)
			t.Logf("%d thaws: the pool is back after %v at the median, at most %v; bare, with a new connection, %v and %v",
				len(ours), ours[len(ours)/2], ours[len(ours)-1], theirs[len(theirs)/2], theirs[len(theirs)-1])
			if stressed() > 0 && kind == servers.MariaDB { // what a login to PostgreSQL takes is not ours
				assert.Less(t, ours[len(ours)-1], 50*time.Millisecond)
			}
		})
	}
}

// freeze stops s from running until thaw is called, at the latest by the end of the test. To
// call thaw again does nothing.
func freeze(t *testing.T, s *servers.Server) (thaw func()) {
	t.Helper()
	s.Freeze()
	thaw = sync.OnceFunc(s.Thaw)
	t.Cleanup(thaw)
	return thaw
}

// byDeadline runs f under a limit, by which it must be back. Before the server is frozen a busy
// machine needs some of it.
func byDeadline(t *testing.T, f func(ctx context.Context) error) error {
	t.Helper()
	limit := 500 * time.Millisecond
	if stressed() > 0 {
		limit = 200 * time.Millisecond
	}
	began := time.Now()
	err := f(within(t, limit))
	back(t, began, limit+20*time.Millisecond)
	assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err), "%v", err)
	return err
}

func selectOne(ctx context.Context, db *sql.DB) error {
	return curfewsql.Error(ctx, db.QueryRowContext(ctx, "select 1").Scan(new(int)))
}

// frozenInCommit has the server frozen before a COMMIT, of which nobody knows then.
func frozenInCommit(t *testing.T, s *servers.Server, db *sql.DB) (thaw func()) {
	t.Helper()
	err := byDeadline(t, func(ctx context.Context) error {
		return curfewsql.WithTx(ctx, db, budget.Inherited(), func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "insert into f values (1)")
			require.NoError(t, err)
			thaw = freeze(t, s)
			return nil
		})
	})
	var commit *curfewsql.CommitError
	require.True(t, errors.As(err, &commit), "%v", err)
	assert.Equal(t, curfewsql.Unknown, commit.Outcome, "%v", err)
	byDeadline(t, func(ctx context.Context) error { return selectOne(ctx, db) })
	return thaw
}

// frozenInQuery has the server frozen in a statement of a transaction, of which nothing is left.
func frozenInQuery(t *testing.T, s *servers.Server, db *sql.DB) (thaw func()) {
	t.Helper()
	byDeadline(t, func(ctx context.Context) error {
		return curfewsql.WithTx(ctx, db, budget.Inherited(), func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "insert into f values (-1)")
			require.NoError(t, err)
			thaw = freeze(t, s)
			_, err = tx.ExecContext(ctx, "insert into f values (-2)")
			return err
		})
	})
	byDeadline(t, func(ctx context.Context) error { return selectOne(ctx, db) })
	return thaw
}

// recovers thaws the server and returns how long it takes until a query is answered.
func recovers(t *testing.T, db *sql.DB, thaw func()) time.Duration {
	t.Helper()
	began := time.Now()
	thaw()
	require.NoError(t, selectOne(within(t, patience), db))
	return time.Since(began)
}
