package curfewpgx_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewpgx "github.com/curfew-go/curfew/adapters/pgx"
	"github.com/curfew-go/curfew/internal/servers"
)

// Where BeforeConnect has a name or a token for each connection, nobody ever comes for a session that is kept.
func TestSessionsForNobodyDoNotAddUp(t *testing.T) {
	server := servers.Start(t, servers.PostgreSQL)
	watcher := bare(t, config(t, server, server.Addr(), pgx.QueryExecModeExec))
	cfg := config(t, server, server.Addr(), pgx.QueryExecModeCacheStatement)
	curfewpgx.Configure(cfg, curfewpgx.Patience(late)) // nothing ends for its age
	pc, err := pgxpool.ParseConfig("")
	require.NoError(t, err)
	var made atomic.Int64
	pc.ConnConfig, pc.MaxConns = cfg, 1
	pc.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
		c.RuntimeParams["application_name"] = fmt.Sprint("place ", made.Add(1))
		return nil
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), pc)
	require.NoError(t, err)
	defer pool.Close()
	for range 5 {
		fill(t, pool, 1)
		whileFrozen(server, func() { assert.Error(t, run(within(t, shortly), pool, "select 1, $1::int")) })
	}
	fill(t, pool, 1)
	require.Eventually(t, func() bool {
		var n int
		require.NoError(t, watcher.QueryRow(t.Context(), "select count(*) from pg_stat_activity where application_name like 'place%'").Scan(&n))
		return n == 1
	}, late/2, time.Millisecond, "more than the pool may have")
}
