package curfewredis_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
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

// A Redis that swallows every call, being stopped or behind a network that does,
// delays no first attempt, and the ratio holds. When it is back, so is the fleet.
func TestCase43_ABlackHoledRedisDelaysNoFirstAttempt(t *testing.T) {
	s := servers.Start(t, servers.Redis)
	var swallow atomic.Bool
	for _, hole := range []struct {
		name, addr  string
		open, close func()
	}{
		{"stopped", s.Addr(), s.Freeze, s.Thaw},
		{"swallowed", proxy(t, s.Addr(), &swallow), func() { swallow.Store(true) }, func() { swallow.Store(false) }},
	} {
		t.Run(hole.name, func(t *testing.T) {
			p, err := curfewredis.New(client(t, hole.addr, s.Password), curfewredis.Config{})
			require.NoError(t, err)
			b := retrybudget.New(t.Name(), retrybudget.Config{Pool: p, PerSecond: 5})
			l := &load{b: b}
			l.run(time.Second)
			require.Equal(t, "fleet", b.Stats().Fleet.Mode)
			healthy := l.quantile(0.999)

			hole.open()
			for began := time.Now(); b.Stats().Fleet.Mode != "local" && time.Since(began) < 20*time.Second; {
				l.run(320 * time.Millisecond) // a period and a timeout
			}
			require.Equal(t, "local", b.Stats().Fleet.Mode)
			for b.TryTake() { // what was earned and lent before
			}
			*l = load{b: b}
			l.run(2 * time.Second)
			assert.Equal(t, "local", b.Stats().Fleet.Mode)
			assert.LessOrEqual(t, l.retries, l.successes/10+1)
			assert.Positive(t, l.retries)
			assert.Error(t, b.Stats().Fleet.Err)
			added := l.quantile(0.999) - healthy
			if stress.Level() > 0 { // the machine may be busy otherwise
				assert.Less(t, added, time.Millisecond)
			}
			t.Logf("p99.9 of %d first attempts: %v more than with a healthy pool; %d retries of %d successes", len(l.delays), added, l.retries, l.successes)

			hole.close()
			took := make(chan time.Duration, 1)
			go func() {
				took <- soon(t, "back in the fleet", func() bool { return b.Stats().Fleet.Mode == "fleet" })
			}()
			for len(took) == 0 {
				l.run(50 * time.Millisecond)
			}
			back := <-took
			t.Logf("back after %v", back)
			if stress.Level() > 0 {
				assert.LessOrEqual(t, back, 600*time.Millisecond, "two periods at their longest")
			}
		})
	}
}

// answer is a good reply of the script to who asks, but that the i-th of its numbers
// is another one.
func answer(i int, number string) string {
	n := []string{"1", "1", "0", "0", "0", "0", "0", "0", "1", "0", "0", "0"}
	if i >= 0 {
		n[i] = number
	}
	text := "*13\r\n" + who + "\r\n"
	for _, n := range n {
		text += fmt.Sprintf("$%d\r\n%s\r\n", len(n), n)
	}
	return text
}

func TestAGoodAnswerOfRedisMakesAFleet(t *testing.T) {
	p, err := curfewredis.New(client(t, fake(t, answer(-1, "")), ""), curfewredis.Config{})
	require.NoError(t, err)
	b := retrybudget.New("target", retrybudget.Config{Pool: p})
	assert.False(t, b.TryTake())
	soon(t, "fleet", func() bool { return b.Stats().Fleet.Mode == "fleet" })
}

