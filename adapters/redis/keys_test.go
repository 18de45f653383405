package curfewredis_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewredis "github.com/curfew-go/curfew/adapters/redis"
	"github.com/curfew-go/curfew/internal/servers"
	"github.com/curfew-go/curfew/internal/stress"
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

// Who comes back each hour with new processes, as a job does, must not fill the one
// key while the other one, which says who may be forgotten, expires.
func TestAPoolWhoseMembersComeAndGoKeepsNoMoreOfThemThanMaxMembers(t *testing.T) {
	s := servers.Start(t, servers.Redis)
	for name, pass := range map[string]func(c *redis.Client, hour int, seen string){
		"their key is gone": func(c *redis.Client, _ int, seen string) { require.NoError(t, c.Del(t.Context(), seen).Err()) },
		"time passes": func(c *redis.Client, hour int, _ string) {
			require.NoError(t, c.Set(t.Context(), "ahead", (time.Duration(hour+1)*time.Hour).Microseconds(), 0).Err())
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, p := open(t, s) // 12 members
			curfewredis.ShiftTime(t, p, "ahead")
			require.NoError(t, c.FlushAll(t.Context()).Err())
			for hour := range 50 {
				for pod := range 10 {
					_, err := p.Sync(t.Context(), retrybudget.PoolRequest{Target: "job", Member: fmt.Sprint(hour, "-", pod), Seq: 1})
					require.NoError(t, err)
				}
				seen, err := c.Keys(t.Context(), "*:seen").Result()
				require.NoError(t, err)
				require.Len(t, seen, 1)
				pass(c, hour, seen[0])
			}
			keys, err := c.Keys(t.Context(), "curfew:*}").Result()
			require.NoError(t, err)
			require.Len(t, keys, 1)
			n, err := c.HLen(t.Context(), keys[0]).Result()
			require.NoError(t, err)
			assert.LessOrEqual(t, n, int64(13), "the state, and a field for each member")
		})
	}
}

// Quiet members go also where there is room for more.
func TestMembersThatAreQuietForTenMinutesAreForgotten(t *testing.T) {
	s := servers.Start(t, servers.Redis)
	c := client(t, s.Addr(), s.Password)
	p, err := curfewredis.New(c, curfewredis.Config{})
	require.NoError(t, err)
	curfewredis.ShiftTime(t, p, "ahead")
	var g retrybudget.PoolGrant
	for i := range 50 {
		r := give(1, g)
		r.Member = fmt.Sprint(i)
		g, err = p.Sync(t.Context(), r)
		require.NoError(t, err)
	}
	require.NoError(t, c.Set(t.Context(), "ahead", (11*time.Minute).Microseconds(), 0).Err())
	after, err := p.Sync(t.Context(), give(1, g))
	require.NoError(t, err)
	assert.Equal(t, g.Epoch, after.Epoch, "the pool is the same")
	keys, err := c.Keys(t.Context(), "curfew:*}").Result()
	require.NoError(t, err)
	n, err := c.HLen(t.Context(), keys[0]).Result()
	require.NoError(t, err)
	assert.EqualValues(t, 2, n, "the state, and the one that called")
	for _, key := range append(keys, keys[0]+":seen") {
		assert.Greater(t, c.TTL(t.Context(), key).Val(), time.Hour, "a pool that was in use for a while keeps its floor for longer")
	}
}

func TestAKeyThatWasEvictedAndMadeAnewWithinTheSecondExpiresToo(t *testing.T) {
	s := servers.Start(t, servers.Redis)
	c, p := open(t, s)
	hits := 0
	for try := range 50 {
		r := retrybudget.PoolRequest{Target: fmt.Sprint(try), Member: "a", Seq: 1}
		g, err := p.Sync(t.Context(), r)
		require.NoError(t, err)
		seen, err := c.Keys(t.Context(), "*:seen").Result()
		require.NoError(t, err)
		require.NoError(t, c.Del(t.Context(), seen...).Err())
		r.Seq++
		again, err := p.Sync(t.Context(), r)
		require.NoError(t, err)
		if again.Now/1e6 == g.Now/1e6 {
			hits++
		}
		seen, err = c.Keys(t.Context(), "*:seen").Result()
		require.NoError(t, err)
		require.Len(t, seen, 1)
		assert.Positive(t, c.TTL(t.Context(), seen[0]).Val())
	}
	assert.Positive(t, hits, "never within one second")
}

// Names that come from outside, in a Set that holds ten.
func TestMadeUpTargetsCostAServerTenMinutesOfMemoryAndMostOfThemNothing(t *testing.T) {
	s := servers.Start(t, servers.Redis)
	c := client(t, s.Addr(), s.Password)
	p, err := curfewredis.New(c, curfewredis.Config{})
	require.NoError(t, err)
	used := func() (n int64) {
		info, err := c.InfoMap(t.Context(), "memory").Result()
		require.NoError(t, err)
		_, err = fmt.Sscan(info["Memory"]["used_memory"], &n)
		require.NoError(t, err)
		return n
	}
	const names = 1000
	set := retrybudget.NewSet(retrybudget.Config{Pool: p}, 10)
	for i := range names { // each is gone before its first period is over
		set.For(fmt.Sprint("made-up-", i)).Success()
	}
	require.NoError(t, set.Close(t.Context()))
	keys, err := c.Keys(t.Context(), "curfew:*").Result()
	require.NoError(t, err)
	t.Logf("%d keys of %d names that were forgotten at once", len(keys), names)
	if stress.Level() > 0 {
		assert.LessOrEqual(t, len(keys), 2*10+20)
	}

	ask := func(target, member int) {
		_, err := p.Sync(t.Context(), retrybudget.PoolRequest{
			Target: fmt.Sprint("kept-", target), Member: fmt.Sprintf("member-%019d", member), Seq: 1, Burst: 5_000_000, PerSecond: 1_000_000,
		})
		require.NoError(t, err)
	}
	before := used()
	for i := range names {
		ask(i, 0)
	}
	each := (used() - before) / names
	for i := range 1000 {
		ask(0, i)
	}
	t.Logf("%d bytes a name, and %d for each member more", each, (used()-before-each*names)/1000)
	assert.Less(t, each, int64(3000))
	keys, err = c.Keys(t.Context(), "curfew:*").Result()
	require.NoError(t, err)
	for _, k := range keys {
		assert.LessOrEqual(t, c.TTL(t.Context(), k).Val(), 10*time.Minute)
	}
}

// Members of one version must agree about what is stored and what it means. Who
// changes the script changes the version as well, or knows that it is not needed,
// and puts the new sum here.
func TestTheScriptIsThatOfItsVersion(t *testing.T) {
	script, version := curfewredis.Script()
	sum := sha256.Sum256([]byte(script))
	assert.Equal(t, "2", version)
	assert.Equal(t, "a6bd3f47530b8e3752965164fc0adbc3c2d6e70242b3625bb52414d32b3a37bf", hex.EncodeToString(sum[:]))
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
