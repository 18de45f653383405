package curfewpgx_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewpgx "github.com/curfew-go/curfew/adapters/pgx"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/servers"
)

func TestAWaitForALockGivesUpAtItsShareAndSaysSo(t *testing.T) {
	server := start(t)
	bouncer := servers.StartPgBouncer(t, server)
	holder := bare(t, config(t, server, server.Addr(), pgx.QueryExecModeExec))
	_, err := holder.Exec(t.Context(), "create table held (n int)")
	require.NoError(t, err)
	_, err = holder.Exec(t.Context(), "begin; lock table held")
	require.NoError(t, err)
	eachModeAtOnce(t, func(t *testing.T, mode pgx.QueryExecMode) {
		waitsInVain(t, server, mode)
		if mode != pgx.QueryExecModeCacheStatement { // pgx's own statements are not there on another connection
			waitsInVain(t, bouncer, mode, curfewpgx.BehindPooler())
		}
	})
	for _, share := range []float64{0, 1, -1} {
		assert.Panics(t, func() { curfewpgx.LockWait(share) })
	}
}

// waitsInVain waits for the table held in all the ways in which a limit is sent.
func waitsInVain(t *testing.T, server *servers.Server, mode pgx.QueryExecMode, opts ...curfewpgx.Option) {
	conn := connect(t, config(t, server, server.Addr(), mode), append(opts, curfewpgx.LockWait(0.01))...)
	gaveUp := func(f func(ctx context.Context) error) {
		t.Helper()
		ctx := within(t, 20*time.Second)
		err := curfewpgx.Error(ctx, f(ctx))
		require.NoError(t, ctx.Err(), "most of the limit is left")
		var cause *budget.Cause
		require.True(t, errors.As(err, &cause), "%v", err)
		assert.Equal(t, budget.DependencyTimeout, cause.Kind)
		assert.Equal(t, "lock_wait", cause.Phase)
		assert.Equal(t, "55P03", stateOf(err))
	}
	insert := func(q interface {
		QueryRow(context.Context, string, ...any) pgx.Row
	}) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			var n int
			return q.QueryRow(ctx, "insert into held values ($1) returning n", 1).Scan(&n)
		}
	}
	for range 2 { // the second time with all prepared that can be
		gaveUp(insert(conn))
	}
	for _, sql := range []string{"insert into held values (1)", "lock table held"} {
		tx, err := conn.Begin(within(t, time.Minute))
		require.NoError(t, err)
		gaveUp(func(ctx context.Context) error { // shorter than BEGIN's: armed anew
			_, err := tx.Exec(ctx, sql)
			return err
		})
		require.NoError(t, tx.Rollback(within(t, time.Minute)))
	}
	tx, err := conn.Begin(within(t, 20*time.Second))
	require.NoError(t, err)
	gaveUp(insert(tx)) // by BEGIN's
	require.NoError(t, tx.Rollback(within(t, time.Minute)))

	var limit, lock string
	const show = "select current_setting('statement_timeout'), current_setting('lock_timeout')"
	require.NoError(t, conn.QueryRow(within(t, time.Minute), show).Scan(&limit, &lock))
	assertLimit(t, time.Minute, limit)
	assertLimit(t, 601*time.Millisecond, lock)
	tx, err = conn.Begin(within(t, time.Minute))
	require.NoError(t, err)
	require.NoError(t, tx.QueryRow(t.Context(), show).Scan(&limit, &lock))
	assert.Equal(t, [2]string{"0", "0"}, [2]string{limit, lock}, "both are lifted")
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, conn.QueryRow(t.Context(), show).Scan(&limit, &lock))
	assert.Equal(t, [2]string{"0", "0"}, [2]string{limit, lock}, "nothing is left behind")
}

// A statement_timeout that the connection string asks for is kept where it is the shorter one,
// and what it ends is not the deadline.
func TestAShorterLimitOfTheConnectionStringIsKept(t *testing.T) {
	server := start(t)
	for text, own := range map[string]time.Duration{"900": 900 * time.Millisecond, "20s": 20 * time.Second, "1 min": time.Minute} {
		cfg := config(t, server, server.Addr(), pgx.QueryExecModeCacheStatement)
		cfg.RuntimeParams["statement_timeout"] = text
		conn := connect(t, cfg)
		see := func(q querier, d time.Duration) time.Duration {
			var v string
			var n int
			require.NoError(t, q.QueryRow(within(t, d), "select current_setting('statement_timeout'), $1::int", 1).Scan(&v, &n))
			if v == "1min" {
				return time.Minute
			}
			limit, err := time.ParseDuration(v)
			require.NoError(t, err)
			return limit
		}
		tx, err := conn.Begin(within(t, time.Hour))
		require.NoError(t, err)
		assert.Equal(t, own, see(tx, time.Hour))
		if own > time.Second {
			assert.Less(t, see(tx, own/2), own)
		}
		assert.Equal(t, own, see(tx, time.Hour))
		require.NoError(t, tx.Rollback(t.Context()))
		for range 2 {
			assert.Equal(t, own, see(conn, time.Hour))
		}
		if own > time.Second {
			assert.Less(t, see(conn, own/2), own)
			continue
		}
		err = run(within(t, time.Minute), conn, runaways["sleep"])
		assert.Equal(t, "57014", stateOf(err))
		assert.Equal(t, budget.Failed, budget.KindOf(err), "%v", err)
	}
}
