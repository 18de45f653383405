package drivers

import (
	"context"
	"database/sql"
	"math"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/internal/netproxy"
	"github.com/curfew-go/curfew/internal/servers"
)

// A walk is some calls of which the turns to the server are counted.
type walk struct {
	name string
	walk func(ctx context.Context, db *sql.DB) error
}

func exec(query string, args ...any) func(context.Context, *sql.DB) error {
	return func(ctx context.Context, db *sql.DB) error {
		_, err := db.ExecContext(ctx, query, args...)
		return err
	}
}

func inTx(queries ...string) func(context.Context, *sql.DB) error {
	return func(ctx context.Context, db *sql.DB) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		for _, q := range queries {
			if _, err := tx.ExecContext(ctx, q, 1); err != nil {
				return err
			}
		}
		return tx.Commit()
	}
}

// turns walks each some times, bare and wrapped, and compares the least turns it took.
func turns(t *testing.T, p *netproxy.Proxy, bare, wrapped *sql.DB, last string, walks []walk) {
	for _, w := range walks {
		count := func(db *sql.DB) (n int64) {
			db.SetMaxOpenConns(1)
			n = math.MaxInt64 // the first is cold, and a driver may ping what has idled
			for range 4 {
				before := p.Turns()
				require.NoError(t, w.walk(within(t, time.Minute), db), w.name)
				must(t, db, last) // takes along what has no answer, such as the end of a statement
				n = min(n, p.Turns()-before)
			}
			return n
		}
		b, o := count(bare), count(wrapped)
		t.Logf("%s and one more: %d bare, %d with deadlines", w.name, b, o)
		assert.Equal(t, b, o, w.name)
	}
}

func TestNoTurnIsAddedOnMariaDB(t *testing.T) {
	s := shared(t, servers.MariaDB)
	for name, interpolate := range map[string]bool{"interpolated": true, "not interpolated": false} {
		t.Run(name, func(t *testing.T) {
			p := netproxy.New(t, s.Addr())
			c := mysqlWith(t, s, func(cfg *mysql.Config) { cfg.Addr, cfg.InterpolateParams = p.Addr(), interpolate })
			turns(t, p, bare(t, c), wrap(t, c), "do 1", []walk{
				{"exec", exec("do 1")}, {"with an argument", exec("do ?", 1)}, {"transaction of 2", inTx("do ?", "do ?")},
				{"prepared", func(ctx context.Context, db *sql.DB) error {
					stmt, err := db.PrepareContext(ctx, "do ?")
					if err != nil {
						return err
					}
					defer stmt.Close()
					for range 3 {
						if _, err := stmt.ExecContext(ctx, 1); err != nil {
							return err
						}
					}
					return nil
				}},
			})
		})
	}
}

func TestNoTurnIsAddedOnPostgreSQL(t *testing.T) {
	s := shared(t, servers.PostgreSQL)
	p := netproxy.New(t, s.Addr())
	c := stdlib.GetConnector(*pgConfig(t, s, p.Addr()))
	turns(t, p, bare(t, c), wrap(t, c), "select 1", []walk{
		{"exec", exec("select 1")}, {"with an argument", exec("select $1::int", 1)},
		{"transaction of 2", inTx("select $1::int", "select $1::int")},
	})
}
