package curfewpgx_test

import (
	"context"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewpgx "github.com/curfew-go/curfew/adapters/pgx"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/netproxy"
	"github.com/curfew-go/curfew/internal/servers"
)

const (
	stormed  = 100 // deadlines at once
	mostMade = 10  // connections that they may cost
)

// storm has a hundred statements run into their deadlines at once, each on a connection of pool.
func storm(t *testing.T, pool *pgxpool.Pool) {
	atOnce(t, pool, stormed, func(conn *pgxpool.Conn) {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		err := run(ctx, conn, runaways["sleep"])
		assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err), "%v", err)
	})
}

func TestCase45_AHundredDeadlinesAtOnceMakeNoStormOfConnections(t *testing.T) {
	server := start(t)
	proxy := netproxy.New(t, server.Addr())
	cfg := config(t, server, proxy.Addr(), pgx.QueryExecModeExec)
	pool := newPool(t, cfg, stormed, curfewpgx.Slush(roomy))
	fill(t, pool, stormed)
	before := proxy.Conns()
	storm(t, pool)
	t.Logf("%d deadlines, %d new connections", stormed, proxy.Conns()-before)
	assert.LessOrEqual(t, proxy.Conns()-before, int64(mostMade))
	assert.Zero(t, curfewpgx.StatsOf(cfg).CancelRequests)
}

// With a pooler between there are two kinds of connections: ours to it, and its own to the server.
func TestCase45_AHundredDeadlinesAtOnceMakeNoStormBehindPgBouncer(t *testing.T) {
	server := start(t)
	behind := netproxy.New(t, server.Addr()) // between pgbouncer and the server
	upstream := server.InDatabase(server.Database)
	upstream.Port = portOf(t, behind.Addr())
	bouncer := servers.StartPgBouncer(t, upstream, "default_pool_size=110", "max_client_conn=250")
	front := netproxy.New(t, bouncer.Addr())
	cfg := config(t, bouncer, front.Addr(), pgx.QueryExecModeExec)
	pool := newPool(t, cfg, stormed, curfewpgx.BehindPooler(), curfewpgx.Slush(roomy))
	var inside sync.WaitGroup
	inside.Add(stormed)
	fresh(t, pool, stormed, func(conn *pgxpool.Conn) { // a server connection for each, since each is in a transaction
		tx, err := conn.Begin(context.Background())
		inside.Done()
		if assert.NoError(t, err) {
			inside.Wait()
			assert.NoError(t, tx.Rollback(context.Background()))
		}
	})
	clients, servers := front.Conns(), behind.Conns()
	require.GreaterOrEqual(t, servers, int64(stormed))
	storm(t, pool)
	clients, servers = front.Conns()-clients, behind.Conns()-servers
	t.Logf("%d deadlines, %d new connections to pgbouncer, %d of its own to the server", stormed, clients, servers)
	assert.LessOrEqual(t, clients, int64(mostMade))
	assert.LessOrEqual(t, servers, int64(mostMade))
	assert.Zero(t, curfewpgx.StatsOf(cfg).CancelRequests)
}

func portOf(t *testing.T, addr string) int {
	_, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	n, err := strconv.Atoi(port)
	require.NoError(t, err)
	return n
}
