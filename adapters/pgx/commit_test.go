package curfewpgx_test

import (
	"context"
	"database/sql"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewpgx "github.com/curfew-go/curfew/adapters/pgx"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/netproxy"
	"github.com/curfew-go/curfew/internal/servers"
	"github.com/curfew-go/curfew/internal/stress"
)

// writes are ways to put a row into kept.
var writes = map[string]func(ctx context.Context, tx pgx.Tx, n int) error{
	"exec": func(ctx context.Context, tx pgx.Tx, n int) error {
		_, err := tx.Exec(ctx, "insert into kept values ($1)", n)
		return err
	},
	"query": func(ctx context.Context, tx pgx.Tx, n int) error {
		return tx.QueryRow(ctx, "insert into kept values ($1) returning n", n).Scan(&n)
	},
	"function": func(ctx context.Context, tx pgx.Tx, n int) error {
		return tx.QueryRow(ctx, "select keep($1)", n).Scan(&n)
	},
	"call": func(ctx context.Context, tx pgx.Tx, n int) error {
		_, err := tx.Exec(ctx, "call keep_too($1)", n)
		return err
	},
	"batch": func(ctx context.Context, tx pgx.Tx, n int) error {
		var b pgx.Batch
		b.Queue("select 1")
		b.Queue("insert into kept values ($1)", n)
		return tx.SendBatch(ctx, &b).Close()
	},
	"copy": func(ctx context.Context, tx pgx.Tx, n int) error {
		_, err := tx.CopyFrom(ctx, pgx.Identifier{"kept"}, []string{"n"}, pgx.CopyFromRows([][]any{{n}}))
		return err
	},
	"savepoint": func(ctx context.Context, tx pgx.Tx, n int) error {
		return pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "insert into kept values ($1)", n)
			return err
		})
	},
}

// A keeper holds what rounds of commits need.
type keeper struct {
	watcher *pgx.Conn
	proxy   *netproxy.Proxy
	pool    *pgxpool.Pool
}

func newKeeper(t *testing.T, server *servers.Server, mode pgx.QueryExecMode, opts ...curfewpgx.Option) *keeper {
	k := &keeper{watcher: bare(t, config(t, server, server.Addr(), pgx.QueryExecModeExec)), proxy: netproxy.New(t, server.Addr())}
	_, err := k.watcher.Exec(t.Context(), `create table if not exists kept (n int);
		create or replace function keep(n int) returns int language sql as $$ insert into kept values (n) returning n $$;
		create or replace procedure keep_too(n int) language sql as $$ insert into kept values (n) $$`)
	require.NoError(t, err)
	k.pool = newPool(t, config(t, server, k.proxy.Addr(), mode), 4, opts...)
	return k
}

// there reports whether row n is there, once the backend pid that wrote it is gone or idle.
func (k *keeper) there(t *testing.T, pid uint32, n int) bool {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; {
		var busy, rows int
		require.NoError(t, k.watcher.QueryRow(context.Background(), `select count(*) from pg_stat_activity
			where pid = $1 and state <> 'idle'`, int32(pid)).Scan(&busy))
		if busy > 0 {
			require.True(t, time.Now().Before(end), "backend %d is still at work", pid)
			continue
		}
		require.NoError(t, k.watcher.QueryRow(context.Background(), "select count(*) from kept where n = $1", n).Scan(&rows))
		return rows > 0
	}
}