// Every answer that is none takes the same path.
func TestCase46_EveryErrorOfRedisEndsInLocalMode(t *testing.T) {
	for name, reply := range map[string]string{
		"moved":                 "-MOVED 1234 127.0.0.1:1\r\n",
		"asked to go elsewhere": "-ASK 1234 127.0.0.1:1\r\n",
		"read only":             "-READONLY You can't write against a read only replica.\r\n",
		"loading":               "-LOADING Redis is loading the dataset in memory\r\n",
		"cluster down":          "-CLUSTERDOWN The cluster is down\r\n",
		"no such script":        "-NOSCRIPT No matching script.\r\n",
		"out of memory":         "-OOM command not allowed when used memory > 'maxmemory'.\r\n",
		"busy":                  "-BUSY Redis is busy running a script.\r\n",
		"not permitted":         "-NOPERM this user has no permissions\r\n",
		"hung up":               "",
		"a status":              "+OK\r\n",
		"a number":              ":1\r\n",
		"nothing":               "$-1\r\n",
		"an empty list":         "*0\r\n",
		"too few":               "*2\r\n$1\r\n1\r\n$1\r\n0\r\n",
		"numbers, not texts":    strings.ReplaceAll(answer(-1, ""), "$1\r\n", ":"),
		"a fraction":            answer(2, "0.5"),
		"a negative":            answer(7, "-1"),
		"too large a number":    answer(7, "99999999999999999999"),
		"more than wanted":      answer(2, "9000000"),
		"a lease of an hour":    answer(3, "3600000000"),
		"more of the floor":     answer(4, "1000000"),
		"no epoch":              answer(0, "0"),
		"an endless hold":       answer(9, "9000000000000000"),
		"another one's answer":  strings.Replace(answer(-1, ""), who, "$5\r\nabc 1", 1),
		"an earlier answer":     strings.Replace(answer(-1, ""), who, who+"0", 1),
		"not Redis at all":      "HTTP/1.1 400 Bad Request\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := curfewredis.New(client(t, fake(t, reply), ""), curfewredis.Config{})
			require.NoError(t, err)
			b := retrybudget.New("target", retrybudget.Config{Pool: p})
			calls := 0
			err = retrybudget.Do(context.Background(), b, idempotent(time.Millisecond), func(context.Context) error { calls++; return errDown })
			assert.ErrorIs(t, err, errDown)
			assert.ErrorIs(t, err, retrybudget.ErrDenied)
			assert.Equal(t, 1, calls)
			soon(t, "local", func() bool { return b.Stats().Fleet.Mode == "local" })
			assert.Zero(t, b.Stats().Fleet.Leased)
			assert.Error(t, b.Close(context.Background()))
		})
	}
}

// What somebody else wrote where our keys are, and a server that takes no writes.
func TestGarbageAtTheKeysEndsInLocalModeAndTheFleetIsBackOnceItIsGone(t *testing.T) {
	s := servers.Start(t, servers.Redis)
	c, p := open(t, s)
	ctx := context.Background()
	b := retrybudget.New("target", retrybudget.Config{Pool: p})
	mode := func(want string) {
		soon(t, want, func() bool { b.TryTake(); b.Success(); return b.Stats().Fleet.Mode == want })
	}
	mode("fleet")
	keys, err := c.Keys(ctx, "*}").Result()
	require.NoError(t, err)
	require.Len(t, keys, 1)
	pool, seen := keys[0], keys[0]+":seen"
	for name, spoil := range map[string]func() error{
		"a string":           func() error { return c.Set(ctx, pool, "x", 0).Err() },
		"no messagepack":     func() error { return c.HSet(ctx, pool, "state", "\xc1x").Err() },
		"a number":           func() error { return c.HSet(ctx, pool, "state", "\x01").Err() },
		"seen a string":      func() error { return c.Set(ctx, seen, "x", 0).Err() },
		"seen a hash":        func() error { c.Del(ctx, seen); return c.HSet(ctx, seen, "x", "y").Err() },
		"no memory":          func() error { return c.ConfigSet(ctx, "maxmemory", "1").Err() },
		"a replica required": func() error { return c.ConfigSet(ctx, "min-replicas-to-write", "1").Err() },
		"read only":          func() error { return c.ReplicaOf(ctx, "127.0.0.1", "1").Err() },
	} {
		t.Run(name, func(t *testing.T) {
			mode("fleet")
			soon(t, "spoiled", func() bool { return spoil() == nil })
			mode("local")
			assert.ErrorContains(t, b.Stats().Fleet.Err, "curfewredis: sync: ")
			c.ConfigSet(ctx, "maxmemory", "0")
			c.ConfigSet(ctx, "min-replicas-to-write", "0")
			c.ReplicaOf(ctx, "NO", "ONE")
			c.Del(ctx, pool, seen)
			mode("fleet")
		})
	}
}

