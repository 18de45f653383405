package ctxnode_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// database/sql knows no causes: where it answers itself that is ctx.Err(). What
// a driver sees, and what it returns, is the whole of it.
func TestEndsSeenThroughDatabaseSQL(t *testing.T) {
	t.Parallel()
	type op struct {
		name string
		bare bool // database/sql answers, not the driver
		do   func(ctx context.Context, db *sql.DB, running func()) error
	}
	ops := []op{
		{"query", false, func(ctx context.Context, db *sql.DB, running func()) error {
			running()
			rows, err := db.QueryContext(ctx, "wait")
			if err == nil {
				rows.Close()
			}
			return err
		}},
		{"exec", false, func(ctx context.Context, db *sql.DB, running func()) error {
			running()
			_, err := db.ExecContext(ctx, "wait")
			return err
		}},
		{"exec in a transaction", false, func(ctx context.Context, db *sql.DB, running func()) error {
			tx, err := db.BeginTx(context.WithoutCancel(ctx), nil)
			if err != nil {
				return err
			}
			defer func() { _ = tx.Rollback() }()
			running()
			_, err = tx.ExecContext(ctx, "wait")
			return err
		}},
		{"rows", true, func(ctx context.Context, db *sql.DB, running func()) error {
			rows, err := db.QueryContext(ctx, "rows")
			if err != nil {
				return err
			}
			defer rows.Close()
			running()
			for rows.Next() {
				select { // a reader that takes its time
				case <-ctx.Done():
				case <-time.After(time.Millisecond):
				}
			}
			return rows.Err()
		}},
		{"waiting for a connection", true, func(ctx context.Context, db *sql.DB, running func()) error {
			conn, err := db.Conn(context.Background())
			if err != nil {
				return err
			}
			defer conn.Close()
			running()
			return db.PingContext(ctx)
		}},
		{"after the end", true, func(ctx context.Context, db *sql.DB, running func()) error {
			running()
			<-ctx.Done()
			return db.PingContext(ctx)
		}},
		{"begin after the end", true, func(ctx context.Context, db *sql.DB, running func()) error {
			running()
			<-ctx.Done()
			_, err := db.BeginTx(ctx, nil)
			return err
		}},
	}
	for _, op := range ops {
		t.Run(op.name, func(t *testing.T) {
			forEachEnd(t, func(t *testing.T, e end, ctx context.Context, end func()) {
				d := &waitingDriver{}
				db := sql.OpenDB(d)
				db.SetMaxOpenConns(1)
				defer db.Close()
				stopped := make(chan struct{})
				err := op.do(ctx, db, func() { go func() { defer close(stopped); end() }() })
				if err == nil {
					t.Fatal("no error")
				}
				bare := op.bare || d.seen() == nil // it may have ended before the driver was asked
				e.looksLike(t, err, bare)
				if seen := d.seen(); seen != nil {
					e.looksLike(t, seen, false)
					assert.Equal(t, e.sentinel, d.err)
				}
			})
		})
	}
}

// waitingDriver is a database whose statement "wait" runs until its context
// ends, and whose query "rows" never ends.
type waitingDriver struct {
	mu    sync.Mutex
	err   error // ctx.Err() as the driver saw it
	cause error
}

func (d *waitingDriver) seen() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cause
}

func (d *waitingDriver) Connect(context.Context) (driver.Conn, error) { return &waitingConn{d}, nil }
func (d *waitingDriver) Driver() driver.Driver                        { return nil }

type waitingConn struct{ d *waitingDriver }

func (c *waitingConn) Prepare(string) (driver.Stmt, error) { return nil, driver.ErrSkip }
func (c *waitingConn) Close() error                        { return nil }
func (c *waitingConn) Begin() (driver.Tx, error)           { return waitingTx{}, nil }

func (c *waitingConn) BeginTx(context.Context, driver.TxOptions) (driver.Tx, error) {
	return waitingTx{}, nil
}

func (c *waitingConn) wait(ctx context.Context) error {
	<-ctx.Done()
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	c.d.err, c.d.cause = ctx.Err(), context.Cause(ctx)
	return c.d.cause
}

func (c *waitingConn) QueryContext(ctx context.Context, query string, _ []driver.NamedValue) (driver.Rows, error) {
	if query == "rows" {
		return endlessRows{}, nil
	}
	return nil, c.wait(ctx)
}

func (c *waitingConn) ExecContext(ctx context.Context, _ string, _ []driver.NamedValue) (driver.Result, error) {
	return nil, c.wait(ctx)
}

type waitingTx struct{}

func (waitingTx) Commit() error   { return nil }
func (waitingTx) Rollback() error { return nil }

type endlessRows struct{}

func (endlessRows) Columns() []string            { return []string{"n"} }
func (endlessRows) Close() error                 { return nil }
func (endlessRows) Next(to []driver.Value) error { to[0] = int64(1); return nil }
