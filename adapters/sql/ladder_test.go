package curfewsql_test

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewsql "github.com/curfew-go/curfew/adapters/sql"
	"github.com/curfew-go/curfew/budget"
)

func within(d time.Duration) budget.Limit { return budget.Within(d) }

func TestEachStepOfTheLadderIsAShareOfTheSlush(t *testing.T) {
	for name, c := range map[string]struct {
		server *killable
		ctx    func(context.Context) (context.Context, context.CancelFunc)
		want   []string
		kind   budget.Kind
	}{
		"the server ends it in the grace": {
			server: &killable{answers: 955 * time.Millisecond},
			ctx:    deadlineAt(time.Second),
			want:   []string{"955ms answered", "955ms back", "955ms next"},
		},
		"a kill ends it": {
			ctx:  deadlineAt(time.Second),
			want: []string{"960ms kill", "960ms killed", "960ms back", "960ms next"},
			kind: budget.DeadlineExceeded,
		},
		"the socket ends it at the deadline": {
			server: &killable{deaf: true},
			ctx:    deadlineAt(time.Second),
			want:   []string{"960ms kill", "1s cut", "1s back", "1s next"},
			kind:   budget.DeadlineExceeded,
		},
		"a cancel begins it early": {
			ctx:  cancelAt(100 * time.Millisecond),
			want: []string{"110ms kill", "110ms killed", "110ms back", "110ms next"},
			kind: budget.Cancelled,
		},
		"a cancel and nobody answers": {
			server: &killable{deaf: true},
			ctx:    cancelAt(100 * time.Millisecond),
			want:   []string{"110ms kill", "150ms cut", "150ms back", "150ms next"},
			kind:   budget.Cancelled,
		},
		"a cancel shortly before the deadline has no more than that": {
			server: &killable{deaf: true},
			ctx: func(ctx context.Context) (context.Context, context.CancelFunc) {
				ctx, stop := deadlineAt(100 * time.Millisecond)(ctx)
				ctx, cancel := context.WithCancel(ctx)
				time.AfterFunc(90*time.Millisecond, cancel)
				return ctx, func() { cancel(); stop() }
			},
			want: []string{"92ms kill", "100ms cut", "100ms back", "100ms next"},
			kind: budget.Cancelled,
		},
		"a kill that comes behind the answer is settled": {
			server: &killable{answers: 965 * time.Millisecond, slow: 10 * time.Millisecond},
			ctx:    deadlineAt(time.Second),
			want:   []string{"960ms kill", "965ms answered", "970ms settle", "970ms back", "970ms next"},
		},
		"without a limit it begins at the deadline": {
			ctx: func(ctx context.Context) (context.Context, context.CancelFunc) {
				ctx, cancel := deadlineAt(time.Second)(ctx)
				return curfewsql.Without(ctx), cancel
			},
			want: []string{"1.01s kill", "1.01s killed", "1.01s back", "1.01s next"},
			kind: budget.DeadlineExceeded,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := c.ctx(t.Context())
				defer cancel()
				if c.server == nil {
					c.server = &killable{}
				}
				lines, err := climb(t, c.server, ctx)
				assert.Equal(t, c.want, lines)
				assert.Equal(t, c.kind, budget.KindOf(err), "%v", err)
			})
		})
	}
}

// Two timers end at the same instant, that of the transaction and ours of its statement.
func TestTheEndOfATransactionIsItsDeadlineForItsStatements(t *testing.T) {
	for range 30 {
		synctest.Test(t, func(t *testing.T) {
			server := &killable{deaf: true, began: time.Now(), kills: map[int64]chan struct{}{}}
			db := curfewsql.Wrap(server, curfewsql.WithDialect(server))
			defer db.Close()
			ctx, cancel, err := budget.Enter(t.Context(), within(100*time.Millisecond).Named("order"))
			require.NoError(t, err)
			defer cancel()
			tx, err := db.BeginTx(ctx, nil)
			require.NoError(t, err)
			_, err = tx.Exec("work")
			assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err), "%v", err)
			assert.Contains(t, err.Error(), "limit order 100ms")
			assert.Equal(t, 100*time.Millisecond, time.Since(server.began))
		})
	}
}

func TestBehindAPoolerNothingIsKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		lines, err := climb(t, &killable{}, ctx, curfewsql.BehindPooler())
		assert.Equal(t, []string{"1s cut", "1s back", "1s next"}, lines)
		assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err), "%v", err)
	})
}

func deadlineAt(d time.Duration) func(context.Context) (context.Context, context.CancelFunc) {
	return func(ctx context.Context) (context.Context, context.CancelFunc) { return context.WithTimeout(ctx, d) }
}

func cancelAt(d time.Duration) func(context.Context) (context.Context, context.CancelFunc) {
	return func(ctx context.Context) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(ctx)
		time.AfterFunc(d, cancel)
		return ctx, cancel
	}
}

// The server computes and does not notice that the socket has ended.
func TestAKillForWhichThereWasNoTimeIsSentBehindTheCall(t *testing.T) {
	for name, c := range map[string]struct {
		server *killable
		ctx    func(context.Context) (context.Context, context.CancelFunc)
		want   []string
	}{
		"no limit, and nobody answers in time":      {&killable{deaf: true}, deadlineAt(time.Second), []string{"1s"}},
		"a cancel, and nobody answers in time":      {&killable{deaf: true, armed: true}, cancelAt(100 * time.Millisecond), []string{"150ms"}},
		"at a deadline that the server keeps":       {&killable{deaf: true, armed: true}, deadlineAt(time.Second), nil},
		"at a deadline that one of two keeps":       {&killable{deaf: true, armed: true, text: "work; work"}, deadlineAt(time.Second), []string{"1s"}},
		"the kill was done, and the call ended":     {&killable{}, deadlineAt(time.Second), nil},
		"the kill was done, and the call went on":   {&killable{swallows: true}, deadlineAt(time.Second), nil},
		"nothing was killed, and the call ended":    {&killable{answers: 955 * time.Millisecond}, deadlineAt(time.Second), nil},
		"the kill may have been done, after it all": {&killable{deaf: true, answers: 970 * time.Millisecond}, deadlineAt(time.Second), nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := c.ctx(t.Context())
				defer cancel()
				s := c.server
				s.kills, s.began = map[int64]chan struct{}{1: make(chan struct{}, 1)}, time.Now()
				db := curfewsql.Wrap(s, curfewsql.WithDialect(s))
				_, _ = db.ExecContext(ctx, cmp.Or(s.text, "work"))
				synctest.Wait()
				assert.Equal(t, c.want, s.behind)
				require.NoError(t, db.Close())
			})
		})
	}
}

func TestAKillThatWasNotSeenToEndCostsTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &killable{deaf: true, answers: 970 * time.Millisecond}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		lines, err := climb(t, server, ctx)
		require.NoError(t, err)
		assert.Equal(t, []string{"960ms kill", "970ms answered", "980ms back", "980ms next"}, lines)
		assert.Equal(t, int64(4), server.conns, "the reserved one, two of the pool, and the reserved one again to prove the second")
	})
}

func TestAConnectionIsProvenAlsoWhenTheReservedOneWasDroppedMeanwhile(t *testing.T) {
	var log bytes.Buffer
	server := &killable{}
	db := curfewsql.Wrap(server, curfewsql.WithDialect(server), curfewsql.Log(slog.New(slog.NewTextHandler(&log, nil))))
	defer db.Close()
	first, err := db.Conn(t.Context())
	require.NoError(t, err)
	defer first.Close()
	server.dropped = true
	second, err := db.Conn(t.Context())
	require.NoError(t, err)
	defer second.Close()
	assert.False(t, server.dropped)
	assert.Empty(t, log.String(), "and so it can be killed")
}

