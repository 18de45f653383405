package curfewredis_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewredis "github.com/curfew-go/curfew/adapters/redis"
	"github.com/curfew-go/curfew/internal/servers"
	"github.com/curfew-go/curfew/retrybudget"
)

// twoServers are a Redis and its replica, behind a network that the test rules.
type twoServers struct {
	t        *testing.T
	net      *network
	main     *servers.Server
	replica  *servers.Server
	password string
}

func startTwo(t *testing.T) *twoServers {
	const password = "of-the-fleet"
	// Members have a user of their own, since each server has its own password.
	user := "user=fleet on >" + password + " ~* &* +@all"
	s := &twoServers{t: t, password: password}
	s.main = servers.Start(t, servers.Redis, user, "appendonly=yes", "repl-diskless-sync-delay=0")
	s.replica = servers.Start(t, servers.Redis, user, "appendonly=yes", "repl-diskless-sync-delay=0")
	s.net = newNetwork(t, s.main.Addr())
	s.follow()
	return s
}

func (s *twoServers) admin(of *servers.Server) *redis.Client {
	return client(s.t, of.Addr(), of.Password)
}

// follow makes the one the replica of the other, and waits until it is.
func (s *twoServers) follow() {
	ctx := context.Background()
	c := s.admin(s.replica)
	require.NoError(s.t, c.ConfigSet(ctx, "masterauth", s.main.Password).Err())
	require.NoError(s.t, c.ReplicaOf(ctx, s.main.Host, fmt.Sprint(s.main.Port)).Err())
	soon(s.t, "replica in step", func() bool {
		info, err := c.InfoMap(ctx, "replication").Result()
		return err == nil && info["Replication"]["master_link_status"] == "up"
	})
}

// failOver kills the main server and promotes the replica, which has heard of all
// that was before and of nothing that unheard did.
func (s *twoServers) failOver(unheard func()) {
	soon(s.t, "the replica has all", func() bool { return s.written(s.replica) == s.written(s.main) })
	s.replica.Freeze()
	unheard()
	s.main.Kill()
	s.net.to(s.replica.Addr())
	s.replica.Thaw()
	require.NoError(s.t, s.admin(s.replica).ReplicaOf(context.Background(), "NO", "ONE").Err())
	s.main, s.replica = s.replica, s.main
}

// written is how far a server's data has come, in bytes of replication.
func (s *twoServers) written(of *servers.Server) string {
	info, err := s.admin(of).InfoMap(context.Background(), "replication").Result()
	require.NoError(s.t, err)
	if info["Replication"]["role"] == "slave" {
		return info["Replication"]["slave_repl_offset"]
	}
	return info["Replication"]["master_repl_offset"]
}

// somebodyWrites waits until the main server has written more.
func (s *twoServers) somebodyWrites() {
	before := s.written(s.main)
	soon(s.t, "more is written", func() bool { return s.written(s.main) != before })
}

// back makes a replica of the server that was killed.
func (s *twoServers) back() {
	s.replica.Restart()
	s.follow()
}

// A replica that takes over has the pool as it was before the last calls, and a
// server that restarts from its file may. What was lent in them is not lent again,
// and what was given in them is not taken twice.
func TestAServerThatTakesOverLendsNothingTwice(t *testing.T) {
	t.Parallel()
	s := startTwo(t)
	c := redis.NewClient(&redis.Options{
		Addr: s.net.addr, Username: "fleet", Password: s.password, ContextTimeoutEnabled: true, MaxRetries: -1,
	})
	t.Cleanup(func() { _ = c.Close() })
	p, err := curfewredis.New(c, curfewredis.Config{})
	require.NoError(t, err)
	r := retrybudget.PoolRequest{Target: "target", Member: "a", PerSecond: 10_000_000_000, Burst: 5_000_000}
	sync := func() (g retrybudget.PoolGrant) {
		r.Seq++
		soon(t, "served", func() bool {
			var err error
			g, err = p.Sync(t.Context(), r)
			return err == nil
		})
		return g
	}
	full := func() retrybudget.PoolGrant {
		var g retrybudget.PoolGrant
		soon(t, "a full floor", func() bool { g = sync(); return g.Balance >= r.Burst })
		return g
	}
	for name, trouble := range map[string]func(unheard func()){
		"failover": s.failOver,
		"restart":  func(last func()) { last(); s.main.Kill(); s.main.Restart() },
	} {
		t.Run(name, func(t *testing.T) {
			before := full()
			r.Epoch = before.Epoch
			give := r
			give.Member, give.Seq = name, 1
			give.Donate, give.Expires = 3_000_000, before.Now+9_000_000
			_, err := p.Sync(t.Context(), give)
			require.NoError(t, err)
			trouble(func() {
				r.Want = 5_000_000
				assert.Positive(t, sync().Granted)
				r.Want = 0
			})
			_, err = c.Ping(t.Context()).Result()
			for err != nil {
				_, err = c.Ping(t.Context()).Result()
			}
			g, err := p.Sync(t.Context(), give)
			require.NoError(t, err)
			assert.NotEqual(t, before.Epoch, g.Epoch)
			assert.Zero(t, g.Balance)
			r.Want = 5_000_000
			assert.Zero(t, sync().Granted)
			r.Want = 0
			after := full()
			assert.Greater(t, after.Now-g.Now, int64(time.Second/time.Microsecond), "what was lent before may have been spent until then")
		})
	}
}
