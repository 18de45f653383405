package curfewredis_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewredis "github.com/curfew-go/curfew/adapters/redis"
	"github.com/curfew-go/curfew/internal/servers"
	"github.com/curfew-go/curfew/retrybudget"
)

// give is the request of one that donates two retries, after an answer.
func give(seq uint64, after retrybudget.PoolGrant) retrybudget.PoolRequest {
	return retrybudget.PoolRequest{
		Target: "secret }{ target", Member: "a", Seq: seq,
		Epoch: after.Epoch, Donate: 2_000_000, Expires: after.Now + 9_000_000,
	}
}

func TestEveryKeyExpiresAndNoneTellsTheTarget(t *testing.T) {
	s := servers.Start(t, servers.Redis)
	c := client(t, s.Addr(), s.Password)
	p, err := curfewredis.New(c, curfewredis.Config{Prefix: "shop"})
	require.NoError(t, err)
	cancels, err := curfewredis.NewCancels(c, curfewredis.Config{Prefix: "shop"})
	require.NoError(t, err)
	ctx := context.Background()
	_, err = p.Sync(ctx, give(1, retrybudget.PoolGrant{}))
	require.NoError(t, err)
	require.NoError(t, cancels.Cancel(ctx, "secret job", time.Hour))
	keys, err := c.Keys(ctx, "*").Result()
	require.NoError(t, err)
	assert.Len(t, keys, 3)
	for _, key := range keys {
		assert.True(t, strings.HasPrefix(key, "shop:2:"), key)
		assert.NotContains(t, key, "secret")
		assert.Positive(t, c.TTL(ctx, key).Val(), key)
	}
}

func TestAServerThatHasForgottenTheScriptIsToldItAgain(t *testing.T) {
	s := servers.Start(t, servers.Redis)
	c := client(t, s.Addr(), s.Password)
	p, err := curfewredis.New(c, curfewredis.Config{})
	require.NoError(t, err)
	ctx := context.Background()
	var g retrybudget.PoolGrant
	for seq := range uint64(4) {
		g, err = p.Sync(ctx, give(seq+1, g))
		require.NoError(t, err)
		assert.EqualValues(t, 2_000_000*seq, g.Balance, "served once")
		require.NoError(t, c.ScriptFlush(ctx).Err())
	}
}

// Keys that are evicted one by one, whichever they are, create no credit.
func TestAnEvictedKeyCreatesNoCredit(t *testing.T) {
	s := servers.Start(t, servers.Redis)
	c := client(t, s.Addr(), s.Password)
	p, err := curfewredis.New(c, curfewredis.Config{})
	require.NoError(t, err)
	ctx := context.Background()
	var g retrybudget.PoolGrant
	for seq := uint64(1); seq < 12; seq++ {
		g, err = p.Sync(ctx, give(seq, g))
		require.NoError(t, err)
		keys, err := c.Keys(ctx, "*").Result()
		require.NoError(t, err)
		require.Len(t, keys, 2)
		require.NoError(t, c.Del(ctx, keys[seq/2%2]).Err())
		again := give(seq, g)
		again.Burst = 5_000_000
		after, err := p.Sync(ctx, again)
		require.NoError(t, err)
		assert.LessOrEqual(t, after.Balance, g.Balance)
		assert.Equal(t, 1, after.Members)
		g = after
	}
}

// A cluster of one: its keys must lie in one slot, as in any.
func TestAPoolLivesInACluster(t *testing.T) {
	// By itself it would listen on a second port 10,000 above, which may be taken.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, bus, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	require.NoError(t, l.Close())
	s := servers.Start(t, servers.Redis, "cluster-enabled=yes", "cluster-port="+bus)
	c := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{s.Addr()}, Password: s.Password, ContextTimeoutEnabled: true, MaxRetries: -1,
	})
	t.Cleanup(func() { _ = c.Close() })
	p, err := curfewredis.New(c, curfewredis.Config{})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err = p.Sync(ctx, give(1, retrybudget.PoolGrant{}))
	require.Error(t, err, "it has no slots yet")

	require.NoError(t, client(t, s.Addr(), s.Password).ClusterAddSlotsRange(ctx, 0, 16383).Err())
	seq := uint64(1)
	var g retrybudget.PoolGrant
	soon(t, "served by the cluster", func() bool {
		seq++
		g, err = p.Sync(ctx, give(seq, g))
		return err == nil && g.Balance >= 2_000_000
	})
}