func TestTheFuseBoundsKillsAndTheSocketEndsTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &killable{}
		server.kills = map[int64]chan struct{}{1: make(chan struct{}, 1)}
		var log bytes.Buffer
		db := curfewsql.Wrap(server, curfewsql.WithDialect(server), curfewsql.Log(slog.New(slog.NewTextHandler(&log, nil))))
		defer db.Close()
		require.NoError(t, db.Ping())
		server.began = time.Now()
		kills := func() int { return strings.Count(strings.Join(server.j.read(), "\n"), "kill\n") }
		for range 700 {
			ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Microsecond)
			_, err := db.ExecContext(ctx, "work")
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		// 500 at once, and 100 a second.
		assert.InDelta(t, 500+100*time.Since(server.began).Seconds(), kills()+len(server.behind), 5)
		assert.Less(t, kills(), 700)
		assert.Equal(t, 1, strings.Count(log.String(), "more statements to kill"))
	})
}

// Case 48: a rollback by the user races the automatic one.
func TestCase48_OneOfTwoRollbacksReachesTheDriver(t *testing.T) {
	var j journal
	conn := fullConn{leastConn{&j}}
	db := curfewsql.Wrap(connects(func(context.Context) (driver.Conn, error) { return conn, nil }), curfewsql.WithDialect(plain{}))
	defer db.Close()
	db.SetMaxOpenConns(1)
	const rounds = 10_000
	var user atomic.Int64
	for range rounds {
		ctx, cancel := context.WithCancel(t.Context())
		tx, err := db.BeginTx(ctx, nil)
		require.NoError(t, err)
		start := make(chan struct{})
		var wait sync.WaitGroup
		wait.Go(func() { <-start; cancel() })
		wait.Go(func() {
			<-start
			switch err := tx.Rollback(); {
			case err == nil:
				user.Add(1)
			default:
				assert.ErrorIs(t, err, sql.ErrTxDone)
			}
		})
		close(start)
		wait.Wait()
	}
	require.Eventually(t, func() bool { return db.Stats().InUse == 0 }, 10*time.Second, time.Millisecond)
	t.Logf("%d by the user, %d by itself", user.Load(), rounds-user.Load())
	assert.Equal(t, rounds, j.count("rollback"))
	assert.NotZero(t, user.Load())
}

// Case 72: who ended it is not mixed up.
func TestCase72_TheEndOfAnInnerCtxIsNotTheClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		request, leave := context.WithCancel(t.Context())
		defer leave()
		end := func(limit time.Duration, by func(cancel context.CancelFunc)) budget.Kind {
			ctx, cancel, err := budget.Enter(request, within(limit))
			require.NoError(t, err)
			defer cancel()
			time.AfterFunc(time.Second, func() { by(cancel) })
			_, err = climb(t, &killable{}, ctx)
			return budget.KindOf(err)
		}
		assert.Equal(t, budget.Cancelled, end(time.Minute, func(cancel context.CancelFunc) { cancel() }))
		assert.Equal(t, budget.DeadlineExceeded, end(500*time.Millisecond, func(context.CancelFunc) {}))
		assert.NoError(t, request.Err())
		assert.Equal(t, budget.ParentCancelled, end(time.Minute, func(context.CancelFunc) { leave() }))
	})
}

func TestErrorMakesACauseOfWhatDatabaseSQLSaysItself(t *testing.T) {
	ctx, cancel, err := budget.Enter(t.Context(), within(time.Nanosecond).Named("order"))
	require.NoError(t, errors.Join(err, nil), "entered in time")
	defer cancel()
	<-ctx.Done()
	for _, plain := range []error{ctx.Err(), sql.ErrTxDone} {
		err := curfewsql.Error(ctx, plain)
		assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err))
		assert.Contains(t, err.Error(), "order")
	}
	assert.NoError(t, curfewsql.Error(ctx, nil))
	assert.Equal(t, sql.ErrNoRows, curfewsql.Error(ctx, sql.ErrNoRows))
	assert.Equal(t, sql.ErrTxDone, curfewsql.Error(t.Context(), sql.ErrTxDone), "a mistake of the program")
}
