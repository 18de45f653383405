package curfewpgx_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewpgx "github.com/curfew-go/curfew/adapters/pgx"
	"github.com/curfew-go/curfew/internal/netproxy"
	"github.com/curfew-go/curfew/internal/servers"
)

// walks are sequences of calls whose turns to the server are counted.
var walks = []struct {
	name string
	walk func(ctx context.Context, conn *pgx.Conn) error
}{
	{"cold query", func(ctx context.Context, conn *pgx.Conn) error { return ask(ctx, conn, "select $1::int + 1") }},
	{"warm query", func(ctx context.Context, conn *pgx.Conn) error { return ask(ctx, conn, "select $1::int") }},
	{"warm exec", func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "insert into t values ($1)", 1)
		return err
	}},
	{"exec without arguments", func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "insert into t values (2)")
		return err
	}},
	{"transaction of two", func(ctx context.Context, conn *pgx.Conn) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			if err := ask(ctx, tx, "select $1::int"); err != nil {
				return err
			}
			return ask(ctx, tx, "select $1::int")
		})
	}},
	{"serializable and rolled back", func(ctx context.Context, conn *pgx.Conn) error {
		tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.Serializable, AccessMode: pgx.ReadOnly})
		if err != nil {
			return err
		}
		if err := ask(ctx, tx, "select $1::int"); err != nil {
			return err
		}
		return tx.Rollback(ctx)
	}},
	{"savepoint rolled back", func(ctx context.Context, conn *pgx.Conn) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			inner, err := tx.Begin(ctx)
			if err != nil {
				return err
			}
			if err := inner.Rollback(ctx); err != nil {
				return err
			}
			return ask(ctx, tx, "select $1::int")
		})
	}},
	{"batch", func(ctx context.Context, conn *pgx.Conn) error {
		var b pgx.Batch
		b.Queue("select $1::int", 1)
		b.Queue("insert into t values ($1)", 3)
		return conn.SendBatch(ctx, &b).Close()
	}},
	{"copy", func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.CopyFrom(ctx, pgx.Identifier{"t"}, []string{"n"}, pgx.CopyFromRows([][]any{{1}, {2}}))
		return err
	}},
	{"prepare, three times, deallocate", func(ctx context.Context, conn *pgx.Conn) error {
		if _, err := conn.Prepare(ctx, "mine", "select $1::int"); err != nil {
			return err
		}
		for range 3 {
			if err := ask(ctx, conn, "mine"); err != nil {
				return err
			}
		}
		return conn.Deallocate(ctx, "mine")
	}},
}

type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

func ask(ctx context.Context, q querier, sql string) error {
	var n int
	return q.QueryRow(ctx, sql, 1).Scan(&n)
}

func TestTheLimitCostsNoTurnInAnyMode(t *testing.T) {
	server := start(t)
	setup := bare(t, config(t, server, server.Addr(), pgx.QueryExecModeExec))
	_, err := setup.Exec(t.Context(), "create table t (n int)")
	require.NoError(t, err)
	eachMode(t, func(t *testing.T, mode pgx.QueryExecMode) {
		proxies := [3]*netproxy.Proxy{netproxy.New(t, server.Addr()), netproxy.New(t, server.Addr()), netproxy.New(t, server.Addr())}
		conns := [3]*pgx.Conn{
			bare(t, config(t, server, proxies[0].Addr(), mode)),
			connect(t, config(t, server, proxies[1].Addr(), mode)),
			connect(t, config(t, server, proxies[2].Addr(), mode), curfewpgx.LockWait(0.5)),
		}
		for _, w := range walks {
			ctx := within(t, time.Minute)
			rounds := 2
			switch w.name {
			case "cold query": // must be the first of its text
				rounds = 1
			case "copy": // which writes on while the answer is under way: the least counts
				rounds = 200
			}
			var turns [3]int64
			for n := 0; n < rounds && (n < 2 || turns[0] != turns[1] || turns[0] != turns[2]); n++ {
				for i, conn := range conns {
					if n == 0 && rounds > 1 {
						require.NoError(t, w.walk(ctx, conn), w.name)
					}
					before := proxies[i].Turns()
					require.NoError(t, w.walk(ctx, conn), w.name)
					if took := proxies[i].Turns() - before; turns[i] == 0 || took < turns[i] {
						turns[i] = took
					}
				}
			}
			assert.Equal(t, turns[0], turns[1], w.name)
			assert.Equal(t, turns[0], turns[2], "%s, with a limit for locks", w.name)
			t.Logf("%s: %d -> %d", w.name, turns[0], turns[1])
		}
	})
}

