package drivers

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	ncruces "github.com/ncruces/go-sqlite3/driver"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	modernc "modernc.org/sqlite"

	curfewsql "github.com/curfew-go/curfew/adapters/sql"
	"github.com/curfew-go/curfew/adapters/sql/sqltest"
	"github.com/curfew-go/curfew/budget/wire"
	"github.com/curfew-go/curfew/internal/servers"
	"github.com/curfew-go/curfew/internal/stress"
)

// back checks that what began has come back. That it did so within want is logged, and
// asserted under CURFEW_STRESS alone: elsewhere machines are too busy for figures.
func back(tb testing.TB, began time.Time, want time.Duration) {
	tb.Helper()
	took := time.Since(began)
	tb.Logf("back after %v, of %v", took, want)
	if stress.Level() == 0 {
		want = patience
	}
	assert.Less(tb, took, want)
}

// atOnce has t, which waits more than it works, run beside others that do so. Not where time is
// measured, that is under CURFEW_STRESS.
func atOnce(t *testing.T) {
	if stress.Level() == 0 {
		t.Parallel()
	}
}

// roomy is a slush with time for every step on a busy machine.
var roomy = wire.Slush{Share: 0.5, Cap: time.Second}

// patience bounds what a healthy server answers at once.
const patience = 30 * time.Second

// longCTE computes for minutes, in opcodes that SQLite can be interrupted between.
const longCTE = "with recursive c(n) as (select 1 union all select n+1 from c where n < 1000000000) select count(*) from c"

// crossJoin computes for minutes in MariaDB.
const crossJoin = "select count(*) from seq_1_to_100000 a, seq_1_to_100000 b where a.seq * b.seq % 7 = 3"

func mysqlConnector(tb testing.TB, s *servers.Server) driver.Connector {
	tb.Helper()
	return mysqlWith(tb, s, func(*mysql.Config) {})
}

// mysqlThrough reaches s through a proxy at addr.
func mysqlThrough(tb testing.TB, addr string, s *servers.Server) driver.Connector {
	tb.Helper()
	return mysqlWith(tb, s, func(cfg *mysql.Config) { cfg.Addr = addr })
}

func mysqlWith(tb testing.TB, s *servers.Server, change func(*mysql.Config)) driver.Connector {
	tb.Helper()
	cfg, err := mysql.ParseDSN(s.DSN())
	require.NoError(tb, err)
	cfg.Logger = &mysql.NopLogger{}
	change(cfg)
	c, err := mysql.NewConnector(cfg)
	require.NoError(tb, err)
	return c
}

func pgxConnector(tb testing.TB, s *servers.Server) driver.Connector {
	tb.Helper()
	cfg, err := pgx.ParseConfig(s.DSN())
	require.NoError(tb, err)
	return stdlib.GetConnector(*cfg)
}

func sqliteConnector(tb testing.TB, d driver.Driver, file string) driver.Connector {
	tb.Helper()
	c, ok := d.(driver.DriverContext)
	if !ok {
		return dsnConnector{d, "file:" + file + "?_pragma=busy_timeout(60000)"}
	}
	connector, err := c.OpenConnector("file:" + file + "?_pragma=busy_timeout(60000)")
	require.NoError(tb, err)
	return connector
}

type dsnConnector struct {
	driver driver.Driver
	dsn    string
}

func (c dsnConnector) Connect(context.Context) (driver.Conn, error) { return c.driver.Open(c.dsn) }
func (c dsnConnector) Driver() driver.Driver                        { return c.driver }

// sqlites are the two drivers of SQLite.
var sqlites = map[string]driver.Driver{"modernc": &modernc.Driver{}, "ncruces": &ncruces.SQLite{}}

func eachSQLite(t *testing.T, f func(t *testing.T, d driver.Driver)) {
	for name, d := range sqlites {
		t.Run(name, func(t *testing.T) { f(t, d) })
	}
}

func tempFile(tb testing.TB) string { return filepath.Join(tb.TempDir(), "test.db") }

// wrap opens a database with deadlines that ends with the test.
func wrap(tb testing.TB, c driver.Connector, opts ...curfewsql.Option) *sql.DB {
	tb.Helper()
	db := curfewsql.Wrap(c, opts...)
	tb.Cleanup(func() { db.Close() })
	return db
}

// bare opens a database as the driver has it.
func bare(tb testing.TB, c driver.Connector) *sql.DB {
	tb.Helper()
	db := sql.OpenDB(c)
	tb.Cleanup(func() { db.Close() })
	return db
}

func within(tb testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	tb.Cleanup(cancel)
	return ctx
}

func must(tb testing.TB, db *sql.DB, queries ...string) {
	tb.Helper()
	for _, q := range queries {
		_, err := db.ExecContext(tb.Context(), q)
		require.NoError(tb, err, q)
	}
}

func TestPostgreSQLIsDone(t *testing.T) {
	s := shared(t, servers.PostgreSQL)
	sqltest.Run(t, sqltest.Config{
		Connector:       func(tb testing.TB) driver.Connector { return pgxConnector(tb, s) },
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

func TestMariaDBIsDone(t *testing.T) {
	s := shared(t, servers.MariaDB)
	sqltest.Run(t, sqltest.Config{
		Connector:       func(tb testing.TB) driver.Connector { return mysqlConnector(tb, s) },
		Slow:            crossJoin,
		Short:           "select count(*) from seq_1_to_40000 where seq % 7 = 3",
		SlowInsert:      "insert into t (n) " + crossJoin,
		KeepsConnection: true,
		Shapes: []string{
			"select 1", "select null", "select 'a', cast('b' as char(7))", "select 1.5, 2.5e0", "select x'00ff'",
			"select date '2024-02-29', timestamp '2024-02-29 12:00:00.123456'", "select seq from seq_1_to_3", "select n from t where false",
			"select 1 from nothing", "select json_object('a', 1)", "select true, unhex('41')", "show variables like 'version'",
			"with recursive c(n) as (select 1 union all select n+1 from c where n < 5) select * from c", "(select 1) union (select 2)", "-- note\nselect 3",
		},
	})
}

func TestSQLiteIsDone(t *testing.T) {
	eachSQLite(t, func(t *testing.T, d driver.Driver) {
		file := tempFile(t)
		sqltest.Run(t, sqltest.Config{
			Connector:       func(tb testing.TB) driver.Connector { return sqliteConnector(tb, d, file) },
			Slow:            longCTE,
			Short:           strings.Replace(longCTE, "1000000000", "2000", 1),
			SlowInsert:      "insert into t (n) select 1 from (" + longCTE + ")",
			KeepsConnection: d == sqlites["ncruces"], // the other says itself that one is not valid
			Shapes: []string{
				"select 1", "select null", "select 'a', cast('b' as text)", "select 1.5", "select x'00ff'", "select date('2024-02-29')",
				"with recursive c(n) as (select 1 union all select n+1 from c where n < 5) select * from c", "select n from t where 0",
				"select 1 from nothing", "select json_object('a', 1)", "values (1,'x'),(2,'y')", "pragma user_version", "explain query plan select 1",
				"select count(*) from t", "select typeof(1), typeof('x')",
			},
		})
	})
}
