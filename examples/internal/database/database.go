// Package database opens what an example keeps its data in: a file of SQLite, or tables in a
// PostgreSQL, through curfewsql in both cases. The examples are written against the *sql.DB that
// comes back and do not know which one it is, since both take $1 for an argument.
package database

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"modernc.org/sqlite"

	curfewpgx "github.com/curfew-go/curfew/adapters/pgx"
	curfewsql "github.com/curfew-go/curfew/adapters/sql"
	"github.com/curfew-go/curfew/budget/wire"
)

// A Place says where the data is.
type Place struct {
	DSN    string // of a PostgreSQL; empty for SQLite
	Schema string // in PostgreSQL, so that no table of the user's is touched; a lower case word
	File   string // of SQLite

	Slush wire.Slush // see curfewsql.Slush

	// Dial and Through let an example break what is below the database, when they are not nil:
	// the connections to PostgreSQL, and the driver of SQLite.
	Dial    pgconn.DialFunc                         `json:"-"`
	Through func(driver.Connector) driver.Connector `json:"-"`
}

// Open opens the place, and makes it if it is not there.
func (p Place) Open(ctx context.Context) (*sql.DB, error) {
	if p.DSN == "" {
		return p.openSQLite()
	}
	db, err := p.openPostgreSQL()
	if err != nil {
		return nil, err
	}
	if _, err := db.ExecContext(ctx, "CREATE SCHEMA IF NOT EXISTS "+p.Schema); err != nil {
		return nil, errors.Join(fmt.Errorf("making the schema: %w", err), db.Close())
	}
	return db, nil
}

// Remove removes all that is in PostgreSQL. A file is the caller's to remove.
func (p Place) Remove(ctx context.Context, db *sql.DB) error {
	if p.DSN == "" {
		return nil
	}
	_, err := db.ExecContext(ctx, "DROP SCHEMA IF EXISTS "+p.Schema+" CASCADE")
	return err
}

// openPostgreSQL has curfewpgx put the limit of every statement in front of it, in pgx itself, and
// curfewsql recognize that.
func (p Place) openPostgreSQL() (*sql.DB, error) {
	cfg, err := pgx.ParseConfig(p.DSN)
	if err != nil {
		return nil, errors.New("the data source name is none of PostgreSQL's") // pgx's own text quotes from it
	}
	cfg.RuntimeParams["search_path"] = p.Schema
	if p.Dial != nil {
		cfg.DialFunc = p.Dial
	}
	curfewpgx.Configure(cfg, curfewpgx.Slush(p.Slush))
	return curfewsql.Wrap(stdlib.GetConnector(*cfg), curfewsql.Slush(p.Slush)), nil
}

// openSQLite has writers wait for each other, from the beginning of their transactions, as long as
// their contexts allow.
func (p Place) openSQLite() (*sql.DB, error) {
	file, err := filepath.Abs(p.File)
	if err != nil {
		return nil, err
	}
	dsn := url.URL{Scheme: "file", Path: file, RawQuery: "_pragma=busy_timeout(60000)&_pragma=journal_mode(wal)&_txlock=immediate"}
	var c driver.Connector = connector{&sqlite.Driver{}, dsn.String()}
	if p.Through != nil {
		c = p.Through(c)
	}
	return curfewsql.Wrap(c, curfewsql.Slush(p.Slush)), nil
}

type connector struct {
	driver driver.Driver
	dsn    string
}

func (c connector) Connect(context.Context) (driver.Conn, error) { return c.driver.Open(c.dsn) }
func (c connector) Driver() driver.Driver                        { return c.driver }