func TestTheServerSeesTheLimitAndKeepsNothingOfIt(t *testing.T) {
	server := start(t)
	const show = "select current_setting('statement_timeout') as v, $1::int"
	see := func(ctx context.Context, t *testing.T, q querier) string {
		t.Helper()
		var v string
		var n int
		require.NoError(t, q.QueryRow(ctx, show, 1).Scan(&v, &n))
		return v
	}
	eachMode(t, func(t *testing.T, mode pgx.QueryExecMode) {
		conn := connect(t, config(t, server, server.Addr(), mode))
		for range 3 { // cold, warm, and warm with our statement prepared
			assertLimit(t, 30*time.Second, see(within(t, 30*time.Second), t, conn))
			assert.Equal(t, "0", see(t.Context(), t, conn))
		}
		ctx := within(t, 30*time.Second)
		tx, err := conn.Begin(ctx)
		require.NoError(t, err)
		assertLimit(t, 30*time.Second, see(ctx, t, tx))
		assertLimit(t, 10*time.Second, see(within(t, 10*time.Second), t, tx))
		assert.Equal(t, "0", see(t.Context(), t, tx), "none")
		assertLimit(t, 30*time.Second, see(ctx, t, tx))
		require.NoError(t, tx.Commit(ctx))
		assert.Equal(t, "0", see(t.Context(), t, conn))
		_, err = conn.Exec(ctx, "discard all")
		require.NoError(t, err)
		require.NoError(t, conn.DeallocateAll(ctx)) // pgx must forget its own
		assertLimit(t, 30*time.Second, see(ctx, t, conn))
	})
}

// Without being told of a pooler: what is kept prepared needs proof that there is none.
func TestNoStatementIsLostBehindAPoolerAndOneIsKeptWithout(t *testing.T) {
	server := start(t)
	bouncer := servers.StartPgBouncer(t, server)
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeExec, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec} {
		t.Run(mode.String(), func(t *testing.T) {
			holder, pooled := bare(t, config(t, bouncer, bouncer.Addr(), pgx.QueryExecModeSimpleProtocol)), connect(t, config(t, bouncer, bouncer.Addr(), mode))
			backends := map[int]bool{}
			for n := range 8 {
				tx, err := holder.Begin(t.Context()) // has the server connection that was given back last
				require.NoError(t, err)
				for range 2 {
					var pid int
					require.NoError(t, pooled.QueryRow(within(t, time.Minute), "select pg_backend_pid() + $1 - $1", 1).Scan(&pid))
					backends[pid] = true
				}
				if n%2 == 0 {
					require.NoError(t, tx.Rollback(t.Context()))
					require.NoError(t, ask(within(t, time.Minute), pooled, "select $1::int"))
					continue
				}
				require.NoError(t, tx.Rollback(t.Context()))
			}
			t.Logf("%d server connections", len(backends))

			direct := connect(t, config(t, server, server.Addr(), mode))
			for range 2 {
				require.NoError(t, ask(within(t, time.Minute), direct, "select $1::int"))
			}
			var kept int
			require.NoError(t, direct.QueryRow(within(t, time.Minute), "select count(*) from pg_prepared_statements where name = 'curfewpgx_limit'").Scan(&kept))
			assert.Equal(t, 1, kept)
		})
	}
}

// A COMMIT whose deferred constraint fails ends the transaction, and leaves the connection as it
// was, without having anybody wait for the ROLLBACK that this takes.
func TestAConstraintThatFailsInCommitLeavesTheConnection(t *testing.T) {
	server := start(t)
	eachMode(t, func(t *testing.T, mode pgx.QueryExecMode) {
		conn := connect(t, config(t, server, server.Addr(), mode))
		ctx := within(t, time.Minute)
		_, err := conn.Exec(ctx, "create table if not exists c (n int unique deferrable initially deferred)")
		require.NoError(t, err)
		for range 20 {
			err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, "insert into c values ($1), ($1)", 1)
				return err
			})
			var pg *pgconn.PgError
			require.ErrorAs(t, err, &pg)
			require.Equal(t, "23505", pg.Code)
			require.False(t, conn.IsClosed())
			require.Equal(t, byte('I'), conn.PgConn().TxStatus())
			var rows int
			require.NoError(t, conn.QueryRow(ctx, "select count(*) from c").Scan(&rows))
			require.Zero(t, rows)
		}
	})
}
