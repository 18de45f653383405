package drivers

import (
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewsql "github.com/curfew-go/curfew/adapters/sql"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/netproxy"
	"github.com/curfew-go/curfew/internal/servers"
	"github.com/curfew-go/curfew/internal/stress"
)

// These compute for minutes, or wait.
var (
	mariadbRunaways = map[string]string{
		"cross join":           crossJoin,
		"insert of a select":   "insert into r " + crossJoin,
		"recursive expression": "with recursive c(n) as (select 1 union all select n+1 from c where n < 1000) select count(*) from c a, c b, c d where (a.n * b.n + d.n) % 7 = 3",
		"update with a lock":   "update held set n = 2",
		"procedure":            "call p()",
	}
	sqliteRunaways = map[string]string{
		"cross join":           "select count(*) from big a, big b, big c where a.n * b.n % 7 = c.n",
		"insert of a select":   "insert into r select 1 from (" + longCTE + ")",
		"recursive expression": longCTE,
	}
)

// runsAway runs each of them under 200 ms. By 300 ms it is over in the server itself, and has
// left no row.
func runsAway(t *testing.T, runaways map[string]string, db, watcher *sql.DB, running func() int) {
	require.NoError(t, db.PingContext(t.Context()))
	for name, query := range runaways {
		t.Run(name, func(t *testing.T) {
			for range stress.Rounds(1) {
				began := time.Now()
				_, err := db.ExecContext(within(t, 200*time.Millisecond), query)
				t.Logf("the caller is back after %v: %v", time.Since(began), err)
				assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err), "%v", err)
				require.Eventually(t, func() bool { return running() == 0 }, patience, 500*time.Microsecond)
				back(t, began, 300*time.Millisecond) // and the server has stopped
				assert.Zero(t, number(t, watcher, "select count(*) from r"))
			}
		})
	}
}

func TestCase38_ARunawayIsOverInMariaDBAlsoWithKillsBlocked(t *testing.T) {
	s := shared(t, servers.MariaDB)
	watcher := bare(t, mysqlConnector(t, s))
	must(t, watcher, "create table r (n int)", "create table held (n int)", "insert into held values (1)",
		"create procedure p() begin declare x int; "+strings.Replace(crossJoin, "count(*)", "count(*) into x", 1)+"; insert into r values (1); end")
	holder, err := watcher.Begin()
	require.NoError(t, err)
	defer holder.Rollback()
	_, err = holder.Exec("update held set n = 3")
	require.NoError(t, err)
	p := netproxy.New(t, s.Addr())
	for name, blocked := range map[string]bool{"kills get through": false, "kills are blocked": true} {
		t.Run(name, func(t *testing.T) {
			if blocked {
				p.OnSend(func(b []byte) netproxy.Fate {
					if bytes.Contains(b, []byte("KILL")) {
						return netproxy.Drop
					}
					return netproxy.Pass
				})
				defer p.OnSend(nil)
			}
			db := wrap(t, mysqlThrough(t, p.Addr(), s))
			runsAway(t, mariadbRunaways, db, watcher, func() int { return runningInMariaDB(t, watcher) })
		})
	}
}

// SQLite computes in the driver, so that what it runs is over when the driver is back.
func TestARunawayIsOverInSQLite(t *testing.T) {
	eachSQLite(t, func(t *testing.T, d driver.Driver) {
		counted := &counting{Connector: sqliteConnector(t, d, tempFile(t))}
		db := wrap(t, counted)
		must(t, db, "create table r (n int)", "create table big (n int)",
			"insert into big with recursive c(n) as (select 1 union all select n+1 from c where n < 5000) select n from c")
		runsAway(t, sqliteRunaways, db, db, func() int { return int(counted.running.Load()) })
	})
}

// counting counts the statements that a driver executes.
type counting struct {
	driver.Connector
	running atomic.Int64
}

func (c *counting) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	return &countedConn{conn, c}, err
}

type countedConn struct {
	driver.Conn
	by *counting
}

func (c *countedConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	c.by.running.Add(1)
	defer c.by.running.Add(-1)
	if e, ok := c.Conn.(driver.ExecerContext); ok {
		return e.ExecContext(ctx, query, args)
	}
	return nil, driver.ErrSkip
}

func (c *countedConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if q, ok := c.Conn.(driver.QueryerContext); ok {
		return q.QueryContext(ctx, query, args)
	}
	return nil, driver.ErrSkip
}

// Whoever opts out of the server's limit is ended by a kill.
func TestCase38_ARunawayWithoutALimitIsKilledInMariaDB(t *testing.T) {
	s := shared(t, servers.MariaDB)
	watcher := bare(t, mysqlConnector(t, s))
	must(t, watcher, "create table r (n int)")
	db := wrap(t, mysqlConnector(t, s))
	for _, query := range []string{crossJoin, "insert into r " + crossJoin} {
		require.NoError(t, db.PingContext(t.Context()))
		began := time.Now()
		_, err := db.ExecContext(curfewsql.Without(within(t, 200*time.Millisecond)), query)
		assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err), "%v", err)
		require.Eventually(t, func() bool { return runningInMariaDB(t, watcher) == 0 }, patience, 500*time.Microsecond)
		back(t, began, 300*time.Millisecond)
		assert.Zero(t, number(t, watcher, "select count(*) from r"))
	}
}
