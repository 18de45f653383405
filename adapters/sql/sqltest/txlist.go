package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewsql "github.com/curfew-go/curfew/adapters/sql"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/budget/wire"
	"github.com/curfew-go/curfew/internal/stress"
)

// Tx.Exec has a ctx of its own that never ends, and the automatic rollback waits for it.
func txEndsStatements(t *testing.T, c Config) {
	db := c.open(t)
	ends(t, func(ctx context.Context) error {
		tx, err := db.BeginTx(ctx, nil)
		require.NoError(t, err)
		defer tx.Rollback()
		_, err = tx.Exec(c.SlowInsert)
		return err
	})
	idle(t, db)
	assert.Zero(t, count(t, db))
}

// idle waits until the pool has all its connections back.
func idle(t *testing.T, db *sql.DB) {
	t.Helper()
	require.Eventually(t, func() bool { return db.Stats().InUse == 0 }, late, time.Millisecond)
}

func rollbackKeeps(t *testing.T, c Config) {
	db := c.open(t)
	db.SetMaxOpenConns(1)
	before := backend(t, db)
	for _, deadline := range []bool{true, false} {
		ctx, cancel := context.WithCancel(t.Context())
		if deadline {
			ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
		}
		tx, err := db.BeginTx(ctx, nil)
		require.NoError(t, err)
		_, err = tx.ExecContext(ctx, "insert into t (n) values (1)")
		require.NoError(t, err)
		if deadline {
			<-ctx.Done()
		}
		cancel()
		idle(t, db) // the automatic rollback
		assert.ErrorIs(t, tx.Rollback(), sql.ErrTxDone)
		assert.Same(t, before, backend(t, db), "the connection")
		assert.Zero(t, count(t, db))
	}
}

func pinned(t *testing.T, c Config) {
	db := c.open(t)
	conn, err := db.Conn(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	refused := 0
	for range stress.Rounds(100) {
		ctx, cancel := context.WithCancel(t.Context())
		tx, err := conn.BeginTx(ctx, nil)
		require.NoError(t, err)
		_, err = tx.ExecContext(ctx, "insert into t (n) values (1)")
		require.NoError(t, err)
		cancel()
		_ = tx.Rollback() // ErrTxDone, while the automatic one may not have run
		_, err = conn.ExecContext(t.Context(), "delete from t")
		if err != nil {
			refused++
			assert.ErrorIs(t, err, sql.ErrTxDone)
			assert.Equal(t, budget.Cancelled, budget.KindOf(err), "%v", err)
		}
		require.Eventually(t, func() bool { return conn.PingContext(t.Context()) == nil }, late, time.Millisecond)
	}
	t.Logf("refused %d times", refused)
	assert.Zero(t, count(t, db))
}

// A statement that was ended may have taken its transaction with it. Whether it has is
// the server's business: no row may come out of what follows.
func over(t *testing.T, c Config) {
	db := c.open(t)
	for _, end := range []func(*sql.Tx) error{(*sql.Tx).Rollback, (*sql.Tx).Commit} {
		tx, err := db.BeginTx(within(t, time.Minute), nil)
		require.NoError(t, err)
		_, err = tx.ExecContext(t.Context(), "insert into t (n) values (1)")
		require.NoError(t, err)
		ends(t, func(ctx context.Context) error {
			_, err := tx.ExecContext(ctx, c.SlowInsert)
			return err
		})
		_, err = tx.ExecContext(t.Context(), "insert into t (n) values (2)")
		alive := err == nil // the server has ended the statement alone
		err = end(tx)
		var commit *curfewsql.CommitError
		if errors.As(err, &commit) {
			assert.Equal(t, curfewsql.NotCommitted, commit.Outcome, "%v", err)
		}
		want := 0
		if alive && err == nil && count(t, db) > 0 {
			want = 2
		}
		assert.Equal(t, want, count(t, db), "%v", err)
		idle(t, db)
		exec(t, db, "delete from t")
	}
}

var errUser = errors.New("the user's own")

func withTx(t *testing.T, c Config) {
	db := c.open(t)
	insert := func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, c.args("insert into t (n) values (?)"), 5)
		return err
	}
	run := func(limit time.Duration, then func(context.Context, *sql.Tx) error) error {
		return curfewsql.WithTx(t.Context(), db, budget.Within(limit).Named("order"), func(ctx context.Context, tx *sql.Tx) error {
			require.NoError(t, insert(ctx, tx))
			return then(ctx, tx)
		})
	}
	nothing := func(context.Context, *sql.Tx) error { return nil }

	require.NoError(t, run(time.Minute, nothing))
	assert.Equal(t, 1, count(t, db))

	assert.Equal(t, errUser, run(time.Minute, func(context.Context, *sql.Tx) error { return errUser }))
	assert.PanicsWithValue(t, "boom", func() { _ = run(time.Minute, func(context.Context, *sql.Tx) error { panic("boom") }) })
	idle(t, db)
	assert.Equal(t, 1, count(t, db))

	err := run(250*time.Millisecond, func(ctx context.Context, _ *sql.Tx) error {
		<-ctx.Done() // and f has not noticed
		return nil
	})
	var commit *curfewsql.CommitError
	require.True(t, errors.As(err, &commit), "%v", err)
	assert.Equal(t, curfewsql.NotCommitted, commit.Outcome)
	assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err), "%v", err)
	assert.Contains(t, err.Error(), "order")
	idle(t, db)
	assert.Equal(t, 1, count(t, db))

	ends(t, func(context.Context) error {
		return run(250*time.Millisecond, func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, c.SlowInsert)
			return err
		})
	})
	idle(t, db)
	assert.Equal(t, 1, count(t, db))

	db.SetMaxOpenConns(1)
	conn, err := db.Conn(t.Context())
	require.NoError(t, err)
	err = run(50*time.Millisecond, nothing)
	require.NoError(t, conn.Close())
	var cause *budget.Cause
	require.True(t, errors.As(err, &cause), "%v", err)
	assert.Equal(t, "pool_wait", cause.Phase)
	assert.Equal(t, budget.DeadlineExceeded, cause.Kind)
}

