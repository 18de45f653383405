package bench

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	modernc "modernc.org/sqlite"

	curfewpgx "github.com/curfew-go/curfew/adapters/pgx"
	curfewsql "github.com/curfew-go/curfew/adapters/sql"
	"github.com/curfew-go/curfew/internal/servers"
)

var _ = register(Suite{
	Name: "sql",
	About: "one statement, or a transaction of two, under a deadline of a minute, over a loopback connection that is kept for a while. " +
		"bare: the driver as it is; curfew: the deadline is a limit in the server; std/SET: a limit by hand, BEGIN, SET, statement, COMMIT.",
	Cases: sqlCases,
})

// A query is work for a database under a context that ends in a minute.
type query func(ctx context.Context, db *sql.DB) error

func row(text string) query {
	return func(ctx context.Context, db *sql.DB) error {
		var n int
		return db.QueryRowContext(ctx, text, 1).Scan(&n)
	}
}

// tx runs the statements in a transaction, set first and without arguments.
func tx(set string, texts ...string) query {
	return func(ctx context.Context, db *sql.DB) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		if set != "" {
			if _, err := tx.ExecContext(ctx, set); err != nil {
				return err
			}
		}
		for _, text := range texts {
			var n int
			if err := tx.QueryRowContext(ctx, text, 1).Scan(&n); err != nil {
				return err
			}
		}
		return tx.Commit()
	}
}

// database is a System that runs q again and again, over a connection that it makes
// anew for every fourth turn: where the operating system puts the two ends of a connection
// makes more of a difference than what is compared.
func database(name string, open func() (db *sql.DB, why string), q query) System {
	return System{name, func() Work {
		db, why := open()
		if why != "" {
			return Work{Skip: why}
		}
		one := func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			must(q(ctx, db))
		}
		turn := 0
		return Work{
			Before: func(int) {
				if turn++; turn%4 == 1 {
					db.SetMaxIdleConns(-1) // closes what is open
					db.SetMaxIdleConns(1)
				}
				for range 5 {
					one()
				}
			},
			Op: func(n int) {
				for range n {
					one()
				}
			},
			Close: func() { must(db.Close()) },
		}
	}}
}

// opened is a database of at most one connection.
func opened(db *sql.DB) *sql.DB {
	db.SetMaxOpenConns(1)
	return db
}

func postgres(mode pgx.QueryExecMode, wrap func(*pgx.ConnConfig) *sql.DB) func() (*sql.DB, string) {
	return func() (*sql.DB, string) {
		s, why := server(servers.PostgreSQL)
		if why != "" {
			return nil, why
		}
		cfg, err := pgx.ParseConfig(s.DSN())
		must(err)
		cfg.DefaultQueryExecMode = mode
		return opened(wrap(cfg)), ""
	}
}

func barePostgres(cfg *pgx.ConnConfig) *sql.DB { return sql.OpenDB(stdlib.GetConnector(*cfg)) }

func oursPostgres(cfg *pgx.ConnConfig) *sql.DB {
	curfewpgx.Configure(cfg)
	return barePostgres(cfg)
}

func mariadb(wrap func(driver.Connector) *sql.DB) func() (*sql.DB, string) {
	return func() (*sql.DB, string) {
		s, why := server(servers.MariaDB)
		if why != "" {
			return nil, why
		}
		cfg, err := mysql.ParseDSN(s.DSN())
		must(err)
		cfg.Logger = &mysql.NopLogger{}
		// Sessions end what runs for a second: nothing of ours is to run on for ever.
		cfg.Params = map[string]string{"max_statement_time": "1"}
		c, err := mysql.NewConnector(cfg)
		must(err)
		return opened(wrap(c)), ""
	}
}

func bareConnector(c driver.Connector) *sql.DB { return sql.OpenDB(c) }
func oursConnector(c driver.Connector) *sql.DB { return curfewsql.Wrap(c) }

// sqliteSystem has a database file of its own.
func sqliteSystem(name string, wrap func(driver.Connector) *sql.DB, q query) System {
	return System{name, func() Work {
		dir, err := os.MkdirTemp("", "curfewbench-")
		must(err)
		c := file{"file:" + filepath.Join(dir, "bench.db")}
		w := database(name, func() (*sql.DB, string) { return opened(wrap(c)), "" }, q).Make()
		stop := w.Close
		w.Close = func() {
			stop()
			must(os.RemoveAll(dir))
		}
		return w
	}}
}

// file is a connector to SQLite.
type file struct{ dsn string }

func (f file) Connect(context.Context) (driver.Conn, error) { return f.Driver().Open(f.dsn) }
func (f file) Driver() driver.Driver                        { return new(modernc.Driver) }

