package curfewpgx_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewpgx "github.com/curfew-go/curfew/adapters/pgx"
	"github.com/curfew-go/curfew/internal/servers"
)

// Two hundred calls that are cancelled at once are as many cancel requests, and on a busy machine
// none of them gets through in its share of the slush.
func TestACancelThatWasNotReadyInTimeReachesTheServerAllTheSame(t *testing.T) {
	server := servers.Start(t, servers.PostgreSQL)
	watcher, err := pgx.Connect(t.Context(), server.DSN())
	require.NoError(t, err)
	defer watcher.Close(context.Background())
	cfg, err := pgx.ParseConfig(server.DSN())
	require.NoError(t, err)
	dial := cfg.DialFunc
	var dials atomic.Int64
	cfg.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if dials.Add(1) == 2 { // the first one is the connection's own
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return dial(ctx, network, addr)
	}
	curfewpgx.Configure(cfg)
	conn, err := pgx.ConnectConfig(t.Context(), cfg)
	require.NoError(t, err)
	defer conn.Close(context.Background())

	pid := conn.PgConn().PID()
	const query = "select 1 from pg_sleep(600)"
	active := func() (n int) {
		require.NoError(t, watcher.QueryRow(context.Background(), "select count(*) from pg_stat_activity where pid = $1 and state = 'active'", int32(pid)).Scan(&n))
		return n
	}
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		var n int
		failed <- conn.QueryRow(ctx, query).Scan(&n)
	}()
	require.Eventually(t, func() bool { return active() == 1 }, 30*time.Second, time.Millisecond)
	cancel()
	assert.ErrorIs(t, curfewpgx.Error(ctx, <-failed), context.Canceled)
	assert.True(t, conn.IsClosed())
	assert.Eventually(t, func() bool { return active() == 0 }, 30*time.Second, time.Millisecond)
	assert.EqualValues(t, 3, dials.Load())
	stats := curfewpgx.StatsOf(cfg)
	assert.Equal(t, []int64{0, 1}, []int64{stats.CancelRequests, stats.CancelsUnheard}, "%+v", stats)
}
