package curfewredis_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	curfewredis "github.com/curfew-go/curfew/adapters/redis"
	"github.com/curfew-go/curfew/internal/servers"
	"github.com/curfew-go/curfew/retrybudget/pooltest"
)

// client returns a client of s, as a Pool needs it.
func client(t testing.TB, addr, password string) *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: addr, Password: password, ContextTimeoutEnabled: true, MaxRetries: -1})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func open(t testing.TB, s *servers.Server) (*redis.Client, *curfewredis.Pool) {
	c := client(t, s.Addr(), s.Password)
	p, err := curfewredis.New(c, curfewredis.Config{MaxMembers: 12})
	require.NoError(t, err)
	return c, p
}

func TestRedisKeepsTheContract(t *testing.T) {
	s := servers.Start(t, servers.Redis)
	pooltest.Run(t, func(t *testing.T) pooltest.Lab {
		c, p := open(t, s)
		curfewredis.ShiftTime(t, p, "ahead")
		ctx := context.Background()
		ahead := time.Duration(0)
		advance := func(d time.Duration) {
			ahead += d
			require.NoError(t, c.Set(ctx, "ahead", ahead.Microseconds(), 0).Err())
		}
		lose := func() {
			require.NoError(t, c.FlushAll(ctx).Err())
			advance(0)
		}
		lose()
		return pooltest.Lab{Pool: p, MaxMembers: 12, Advance: advance, Lose: lose}
	})
}
