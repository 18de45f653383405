package curfewredis_test

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewredis "github.com/curfew-go/curfew/adapters/redis"
	"github.com/curfew-go/curfew/internal/servers"
	"github.com/curfew-go/curfew/retrybudget"
)

// What a fleet costs its Redis: one call for each member and period, at most.
func TestAMemberCallsRedisOnceAPeriodAtMost(t *testing.T) {
	const members, periods = 20, 12 // three seconds
	s := servers.Start(t, servers.Redis)
	p, err := curfewredis.New(client(t, s.Addr(), s.Password), curfewredis.Config{})
	require.NoError(t, err)
	var wg sync.WaitGroup
	began := time.Now()
	for i := range members {
		b := retrybudget.New("target", retrybudget.Config{Pool: p})
		wg.Go(func() {
			for time.Since(began) < periods*250*time.Millisecond {
				if i%2 == 0 {
					b.Success()
				}
				b.TryTake()
				time.Sleep(2 * time.Millisecond)
			}
		})
	}
	wg.Wait()
	spent := time.Since(began)
	info, err := client(t, s.Addr(), s.Password).Info(context.Background(), "commandstats").Result()
	require.NoError(t, err)
	found := regexp.MustCompile(`cmdstat_evalsha:calls=(\d+)`).FindStringSubmatch(info)
	require.Len(t, found, 2)
	calls, err := strconv.Atoi(found[1])
	require.NoError(t, err)
	most := 1.1 * members * float64(spent/(250*time.Millisecond)+1)
	t.Logf("%d calls of %d members in %v", calls, members, spent)
	assert.LessOrEqual(t, float64(calls), most)
	assert.Greater(t, calls, members*periods/3, "they did call")
}

// BenchmarkAThousandMembers is what a thousand members that all have something to
// say in each period cost their Redis: 4000 calls a second. It reports those made,
// and the server's processor time, of which 100% is all of one processor.
func BenchmarkAThousandMembers(b *testing.B) {
	const members, clients = 1000, 20
	s := servers.Start(b, servers.Redis)
	p, err := curfewredis.New(client(b, s.Addr(), s.Password), curfewredis.Config{})
	require.NoError(b, err)
	for b.Loop() {
		var calls, failed atomic.Int64
		before, began := cpuOf(b, s), time.Now()
		var wg sync.WaitGroup
		for i := range clients {
			wg.Go(func() {
				r := retrybudget.PoolRequest{Target: "target", PerSecond: 1_000_000, Burst: 5_000_000, Want: 1_000_000}
				for k := 0; time.Since(began) < 4*time.Second; k++ {
					const each = members / clients
					r.Member, r.Seq = strconv.Itoa(i*each+k%each), uint64(k/each+1)
					g, err := p.Sync(context.Background(), r)
					if err != nil {
						failed.Add(1)
					}
					calls.Add(1)
					r.Epoch, r.Donate, r.Expires = g.Epoch, 100_000, g.Now+9_000_000
					time.Sleep(time.Until(began.Add(time.Duration(k) * 250 * time.Millisecond / each)))
				}
			})
		}
		wg.Wait()
		spent := time.Since(began).Seconds()
		b.ReportMetric(float64(calls.Load())/spent, "calls/s")
		b.ReportMetric(100*(cpuOf(b, s)-before)/spent, "%cpu")
		require.Zero(b, failed.Load())
	}
}

// BenchmarkSync is one call after the other of a thousand members.
func BenchmarkSync(b *testing.B) {
	s := servers.Start(b, servers.Redis)
	p, err := curfewredis.New(client(b, s.Addr(), s.Password), curfewredis.Config{})
	require.NoError(b, err)
	before := cpuOf(b, s)
	r := retrybudget.PoolRequest{Target: "target", PerSecond: 1_000_000, Burst: 5_000_000, Want: 1_000_000}
	i, failed := 0, 0
	for b.Loop() {
		r.Member, r.Seq = strconv.Itoa(i%1000), uint64(i/1000+1)
		g, err := p.Sync(context.Background(), r)
		if err != nil {
			failed++
		}
		r.Epoch, r.Donate, r.Expires = g.Epoch, 100_000, g.Now+9_000_000
		i++
	}
	b.ReportMetric(1e6*(cpuOf(b, s)-before)/float64(i), "µs-cpu/call")
	info, err := client(b, s.Addr(), s.Password).InfoMap(context.Background(), "commandstats").Result()
	require.NoError(b, err)
	_, script, _ := strings.Cut(info["Commandstats"]["cmdstat_evalsha"], "usec_per_call=")
	script, _, _ = strings.Cut(script, ",")
	inside, err := strconv.ParseFloat(script, 64)
	require.NoError(b, err)
	b.ReportMetric(inside, "µs-script/call")
	require.Zero(b, failed)
}

// cpuOf returns the seconds of processor time that a server has used.
func cpuOf(b *testing.B, s *servers.Server) (sum float64) {
	info, err := client(b, s.Addr(), s.Password).InfoMap(context.Background(), "cpu").Result()
	require.NoError(b, err)
	for _, name := range []string{"used_cpu_sys", "used_cpu_user"} {
		part, err := strconv.ParseFloat(info["CPU"][name], 64)
		require.NoError(b, err)
		sum += part
	}
	return sum
}
