package orms

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	libtnb "github.com/libtnb/sqlite"
	"github.com/stretchr/testify/require"
	gormmysql "gorm.io/driver/mysql"
	gormpg "gorm.io/driver/postgres"
	"gorm.io/gorm"
	"modernc.org/sqlite"

	curfewpgx "github.com/curfew-go/curfew/adapters/pgx"
	curfewsql "github.com/curfew-go/curfew/adapters/sql"
	"github.com/curfew-go/curfew/budget/wire"
	"github.com/curfew-go/curfew/internal/servers"
)

// roomy is a slush with time for every step on a busy machine.
var roomy = wire.Slush{Share: 0.5, Cap: time.Second}

// patience bounds what a healthy server answers at once.
const patience = 30 * time.Second

// An engine is a database of one kind, with what those on top are told about it.
type engine struct {
	open     func(t *testing.T) *sql.DB
	table    string
	sqlx     string // the name by which sqlx knows how arguments are written
	gorm     func(db *sql.DB) gorm.Dialector
	returns  bool // INSERT ... RETURNING is how to get an id
	conflict func(err error) bool
}

// engines share one server of each kind.
func engines(t *testing.T) map[string]*engine {
	pg, my := servers.Start(t, servers.PostgreSQL), servers.Start(t, servers.MariaDB)
	return map[string]*engine{
		"PostgreSQL": {
			open: func(t *testing.T) *sql.DB {
				cfg, err := pgx.ParseConfig(pg.DSN())
				require.NoError(t, err)
				curfewpgx.Configure(cfg, curfewpgx.Slush(roomy))
				return curfewsql.Wrap(stdlib.GetConnector(*cfg), curfewsql.Slush(roomy))
			},
			table: "CREATE TABLE items (id BIGSERIAL PRIMARY KEY, name TEXT NOT NULL UNIQUE, cents BIGINT NOT NULL, note TEXT)",
			sqlx:  "pgx", returns: true,
			gorm: func(db *sql.DB) gorm.Dialector { return gormpg.New(gormpg.Config{Conn: db}) },
			conflict: func(err error) bool {
				var e *pgconn.PgError
				return errors.As(err, &e) && e.Code == "23505"
			},
		},
		"MariaDB": {
			open: func(t *testing.T) *sql.DB {
				db, err := curfewsql.Open("mysql", my.DSN(), curfewsql.Slush(roomy))
				require.NoError(t, err)
				return db
			},
			table: "CREATE TABLE items (id BIGINT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(100) NOT NULL UNIQUE, cents BIGINT NOT NULL, note TEXT)",
			sqlx:  "mysql",
			gorm:  func(db *sql.DB) gorm.Dialector { return gormmysql.New(gormmysql.Config{Conn: db}) },
			conflict: func(err error) bool {
				var e *mysql.MySQLError
				return errors.As(err, &e) && e.Number == 1062
			},
		},
		"SQLite": {
			open: func(t *testing.T) *sql.DB {
				db, err := curfewsql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "shop.db")+"?_pragma=busy_timeout(3000)&_txlock=immediate", curfewsql.Slush(roomy))
				require.NoError(t, err)
				return db
			},
			table: "CREATE TABLE items (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, cents BIGINT NOT NULL, note TEXT)",
			sqlx:  "sqlite3", returns: true,
			gorm: func(db *sql.DB) gorm.Dialector { return &libtnb.Dialector{Conn: db} },
			conflict: func(err error) bool {
				var e *sqlite.Error
				return errors.As(err, &e) && e.Code()&0xff == 19
			},
		},
	}
}

// fresh opens the database with an empty table.
func (e *engine) fresh(t *testing.T) *sql.DB {
	t.Helper()
	db := e.open(t)
	t.Cleanup(func() { db.Close() })
	for _, query := range []string{"DROP TABLE IF EXISTS items", e.table} {
		_, err := db.ExecContext(t.Context(), query)
		require.NoError(t, err)
	}
	return db
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// idle waits until no connection is in use: what a deadline ends is ended behind it.
func idle(t *testing.T, db *sql.DB) {
	t.Helper()
	require.Eventually(t, func() bool { return db.Stats().InUse == 0 }, patience, time.Millisecond)
}
