package curfewpgx_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewpgx "github.com/curfew-go/curfew/adapters/pgx"
	curfewsql "github.com/curfew-go/curfew/adapters/sql"
	"github.com/curfew-go/curfew/adapters/sql/sqltest"
	"github.com/curfew-go/curfew/internal/netproxy"
)

// curfewsql above and curfewpgx below is what gives database/sql both: outcomes and
// refusals from the one, and from the other limits without a turn.
func TestPostgreSQLIsDoneUnderCurfewSQLToo(t *testing.T) {
	server := start(t)
	sqltest.Run(t, sqltest.Config{
		Connector: func(tb testing.TB) driver.Connector {
			cfg := config(tb, server, server.Addr(), pgx.QueryExecModeCacheStatement)
			curfewpgx.Configure(cfg, curfewpgx.Slush(roomy))
			return stdlib.GetConnector(*cfg)
		},
		Slow:            "select pg_sleep(60)",
		Short:           "select pg_sleep(0.005)",
		SlowInsert:      "insert into t (n) select 1 from pg_sleep(60)",
		Dollar:          true,
		KeepsConnection: true,
		Shapes: []string{
			"select 1", "select null", "select 'a'::text, 'b'::varchar(7)", "select 1.5::numeric(7,2), 2.5::float8",
			"select true, '\\x00ff'::bytea", "select date '2024-02-29', timestamp '2024-02-29 12:00:00.123456'",
			"select generate_series(1,3)", "select n from t where false", "select 1 from nothing", "select '{\"a\":1}'::jsonb",
			"select array[1,2]", "select '123e4567-e89b-12d3-a456-426614174000'::uuid", "show search_path", "values (1,'x'),(2,'y')", "explain select 1",
		},
	})
}

func TestEitherOptOutHoldsInBoth(t *testing.T) {
	server := start(t)
	for name, without := range map[string]func(context.Context) context.Context{"curfewpgx": curfewpgx.Without, "curfewsql": curfewsql.Without} {
		t.Run(name, func(t *testing.T) {
			var v string
			conn := connect(t, config(t, server, server.Addr(), pgx.QueryExecModeCacheStatement))
			require.NoError(t, conn.QueryRow(without(within(t, time.Minute)), "select current_setting('statement_timeout')").Scan(&v))
			assert.Equal(t, "0", v, "by pgx")

			for below, configure := range map[string]bool{"plain pgx": false, "curfewpgx": true} {
				cfg := config(t, server, server.Addr(), pgx.QueryExecModeCacheStatement)
				if configure {
					curfewpgx.Configure(cfg)
				}
				db := curfewsql.Wrap(stdlib.GetConnector(*cfg))
				defer db.Close()
				tx, err := db.BeginTx(within(t, time.Minute), nil)
				require.NoError(t, err)
				require.NoError(t, tx.QueryRowContext(within(t, time.Minute), "select current_setting('statement_timeout')").Scan(&v))
				assertLimit(t, time.Minute, v)
				require.NoError(t, tx.QueryRowContext(without(within(t, time.Minute)), "select current_setting('statement_timeout')").Scan(&v))
				assert.Equal(t, "0", v, "by curfewsql above %s", below)
				require.NoError(t, tx.Rollback())
			}
		})
	}
}

// Or both would send limits, each at its own price.
func TestCurfewSQLRecognizesUsAlsoUnderAStatementTimeoutOfTheConnectionString(t *testing.T) {
	server := start(t)
	p := netproxy.New(t, server.Addr())
	cfg := config(t, server, p.Addr(), pgx.QueryExecModeCacheStatement)
	cfg.RuntimeParams["statement_timeout"] = "40s"
	curfewpgx.Configure(cfg)
	db := curfewsql.Wrap(stdlib.GetConnector(*cfg))
	defer db.Close()
	require.NoError(t, db.Ping()) // under no deadline it is found out
	ctx := within(t, 30*time.Second)
	tx, err := db.BeginTx(ctx, nil)
	require.NoError(t, err)
	defer tx.Rollback()
	var turns int64
	for _, d := range []time.Duration{20 * time.Second, 10 * time.Second} { // under the first it is prepared
		var n int
		before := p.Turns()
		require.NoError(t, tx.QueryRowContext(within(t, d), "select $1::int", 7).Scan(&n))
		turns = p.Turns() - before
	}
	assert.Equal(t, int64(1), turns, "of a statement whose limit is shorter than that in force")
}

// The id comes with the error, at no turn.
func TestCurfewSQLResolvesACommitThatWeLost(t *testing.T) {
	server := start(t)
	for how, want := range map[cut]curfewsql.Outcome{before: curfewsql.NotCommitted, half: curfewsql.NotCommitted, after: curfewsql.Committed} {
		p := netproxy.New(t, server.Addr())
		cfg := config(t, server, p.Addr(), pgx.QueryExecModeCacheStatement)
		curfewpgx.Configure(cfg)
		db := curfewsql.Wrap(stdlib.GetConnector(*cfg))
		defer db.Close()
		_, err := db.Exec("create table if not exists lost (n int)")
		require.NoError(t, err)
		tx, err := db.BeginTx(within(t, time.Minute), nil)
		require.NoError(t, err)
		_, err = tx.Exec("insert into lost values ($1)", how)
		require.NoError(t, err)
		cutAtCommit(p, how)
		err = tx.Commit()
		var commit *curfewsql.CommitError
		require.True(t, errors.As(err, &commit), "%v", err)
		cutAtCommit(p, uncut)
		outcome, err := curfewsql.Resolve(t.Context(), db, err, nil)
		require.NoError(t, err)
		assert.Equal(t, want, outcome)
		var there int
		require.NoError(t, db.QueryRow("select count(*) from lost where n = $1", how).Scan(&there))
		assert.Equal(t, want == curfewsql.Committed, there == 1)
	}
}
