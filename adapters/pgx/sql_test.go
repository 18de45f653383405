package curfewpgx_test

import (
	"context"
	"database/sql/driver"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewpgx "github.com/curfew-go/curfew/adapters/pgx"
	curfewsql "github.com/curfew-go/curfew/adapters/sql"
	"github.com/curfew-go/curfew/adapters/sql/sqltest"
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