// race ends the ctx of transactions at instants around their second statement. Not one of
// their rows may be there, and no transaction open.
func race(t *testing.T, c Config) {
	db := c.open(t)
	insert := c.args("insert into t (n) values (?)")
	ended, before, rounds := 0, 0, stress.Rounds(100)
	if !c.KeepsConnection {
		rounds /= 4 // each costs a connection
	}
	for i := range rounds {
		ctx, cancel := context.WithCancel(context.Background())
		tx, err := db.BeginTx(ctx, nil)
		require.NoError(t, err)
		_, err = tx.ExecContext(ctx, insert, i)
		require.NoError(t, err)
		time.AfterFunc(rand.N(200*time.Microsecond), cancel)
		for j := 0; err == nil; j++ {
			_, err = tx.ExecContext(ctx, insert, i)
			if err == nil {
				before++
			}
		}
		ended++
		_, _ = tx.ExecContext(context.Background(), insert, i)
		_ = tx.Rollback()
		cancel()
	}
	idle(t, db)
	t.Logf("%d ended, after %d statements", ended, before)
	assert.NotZero(t, before)
	assert.Zero(t, count(t, db))
}

// reuse ends statements at instants around their own end, by cancel and by deadline,
// and uses the connection again at once.
func reuse(t *testing.T, c Config) {
	db := c.open(t, curfewsql.Slush(wire.Slush{Share: 0.5, Cap: 40 * time.Millisecond}))
	db.SetMaxOpenConns(4)
	db.SetMaxIdleConns(4)
	exec(t, db, "insert into t (n) values (1)")
	typical := 200 * time.Millisecond
	for range 5 { // the first may find nothing warm
		began := time.Now()
		require.NoError(t, db.QueryRowContext(t.Context(), c.Short).Scan(new(any)))
		typical = min(max(time.Since(began), 50*time.Microsecond), typical)
	}
	enough := time.Now().Add(time.Duration(stress.Rounds(5)) * time.Second) // on a busy machine
	var cut, done atomic.Int64
	both := func() bool { return cut.Load() > 0 && done.Load() > 0 }
	var wait sync.WaitGroup
	const workers = 4
	rounds := stress.Rounds(200)
	if !c.KeepsConnection {
		rounds /= 4 // each costs a connection
	}
	for w := range workers {
		wait.Go(func() {
			// A statement may be shorter than an instant is exact: then a cut is a matter of luck.
			for i := 0; i < rounds/workers || !both(); i++ {
				if time.Now().After(enough) {
					return
				}
				func() {
					conn, err := db.Conn(context.Background())
					if !assert.NoError(t, err) {
						return
					}
					defer conn.Close()
					ctx, cancel := context.WithCancel(context.Background())
					if i%2 == 0 {
						cancel()
						ctx, cancel = context.WithTimeout(context.Background(), 2*time.Millisecond+rand.N(16*typical))
					}
					defer cancel()
					if i%8 == 7 {
						ctx = context.Background() // one that nobody ends
					}
					time.AfterFunc(rand.N(3*typical), cancel)
					var n int
					err = conn.QueryRowContext(ctx, c.Short).Scan(new(any))
					switch kind := budget.KindOf(curfewsql.Error(ctx, err)); kind {
					case budget.None:
						done.Add(1)
					case budget.DeadlineExceeded, budget.Cancelled, budget.LocalBudgetRejected:
						cut.Add(1)
					default:
						assert.NoError(t, err, "worker %d round %d: %v", w, i, kind)
					}
					err = conn.QueryRowContext(context.Background(), "select count(*) from t").Scan(&n)
					if !lost(err) {
						assert.NoError(t, err, "the next statement")
					}
				}()
			}
		})
	}
	wait.Wait()
	t.Logf("%d cut, %d done", cut.Load(), done.Load())
	assert.NotZero(t, cut.Load())
	assert.NotZero(t, done.Load())
	assert.Zero(t, db.Stats().InUse)
}
