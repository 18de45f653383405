package curfewredis_test

import (
	"fmt"
	"net"
	"sync"
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

// far is a way to a server that is far away.
type far struct {
	addr  string
	rtt   atomic.Int64 // nanoseconds: each half of them what is said is under way
	conns atomic.Int64 // made so far
}

func newFar(t testing.TB, addr string, rtt time.Duration) *far {
	f := &far{}
	f.rtt.Store(int64(rtt))
	f.addr = listen(t, func(conn net.Conn) {
		f.conns.Add(1)
		up, err := net.Dial("tcp", addr)
		if err != nil {
			return
		}
		defer up.Close()
		go f.carry(conn, up)
		f.carry(up, conn)
	})
	return f
}

// carry brings what src says to dst, which it closes in the end.
func (f *far) carry(dst, src net.Conn) {
	type said struct {
		due  time.Time
		what []byte
	}
	way := make(chan said, 1000)
	go func() {
		defer dst.Close()
		for s := range way {
			time.Sleep(time.Until(s.due)) // in real time: it is the network's
			if _, err := dst.Write(s.what); err != nil {
				break
			}
		}
		for range way {
		}
	}()
	defer close(way)
	for {
		what := make([]byte, 16384)
		n, err := src.Read(what)
		if err != nil {
			return
		}
		way <- said{time.Now().Add(time.Duration(f.rtt.Load() / 2)), what[:n]}
	}
}

// pool returns a pool whose client is as the package comment has it.
func (f *far) pool(t testing.TB, s *servers.Server) *curfewredis.Pool {
	c := redis.NewClient(&redis.Options{
		Addr: f.addr, Password: s.Password, ContextTimeoutEnabled: true, MaxRetries: -1,
		DialTimeout: 250 * time.Millisecond, DialerRetries: 1,
	})
	t.Cleanup(func() { _ = c.Close() })
	p, err := curfewredis.New(c, curfewredis.Config{})
	require.NoError(t, err)
	return p
}

// use calls b for d, and returns for how much of it that was in the fleet.
func use(b *retrybudget.Budget, d time.Duration) (inFleet time.Duration) {
	last := time.Now()
	for began := last; last.Sub(began) < d; {
		b.TryTake()
		b.Success()
		time.Sleep(5 * time.Millisecond)
		now := time.Now()
		if b.Stats().Fleet.Mode == "fleet" {
			inFleet += now.Sub(last)
		}
		last = now
	}
	return inFleet
}

// joins uses b until it is in the fleet.
func joins(t testing.TB, b *retrybudget.Budget) time.Duration {
	return soon(t, "fleet", func() bool {
		b.TryTake()
		b.Success()
		return b.Stats().Fleet.Mode == "fleet"
	})
}

// A call has 20 ms, and a new connection takes several round trips before it.
func TestAServerSeveralMillisecondsAwayIsJoinedAsOneThatIsNear(t *testing.T) {
	s := servers.Start(t, servers.Redis)
	for _, rtt := range []time.Duration{1, 4, 6, 8, 11, 15} {
		t.Run(fmt.Sprint(rtt*time.Millisecond), func(t *testing.T) {
			f := newFar(t, s.Addr(), rtt*time.Millisecond)
			b := retrybudget.New(t.Name(), retrybudget.Config{Pool: f.pool(t, s)})
			took := joins(t, b)
			t.Logf("after %v, with %d connections; then for %v of a second", took, f.conns.Load(), use(b, time.Second))
			if stress.Level() > 0 {
				assert.LessOrEqual(t, took, 1500*time.Millisecond, "a period at random, and a few")
			}
		})
	}
}

// Half a second of a slow network throws every connection away.
func TestAFleetWhoseServerIsTenMillisecondsAwayIsBackAfterABlip(t *testing.T) {
	s := servers.Start(t, servers.Redis)
	f := newFar(t, s.Addr(), time.Millisecond)
	b := retrybudget.New("target", retrybudget.Config{Pool: f.pool(t, s)})
	joins(t, b)
	f.rtt.Store(int64(10 * time.Millisecond))
	t.Logf("10 ms away: in the fleet for %v of a second", use(b, time.Second))
	before := f.conns.Load()
	f.rtt.Store(int64(60 * time.Millisecond))
	use(b, 500*time.Millisecond)
	f.rtt.Store(int64(10 * time.Millisecond))
	took := joins(t, b)
	t.Logf("back after %v, with %d new connections", took, f.conns.Load()-before)
	if stress.Level() > 0 {
		assert.LessOrEqual(t, took, 600*time.Millisecond, "two periods at their longest")
	}
}

// Each of them needs a connection of its own when it calls while others do.
func TestManyTargetsOfAServerThatIsTenMillisecondsAwayAreAllJoined(t *testing.T) {
	s := servers.Start(t, servers.Redis)
	f := newFar(t, s.Addr(), 10*time.Millisecond)
	p := f.pool(t, s)
	var wg sync.WaitGroup
	for i := range 10 {
		b := retrybudget.New(fmt.Sprint("target-", i), retrybudget.Config{Pool: p})
		wg.Go(func() {
			joins(t, b)
			use(b, 2*time.Second) // they settle
			t.Logf("%v of a second", use(b, time.Second).Round(time.Millisecond))
			joins(t, b)
		})
	}
	wg.Wait()
	t.Logf("%d connections", f.conns.Load())
	if stress.Level() > 0 { // on a machine that is busy calls run out of time, and with them their connections
		assert.LessOrEqual(t, f.conns.Load(), int64(40), "connections of ten targets")
	}
}

// A server in trouble, and one that is too far away for a call, are not hammered
// with new connections, however many targets a process has.
func TestAServerInTroubleGetsFewNewConnections(t *testing.T) {
	s := servers.Start(t, servers.Redis)
	for name, trouble := range map[string]func(f *far) (end func()){
		"frozen":  func(*far) func() { s.Freeze(); return s.Thaw }, // and ends with the test, if not before
		"too far": func(f *far) func() { f.rtt.Store(int64(30 * time.Millisecond)); return func() { f.rtt.Store(0) } },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFar(t, s.Addr(), 0)
			p := f.pool(t, s)
			all := make([]*retrybudget.Budget, 5)
			for i := range all {
				all[i] = retrybudget.New(fmt.Sprint(name, i), retrybudget.Config{Pool: p})
				joins(t, all[i])
			}
			run := func(d time.Duration) int64 {
				before := f.conns.Load()
				var wg sync.WaitGroup
				for _, b := range all {
					wg.Go(func() { use(b, d) })
				}
				wg.Wait()
				return f.conns.Load() - before
			}
			end := trouble(f)
			first := run(5 * time.Second)
			later := run(3 * time.Second)
			t.Logf("%d connections of a process with five targets in 5 s, %d in the 3 s after", first, later)
			assert.LessOrEqual(t, first, int64(40))
			assert.LessOrEqual(t, later, int64(12))
			end()
			t.Logf("back after %v", joins(t, all[0]))
		})
	}
}