// The user whom the package comment describes.
func TestTheUserOfThePackageCommentSuffices(t *testing.T) {
	s := servers.Start(t, servers.Redis, "user=limited on >pw ~curfew:* resetchannels -@all +evalsha +eval +info +time +del +expire +hmget +hset +hdel +zadd +zcard +zcount +zrangebyscore +zrem +zscore +set +exists")
	c := redis.NewClient(&redis.Options{Addr: s.Addr(), Username: "limited", Password: "pw", ContextTimeoutEnabled: true, MaxRetries: -1})
	t.Cleanup(func() { _ = c.Close() })
	p, err := curfewredis.New(c, curfewredis.Config{MaxMembers: 1})
	require.NoError(t, err)
	ctx := context.Background()
	g, err := p.Sync(ctx, give(1, retrybudget.PoolGrant{}))
	require.NoError(t, err)
	assert.Positive(t, g.Epoch)
	other := give(1, g)
	other.Member = "b"
	_, err = p.Sync(ctx, other)
	assert.ErrorContains(t, err, "CURFEWFULL")
	cancels, err := curfewredis.NewCancels(c, curfewredis.Config{})
	require.NoError(t, err)
	require.NoError(t, cancels.Cancel(ctx, "job", time.Hour))
	yes, err := cancels.Cancelled(ctx, "job")
	assert.NoError(t, err)
	assert.True(t, yes)
	assert.NoError(t, cancels.Forget(ctx, "job"))
}

func TestCase48_AThousandReloadsKeepTheConnectionsOfOne(t *testing.T) {
	s := servers.Start(t, servers.Redis)
	c := client(t, s.Addr(), s.Password)
	ctx := context.Background()
	connected := func() string { // as the server has it
		info, err := c.InfoMap(ctx, "clients").Result()
		require.NoError(t, err)
		return info["Clients"]["connected_clients"]
	}
	after := map[int]string{}
	for i := range 1000 {
		p, err := curfewredis.New(c, curfewredis.Config{})
		require.NoError(t, err)
		b := retrybudget.New("target", retrybudget.Config{Pool: p, Ratio: 1})
		b.Success()
		b.Success()
		require.NoError(t, b.Close(ctx))
		if i == 9 || i == 999 {
			after[i] = connected() // the client is still open
		}
	}
	assert.Equal(t, after[9], after[999])
	t.Logf("%s connections", after[999])
}

func TestAClientThatWouldNotObeyIsRefused(t *testing.T) {
	good := redis.Options{Addr: "127.0.0.1:1", ContextTimeoutEnabled: true, MaxRetries: -1}
	deaf, stubborn := good, good
	deaf.ContextTimeoutEnabled = false
	stubborn.MaxRetries = 0 // three, to go-redis
	for why, c := range map[string]redis.UniversalClient{
		"":                      redis.NewClient(&good),
		"ContextTimeoutEnabled": redis.NewClient(&deaf),
		"up to 3 times":         redis.NewClient(&stubborn),
		"it is nil":             nil,
		"*redis.Ring":           redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}, ContextTimeoutEnabled: true}),
		"set ContextTimeoutEnabled": redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: []string{"127.0.0.1:1"},
		}),
		"up to 2 times": redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: "main", SentinelAddrs: []string{"127.0.0.1:1"}, ContextTimeoutEnabled: true, MaxRetries: 2,
		}),
	} {
		if c != nil {
			t.Cleanup(func() { _ = c.Close() })
		}
		_, err := curfewredis.New(c, curfewredis.Config{})
		_, other := curfewredis.NewCancels(c, curfewredis.Config{})
		if why == "" {
			assert.NoError(t, err)
			assert.NoError(t, other)
			continue
		}
		var refused *curfewredis.ClientError
		require.ErrorAs(t, err, &refused)
		assert.ErrorContains(t, err, why)
		assert.Equal(t, err, other)
	}
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}, ContextTimeoutEnabled: true, MaxRetries: -1})
	t.Cleanup(func() { _ = cluster.Close() })
	_, err := curfewredis.New(cluster, curfewredis.Config{})
	assert.NoError(t, err)
	assert.Panics(t, func() { _, _ = curfewredis.New(cluster, curfewredis.Config{Prefix: "{x}"}) })
	assert.Panics(t, func() { _, _ = curfewredis.New(cluster, curfewredis.Config{MaxMembers: -1}) })
}