func sqlCases(s Scale) []Case {
	takes := pick(s, 8*time.Second, 1500*time.Millisecond) // with the time to connect
	const pgText, text = "select $1::int", "select ?"
	pg := func(name string, mode pgx.QueryExecMode, q, byHand query) Case {
		return Case{
			Name: "PostgreSQL, " + name, Parent: "std", Limit: "bare", Fine: true, Takes: takes,
			Systems: []System{
				database("curfew", postgres(mode, oursPostgres), q),
				database("std/SET", postgres(mode, barePostgres), byHand),
				database("bare", postgres(mode, barePostgres), q),
			},
		}
	}
	my := func(name string, q, byHand query) Case {
		return Case{
			Name: "MariaDB, " + name, Parent: "std", Limit: "bare", Fine: true, Takes: takes,
			Systems: []System{
				database("curfew", mariadb(oursConnector), q),
				database("std/SET", mariadb(bareConnector), byHand),
				database("bare", mariadb(bareConnector), q),
			},
		}
	}
	lite := func(name string, q query) Case {
		return Case{
			Name: "SQLite, " + name, Parent: "std", Limit: "bare",
			Systems: []System{sqliteSystem("curfew", oursConnector, q), sqliteSystem("bare", bareConnector, q)},
		}
	}
	const pgSet, mySet = "set local statement_timeout = 60000", "set session max_statement_time = 60"
	cached := pgx.QueryExecModeCacheStatement
	cases := []Case{pg("cached statement", cached, row(pgText), tx(pgSet, pgText))}
	for _, m := range []struct {
		name string
		mode pgx.QueryExecMode
	}{{"exec mode", pgx.QueryExecModeExec}, {"simple protocol", pgx.QueryExecModeSimpleProtocol}} {
		cases = append(cases, pg(m.name, m.mode, row(pgText), tx(pgSet, pgText)))
	}
	return append(cases,
		pg("transaction of 2", cached, tx("", pgText, pgText), tx(pgSet, pgText, pgText)),
		my("statement", row(text), tx(mySet, text)),
		my("transaction of 2", tx("", text, text), tx(mySet, text, text)),
		lite("statement", row(text)),
		lite("transaction of 2", tx("", text, text)),
	)
}

// leavesCases follow a cancel from end to end: a client leaves, and a statement that its
// handler had begun stops in the database.
func leavesCases(s Scale) []Case {
	const pgSlow = "select pg_sleep(2) /* %s */"
	const mySlow = "select count(*) from seq_1_to_100000 a, seq_1_to_100000 b where a.seq * b.seq %% 7 = 3 /* %s */"
	const pgSeen = "select count(*) from pg_stat_activity where state = 'active' and pid <> pg_backend_pid() and query like '%%%s%%'"
	const mySeen = "select count(*) from information_schema.processlist where id <> connection_id() and info like '%%%s%%'"
	var cases []Case
	// MariaDB ends the statement by itself after a second, see mariadb; PostgreSQL after two.
	for _, d := range []struct {
		name       string
		slow, seen string
		quick      time.Duration // with the start of the server
		bare, ours func() (*sql.DB, string)
	}{
		{"PostgreSQL", pgSlow, pgSeen, 4 * time.Second, postgres(pgx.QueryExecModeExec, barePostgres), postgres(pgx.QueryExecModeExec, oursPostgres)},
		{"MariaDB", mySlow, mySeen, 7 * time.Second, mariadb(bareConnector), mariadb(oursConnector)},
	} {
		of := func(name string, open func() (*sql.DB, string), handler wrapper) System {
			return System{name, func() Work {
				db, why := open()
				if why != "" {
					return Work{Skip: why}
				}
				watch, why := d.bare()
				if why != "" {
					return Work{Skip: why}
				}
				n := 0
				return Work{
					Sample: func() []Metric {
						n++
						tag := fmt.Sprintf("curfewbench %s %d", name, n)
						return leave(db, watch, handler, fmt.Sprintf(d.slow, tag), fmt.Sprintf(d.seen, tag))
					},
					Close: func() { must(db.Close()); must(watch.Close()) },
				}
			}}
		}
		cases = append(cases, Case{
			Name: "client leaves, " + d.name, Parent: "std", Main: "stopped-ms", Spread: []string{"returned-ms"}, Rounds: pick(s, 9, 1), Takes: pick(s, 20*time.Second, d.quick),
			Systems: []System{of("curfew", d.ours, handlers["curfew"]), of("std", d.bare, handlers["bare"])},
		})
	}
	return cases
}
