package curfewpgx_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/internal/netproxy"
)

func TestAWaitForNotificationsEndsAtItsDeadlineAndKeepsTheConnection(t *testing.T) {
	server := start(t)
	other := bare(t, config(t, server, server.Addr(), pgx.QueryExecModeExec))
	proxy := netproxy.New(t, server.Addr())
	conn := connect(t, config(t, server, proxy.Addr(), pgx.QueryExecModeCacheStatement))
	_, err := conn.Exec(within(t, time.Minute), "listen news")
	require.NoError(t, err)
	for range 3 {
		_, err := conn.WaitForNotification(within(t, 50*time.Millisecond))
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(20*time.Millisecond, cancel)
		_, err = conn.WaitForNotification(ctx)
		assert.ErrorIs(t, err, context.Canceled)
	}
	assert.Equal(t, int64(1), proxy.Conns(), "no cancel request is sent for a wait")
	for _, payload := range []string{"one", "two"} { // one comes between bursts, one within
		_, err = other.Exec(t.Context(), "select pg_notify('news', $1)", payload)
		require.NoError(t, err)
		if payload == "two" {
			require.NoError(t, ask(within(t, time.Minute), conn, "select $1::int"))
		}
		n, err := conn.WaitForNotification(within(t, time.Minute))
		require.NoError(t, err)
		assert.Equal(t, payload, n.Payload)
	}
	require.NoError(t, ask(within(t, time.Minute), conn, "select $1::int"))
}
