package curfewpgx_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewpgx "github.com/curfew-go/curfew/adapters/pgx"
	"github.com/curfew-go/curfew/budget"
)

// The server's clock starts anew with each statement, so that none of these runs into the limit.
func TestManyShortStatementsOfOneCallAreOverAtTheDeadlineToo(t *testing.T) {
	server := start(t)
	watcher := bare(t, config(t, server, server.Addr(), pgx.QueryExecModeExec))
	_, err := watcher.Exec(t.Context(), "create table several (n int)")
	require.NoError(t, err)
	const first, nap, naps = "insert into several values (1)", "select pg_sleep(0.3)", 10
	check := func(t *testing.T, conn *pgx.Conn, began time.Time, err error) {
		t.Helper()
		require.NoError(t, conn.Close(t.Context())) // or a transaction of the batch's stays, which has failed
		assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err), "%v", err)
		for running(t, watcher) > 0 {
		}
		assertTook(t, time.Since(began), 0, 700*time.Millisecond, "until the server was done")
		var rows int
		require.NoError(t, watcher.QueryRow(t.Context(), "select count(*) from several").Scan(&rows))
		assert.Zero(t, rows, "it was committed behind the deadline")
	}
	eachMode(t, func(t *testing.T, mode pgx.QueryExecMode) {
		for _, begins := range []bool{false, true} {
			conn := connect(t, config(t, server, server.Addr(), mode))
			var b pgx.Batch
			if begins {
				b.BeginTx(pgx.TxOptions{})
			}
			b.Queue(first)
			for range naps {
				b.Queue(nap)
			}
			if begins {
				b.Queue("commit")
			}
			ctx, began := within(t, 500*time.Millisecond), time.Now()
			check(t, conn, began, curfewpgx.Error(ctx, conn.SendBatch(ctx, &b).Close()))
		}
	})
	t.Run("in one text", func(t *testing.T) {
		conn := connect(t, config(t, server, server.Addr(), pgx.QueryExecModeCacheStatement))
		text := first
		for range naps {
			text += ";" + nap
		}
		ctx, began := within(t, 500*time.Millisecond), time.Now()
		_, err := conn.Exec(ctx, text)
		check(t, conn, began, curfewpgx.Error(ctx, err))
	})
}

func TestACancelForADeadlineIsTheDeadlineThoughTheCallersCtxHasAMomentLeft(t *testing.T) {
	server := start(t)
	conn := connect(t, config(t, server, server.Addr(), pgx.QueryExecModeCacheStatement), curfewpgx.Slush(roomy))
	_, err := conn.Exec(t.Context(), "create procedure sleeps() language sql as 'select pg_sleep(60)'")
	require.NoError(t, err)
	ctx := within(t, 2*time.Second)
	_, err = conn.Exec(ctx, "call sleeps()")
	assert.Equal(t, "57014", stateOf(err), "%v", err)
	assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(curfewpgx.Error(ctx, err)), "%v", err)
	assert.False(t, conn.IsClosed())
}