func TestACommitThatIsCutIsNeverReportedForWhatItIsNot(t *testing.T) {
	server := start(t)
	cuts := map[string]cut{
		"before": before, "half": half, "during": during, "after": after,
		"answer held back": stalled, "request held back": held, "not at all": uncut,
	}
	var names []string
	for name := range writes {
		names = append(names, name)
	}
	n := 0 // the rows of all share a table
	keepers := map[pgx.QueryExecMode]*keeper{}
	for _, mode := range modes {
		keepers[mode] = newKeeper(t, server, mode)
	}
	for how, cut := range cuts {
		t.Run(how, func(t *testing.T) {
			outcomes, resolved := map[string]int{}, map[string]int{}
			limit, least, hits := 30*time.Second, 30*time.Second, 0
			if cut == stalled || cut == held {
				limit, least = 40*time.Millisecond, 40*time.Millisecond
			}
			for i, all := 0, stress.Shown(8, 1000); hits < all; i++ {
				// A round counts if it was cut where it should be: on a busy machine so short a limit may be over before.
				require.Less(t, i, 2*all+20, "rounds, of which %d were cut at COMMIT", hits)
				mode, write := modes[i%len(modes)], names[i%len(names)]
				k := keepers[mode]
				n++
				var pid uint32
				sent, hit := false, (*atomic.Bool)(nil)
				err := curfewpgx.WithTx(t.Context(), k.pool, budget.Within(limit), func(ctx context.Context, tx pgx.Tx) error {
					pid = tx.Conn().PgConn().PID()
					if err := writes[write](ctx, tx, n); err != nil {
						return err
					}
					sent, hit = true, cutAtCommit(k.proxy, cut)
					return nil
				})
				cutAtCommit(k.proxy, uncut)
				if sent && (hit.Load() || cut == uncut) {
					hits++
					limit = max(limit-limit/8, least)
				} else {
					limit = min(2*limit, late)
				}
				if !sent {
					require.Error(t, err)
					require.False(t, k.there(t, pid, n))
					continue
				}
				outcome := "committed"
				if err != nil {
					var e *curfewpgx.CommitError
					require.True(t, errors.As(err, &e), "%s %s: %T %v", mode, write, err, err)
					require.NotContains(t, err.Error(), "127.0.0.1")
					require.True(t, e.Outcome == curfewpgx.NotCommitted || !pgconn.SafeToRetry(err))
					outcome = e.Outcome.String()
					if e.Outcome == curfewpgx.Unknown {
						require.NotZero(t, e.XID, "%s %s", mode, write)
						if cut == held { // the server would wait for it until the proxy ends
							_, err := k.watcher.Exec(t.Context(), "select pg_terminate_backend($1)", int32(pid))
							require.NoError(t, err)
						}
					}
					was, err := curfewpgx.Resolve(within(t, 10*time.Second), k.pool, err)
					require.NoError(t, err)
					require.Equal(t, was == curfewpgx.CommittedLate, k.there(t, pid, n), "%s %s: %v, then %v", mode, write, e, was)
					resolved[was.String()]++
				} else {
					require.True(t, k.there(t, pid, n), "%s %s", mode, write)
				}
				outcomes[outcome]++
			}
			t.Logf("%d cut at COMMIT: %v, and then %v", hits, outcomes, resolved)
			switch cut {
			case uncut:
				assert.NotZero(t, outcomes["committed"])
			case before, half, during, after:
				assert.NotZero(t, outcomes["commit unknown"])
			}
		})
	}
}

func TestACommitThatIsLostSaysSoThroughPgxAndDatabaseSQL(t *testing.T) {
	server := start(t)
	k := newKeeper(t, server, pgx.QueryExecModeCacheStatement)
	cfg := config(t, server, k.proxy.Addr(), pgx.QueryExecModeCacheStatement)
	curfewpgx.Configure(cfg)
	db := sql.OpenDB(stdlib.GetConnector(*cfg))
	defer db.Close()
	byPgx := func(ctx context.Context) error {
		tx, err := k.pool.Begin(ctx)
		require.NoError(t, err)
		_, err = tx.Exec(ctx, "insert into kept values ($1)", 1)
		require.NoError(t, err)
		return tx.Commit(ctx)
	}
	bySQL := func(ctx context.Context) error {
		tx, err := db.BeginTx(ctx, nil)
		require.NoError(t, err)
		_, err = tx.ExecContext(ctx, "insert into kept values ($1)", 1)
		require.NoError(t, err)
		return tx.Commit()
	}
	for name, commit := range map[string]func(context.Context) error{"pgx": byPgx, "database/sql": bySQL} {
		for _, cut := range []cut{after, stalled} {
			limit := time.Minute
			if cut == stalled {
				limit = time.Second
			}
			ctx := within(t, limit)
			cutAtCommit(k.proxy, cut)
			err := commit(ctx)
			var e *curfewpgx.CommitError
			require.True(t, errors.As(err, &e), "%s: %v", name, err)
			assert.Equal(t, curfewpgx.Unknown, e.Outcome, "%s: %v", name, err)
			assert.False(t, pgconn.SafeToRetry(err))
			assert.Equal(t, cut == stalled, errors.Is(err, context.DeadlineExceeded), "%s: %v", name, err)
			err = curfewpgx.Error(ctx, err)
			require.True(t, errors.As(err, &e))
			if cut == stalled {
				var cause *budget.Cause
				require.True(t, errors.As(err, &cause))
				assert.Equal(t, budget.DeadlineExceeded, cause.Kind)
				assert.Equal(t, "commit", cause.Phase)
			}
			was, err := curfewpgx.Resolve(within(t, 5*time.Second), k.watcher, err)
			assert.NoError(t, err)
			assert.Equal(t, curfewpgx.CommittedLate, was)
		}
	}
}
