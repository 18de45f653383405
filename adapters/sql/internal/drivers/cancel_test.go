package drivers

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewsql "github.com/curfew-go/curfew/adapters/sql"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/netproxy"
	"github.com/curfew-go/curfew/internal/servers"
	"github.com/curfew-go/curfew/internal/stress"
)

// cancelled runs query on conn and cancels it once watcher sees it at work.
func cancelled(t *testing.T, conn *sql.Conn, watcher *sql.DB, query string) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	failed := make(chan error, 1)
	go func() {
		_, err := conn.ExecContext(ctx, query)
		failed <- err
	}()
	require.Eventually(t, func() bool {
		return number(t, watcher, "select count(*) from pg_stat_activity where query = $1 and state = 'active' and pid <> pg_backend_pid()", query) > 0
	}, patience, time.Millisecond)
	cancel()
	return <-failed
}

func TestACancelOnPostgreSQLKeepsTheConnectionAndForksNothing(t *testing.T) {
	s := shared(t, servers.PostgreSQL)
	watcher := bare(t, pgxConnector(t, s))
	p := netproxy.New(t, s.Addr())
	db := wrap(t, stdlib.GetConnector(*pgConfig(t, s, p.Addr())), curfewsql.Slush(roomy))
	conn, err := db.Conn(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	pid := func() (n int) {
		require.NoError(t, conn.QueryRowContext(t.Context(), "select pg_backend_pid()").Scan(&n))
		return n
	}
	before := pid()
	require.Eventually(t, func() bool { return p.Conns() == 2 }, patience, time.Millisecond, "one of them for signals")
	require.Eventually(t, func() bool {
		return number(t, watcher, "select count(*) from pg_stat_activity where datname = current_database() and state = 'idle'") == 2
	}, patience, time.Millisecond)
	for range stress.Rounds(5) {
		err := cancelled(t, conn, watcher, "select pg_sleep(62)")
		assert.Equal(t, budget.Cancelled, budget.KindOf(err), "%v", err)
		assert.Equal(t, "57014", pgState(err))
		assert.Equal(t, before, pid())
	}
	assert.Equal(t, int64(2), p.Conns())
}

// The id that a pooler gives is another one, so that nothing is signalled, also where nobody has
// said that there is a pooler: the session may be another client's by now.
func TestACancelThroughAPoolerHitsNobodyElse(t *testing.T) {
	s := shared(t, servers.PostgreSQL)
	watcher := bare(t, pgxConnector(t, s))
	bouncer := servers.StartPgBouncer(t, s, "default_pool_size=3")
	cfg := pgConfig(t, s, bouncer.Addr())
	cfg.DefaultQueryExecMode = pgx.QueryExecModeExec
	db := wrap(t, stdlib.GetConnector(*cfg), curfewsql.Slush(roomy))
	conn, err := db.Conn(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	other := bare(t, stdlib.GetConnector(*cfg))
	ctx, cancel := context.WithCancel(t.Context())
	hit := make(chan error, 1)
	go func() {
		var err error
		for ctx.Err() == nil && err == nil {
			_, err = other.Exec("select pg_sleep(0.001)")
		}
		hit <- err
	}()
	for range stress.Rounds(5) {
		err := cancelled(t, conn, watcher, "select pg_sleep(63)")
		assert.Equal(t, budget.Cancelled, budget.KindOf(err), "%v", err)
		assert.Equal(t, "57014", pgState(err))
		require.NoError(t, conn.PingContext(t.Context()), "the connection is kept")
	}
	cancel()
	assert.NoError(t, <-hit)
}

func TestAKillOfAnIdleConnectionHitsNothing(t *testing.T) {
	s := shared(t, servers.MariaDB)
	db := bare(t, mysqlConnector(t, s))
	conn, err := db.Conn(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	var id int
	require.NoError(t, conn.QueryRowContext(t.Context(), "select connection_id()").Scan(&id))
	kill, err := db.Conn(t.Context())
	require.NoError(t, err)
	defer kill.Close()
	for range stress.Rounds(1000) {
		_, err := conn.ExecContext(t.Context(), "do 1")
		require.NoError(t, err)
		_, err = kill.ExecContext(t.Context(), "KILL QUERY ?", id)
		require.NoError(t, err)
		_, err = conn.ExecContext(t.Context(), "do 2")
		require.NoError(t, err, "behind the kill")
	}
}
