package curfewredis_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewredis "github.com/curfew-go/curfew/adapters/redis"
	"github.com/curfew-go/curfew/retrybudget"
)

// startSentinel watches s.main, and returns its address. It is redis-server too.
func startSentinel(t *testing.T, s *twoServers) string {
	program, err := exec.LookPath("redis-server")
	require.NoError(t, err)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := free.Addr().String()
	_, port, _ := net.SplitHostPort(addr)
	require.NoError(t, free.Close())
	config := filepath.Join(t.TempDir(), "sentinel.conf")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `bind 127.0.0.1
port %s
sentinel monitor main %s %d 1
sentinel auth-user main fleet
sentinel auth-pass main %s
sentinel down-after-milliseconds main 500
sentinel failover-timeout main 3000
`, port, s.main.Host, s.main.Port, s.password), 0o600))
	cmd := exec.Command(program, config, "--sentinel")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return addr
}

// The server dies and Sentinel makes the replica the next one: the member is alone
// meanwhile, and finds the new one by itself.
func TestAFleetBehindSentinelOutlivesItsServer(t *testing.T) {
	t.Parallel()
	s := startTwo(t)
	sentinel := startSentinel(t, s)
	look := redis.NewSentinelClient(&redis.Options{Addr: sentinel})
	t.Cleanup(func() { _ = look.Close() })
	soon(t, "Sentinel knows the replica", func() bool {
		replicas, err := look.Replicas(t.Context(), "main").Result()
		return err == nil && len(replicas) == 1
	})
	c := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: "main", SentinelAddrs: []string{sentinel}, Username: "fleet", Password: s.password,
		ContextTimeoutEnabled: true, MaxRetries: -1, DialTimeout: 250 * time.Millisecond,
	})
	t.Cleanup(func() { _ = c.Close() })
	p, err := curfewredis.New(c, curfewredis.Config{})
	require.NoError(t, err)
	b := retrybudget.New("target", retrybudget.Config{Pool: p, PerSecond: 50, Burst: 150})
	want := func(mode string) func() bool {
		return func() bool {
			b.TryTake()
			return b.Stats().Fleet.Mode == mode
		}
	}
	soon(t, "fleet", want("fleet"))
	s.main.Kill()
	soon(t, "local", want("local"))
	took := soon(t, "fleet again", want("fleet"))
	lent := b.Stats().Fleet.Leased
	soon(t, "lends again", func() bool { b.TryTake(); return b.Stats().Fleet.Leased > lent })
	t.Logf("in the fleet again after %v", took)
	assert.NoError(t, b.Close(t.Context()))
}
