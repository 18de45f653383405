package drivers

import (
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewsql "github.com/curfew-go/curfew/adapters/sql"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/netproxy"
	"github.com/curfew-go/curfew/internal/servers"
	"github.com/curfew-go/curfew/internal/stress"
)

// cuts are the ways to lose a connection, or what goes over it, around a COMMIT. The last two end with the
// deadline.
var cuts = []struct {
	name  string
	fate  netproxy.Fate
	limit time.Duration
}{
	{"before", netproxy.Drop, time.Minute}, {"in the middle", netproxy.Half, time.Minute},
	{"while the server works on it", netproxy.Last, time.Minute}, {"behind", netproxy.Unanswered, time.Minute},
	{"answer held back", netproxy.Silenced, 100 * time.Millisecond}, {"request held back", netproxy.Lost, 100 * time.Millisecond},
}

// cutCommits cuts connections around COMMIT and compares what is said with what is. A soak
// multiplies its rounds with CURFEW_STRESS.
func cutCommits(t *testing.T, p *netproxy.Proxy, db, watcher *sql.DB, key string, probes bool) {
	for _, c := range cuts {
		t.Run(c.name, func(t *testing.T) {
			outcomes := map[curfewsql.Outcome]int{}
			for i, rounds := 0, stress.Shown(5, 1000); rounds > 0; i++ {
				id := fmt.Sprintf("%s-%d", c.name, i)
				asked := false
				p.OnSend(func(b []byte) netproxy.Fate {
					if bytes.Contains(bytes.ToLower(b), []byte("commit")) {
						asked = true
						return c.fate
					}
					return netproxy.Pass
				})
				err := curfewsql.WithTx(t.Context(), db, budget.Within(c.limit), func(ctx context.Context, tx *sql.Tx) error {
					_, err := tx.ExecContext(ctx, "insert into cuts (id) values ("+key+")", id)
					return err
				})
				p.OnSend(nil)
				if !asked { // the machine was too slow for so short a limit
					require.Error(t, err)
					continue
				}
				if err == nil && c.fate == netproxy.Last { // the answer was faster than the cut
					require.Equal(t, 1, number(t, watcher, "select count(*) from cuts where id = "+key, id))
					continue
				}
				rounds--
				var commit *curfewsql.CommitError
				require.True(t, errors.As(err, &commit), "%v", err)
				require.Equal(t, curfewsql.Unknown, commit.Outcome, "%v", err)
				assert.NotContains(t, err.Error(), id)
				find := func(ctx context.Context, db *sql.DB) (bool, error) {
					var n int
					err := db.QueryRowContext(ctx, "select count(*) from cuts where id = "+key, id).Scan(&n)
					return n > 0, err
				}
				probe := curfewsql.Probe(nil)
				if probes {
					probe = find
				}
				outcome, err := curfewsql.Resolve(within(t, patience), db, err, probe)
				require.NoError(t, err)
				there, err := find(t.Context(), watcher)
				require.NoError(t, err)
				require.Equal(t, there, outcome == curfewsql.Committed, "%v", outcome)
				require.Equal(t, !there, outcome == curfewsql.NotCommitted, "%v", outcome)
				outcomes[outcome]++
			}
			t.Log(outcomes)
			assert.Zero(t, db.Stats().InUse)
		})
	}
}

func TestACommitThatIsCutIsUnknownAndResolvedRightlyOnPostgreSQL(t *testing.T) {
	atOnce(t)
	s := shared(t, servers.PostgreSQL)
	p := netproxy.New(t, s.Addr())
	watcher := bare(t, pgxConnector(t, s))
	must(t, watcher, "create table cuts (id text primary key)",
		"create function works() returns trigger language plpgsql as 'begin perform pg_sleep(0.003); return null; end'",
		"create constraint trigger w after insert on cuts deferrable initially deferred for each row execute function works()")
	db := wrap(t, stdlib.GetConnector(*pgConfig(t, s, p.Addr())), curfewsql.TrackTx())
	cutCommits(t, p, db, watcher, "$1", false)
}

func TestACommitThatIsCutIsUnknownAndResolvedRightlyOnMariaDB(t *testing.T) {
	atOnce(t)
	s := shared(t, servers.MariaDB)
	p := netproxy.New(t, s.Addr())
	watcher := bare(t, mysqlConnector(t, s))
	must(t, watcher, "create table cuts (id varchar(50) primary key)")
	db := wrap(t, mysqlThrough(t, p.Addr(), s))
	cutCommits(t, p, db, watcher, "?", true)
}

func TestResolveClaimsNothingThatNobodyKnows(t *testing.T) {
	s := shared(t, servers.MariaDB)
	db := wrap(t, mysqlConnector(t, s))
	for _, c := range []struct {
		err  error
		want curfewsql.Outcome
		why  error
	}{
		{nil, curfewsql.Committed, nil},
		{&curfewsql.CommitError{Outcome: curfewsql.NotCommitted, Err: errUser}, curfewsql.NotCommitted, nil},
		{&curfewsql.CommitError{Outcome: curfewsql.CommittedLate, Err: errUser}, curfewsql.CommittedLate, nil},
		{&curfewsql.CommitError{Err: errUser}, curfewsql.Unknown, curfewsql.ErrNoProbe},
		{errUser, curfewsql.Unknown, errUser},
	} {
		outcome, err := curfewsql.Resolve(t.Context(), db, c.err, nil)
		assert.Equal(t, c.want, outcome)
		assert.ErrorIs(t, err, c.why)
	}
	outcome, err := curfewsql.Resolve(t.Context(), db, &curfewsql.CommitError{Err: errUser}, func(context.Context, *sql.DB) (bool, error) { return false, errUser })
	assert.Equal(t, curfewsql.Unknown, outcome)
	assert.ErrorIs(t, err, errUser)
}

var errUser = errors.New("the user's own")

func TestCase65_AWriteThatIsCutIsSentOnceAndUnknown(t *testing.T) {
	pg, my := shared(t, servers.PostgreSQL), shared(t, servers.MariaDB)
	for name, c := range map[string]struct {
		server  *servers.Server
		watcher driver.Connector
		db      func(addr string) driver.Connector
	}{
		"PostgreSQL": {pg, pgxConnector(t, pg), func(addr string) driver.Connector { return stdlib.GetConnector(*pgConfig(t, pg, addr)) }},
		"MariaDB":    {my, mysqlConnector(t, my), func(addr string) driver.Connector { return mysqlThrough(t, addr, my) }},
	} {
		t.Run(name, func(t *testing.T) {
			watcher := bare(t, c.watcher)
			must(t, watcher, "create table c65 (n int)")
			p := netproxy.New(t, c.server.Addr())
			db := wrap(t, c.db(p.Addr()))
			require.NoError(t, db.PingContext(t.Context()))
			sent := 0
			p.OnSend(func(b []byte) netproxy.Fate {
				if bytes.Contains(b, []byte("insert into c65")) {
					sent++
					return netproxy.Unanswered
				}
				return netproxy.Pass
			})
			_, err := db.ExecContext(within(t, time.Minute), "insert into c65 values (1)")
			var commit *curfewsql.CommitError
			require.True(t, errors.As(err, &commit), "%v", err)
			assert.Equal(t, curfewsql.Unknown, commit.Outcome)
			p.OnSend(nil)
			assert.Equal(t, 1, sent)
			require.Eventually(t, func() bool { return number(t, watcher, "select count(*) from c65") == 1 }, patience, time.Millisecond)
			assert.Zero(t, db.Stats().InUse)
		})
	}
}
