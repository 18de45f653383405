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
	"github.com/curfew-go/curfew/internal/stress"
)

// A server that is frozen costs its callers no more than their deadlines, whatever they do, and
// once it is thawed the pool is back.
func TestAFrozenServerCostsNoMoreThanTheDeadlineAndThePoolComesBack(t *testing.T) {
	for _, kind := range []servers.Kind{servers.PostgreSQL, servers.MariaDB} {
		t.Run(string(kind), func(t *testing.T) {
			s := servers.Start(t, kind)
			c := connects[kind](t, s)
			db, plain, watcher := wrap(t, c), bare(t, c), bare(t, c)
			must(t, db, "create table f (id int)")
			for _, db := range []*sql.DB{db, plain} {
				// One that has cancelled before has its connection for that.
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(20*time.Millisecond, cancel)
				_, _ = db.ExecContext(ctx, slow[kind])
			}
			const before = "frozen before a statement"
			const alone = "the driver alone, " + before
			took := map[string][]time.Duration{}
			for range stress.Shown(1, 20) {
				for name, freeze := range map[string]func() func(){
					"frozen in a commit": func() func() { return frozenInCommit(t, s, db) },
					"frozen in a query":  func() func() { return frozenInQuery(t, s, db, watcher, kind) },
					before:               func() func() { return frozenBefore(t, s, db) },
					alone:                func() func() { return frozenBefore(t, s, plain) },
				} {
					db := db
					if name == alone {
						db = plain
					}
					took[name] = append(took[name], recovers(t, db, freeze()))
					require.Eventually(t, func() bool { return db.Stats().InUse == 0 }, patience, time.Millisecond)
				}
			}
			assert.Zero(t, number(t, db, "select count(*) from f where id < 0"))
			for _, all := range took {
				slices.Sort(all)
			}
			for name, all := range took {
				t.Logf("%s: %d thaws, the pool is back after %v at the median, at most %v", name, len(all), all[len(all)/2], all[len(all)-1])
				switch {
				case stress.Level() == 0 || name == alone:
				case kind == servers.MariaDB:
					assert.Less(t, all[len(all)-1], 50*time.Millisecond)
				case name == before && len(all) >= 10: // what a login and a fork take is not ours
					assert.Less(t, all[len(all)/2], took[alone][len(all)/2])
				}
			}
		})
	}
}

var slow = map[servers.Kind]string{servers.PostgreSQL: "select pg_sleep(60)", servers.MariaDB: crossJoin}

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
	if stress.Level() > 0 {
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

// frozenInQuery has the server frozen while it runs a statement of a transaction, of which nothing is left.
func frozenInQuery(t *testing.T, s *servers.Server, db, watcher *sql.DB, kind servers.Kind) (thaw func()) {
	t.Helper()
	query, running := "insert into f select -2 from pg_sleep(60)", "select count(*) from pg_stat_activity where state = 'active' and query like 'insert into f select%'"
	if kind == servers.MariaDB {
		query, running = "insert into f "+crossJoin, "select count(*) from information_schema.processlist where command in ('Query', 'Execute') and info like '%insert into f select%' and id <> connection_id()"
	}
	byDeadline(t, func(ctx context.Context) error {
		return curfewsql.WithTx(ctx, db, budget.Inherited(), func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "insert into f values (-1)")
			require.NoError(t, err)
			var frozen sync.WaitGroup
			frozen.Go(func() {
				for n := 0; n == 0 && ctx.Err() == nil; {
					_ = watcher.QueryRow(running).Scan(&n)
				}
				thaw = freeze(t, s)
			})
			defer frozen.Wait()
			_, err = tx.ExecContext(ctx, query)
			return err
		})
	})
	byDeadline(t, func(ctx context.Context) error { return selectOne(ctx, db) })
	return thaw
}

// frozenBefore has the server frozen before a statement of a transaction, of which nothing is left.
func frozenBefore(t *testing.T, s *servers.Server, db *sql.DB) (thaw func()) {
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
