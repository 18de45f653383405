package retrybudget_test

import (
	"context"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/curfew-go/curfew/retrybudget"
	"github.com/curfew-go/curfew/retrybudget/pooltest"
)

// One, ten and a thousand members fail all of their calls for half a minute,
// together as often: what the fleet retries does not depend on how many they are.
func TestCase45_TheFleetRetriesAsMuchHoweverManyMembersItHas(t *testing.T) {
	const seconds, perSecond, burst = 20, 2, 5
	made := map[int]int64{}
	for _, members := range []int{1, 10, 1000} {
		synctest.Test(t, func(t *testing.T) {
			pool := &link{Pool: &pooltest.Memory{}, rtt: time.Millisecond}
			all := make([]*retrybudget.Budget, members)
			for i := range all {
				all[i] = retrybudget.New("target", retrybudget.Config{Pool: pool, PerSecond: perSecond, Burst: burst})
			}
			var retries atomic.Int64
			for i := range seconds * 100 {
				go func() {
					calls := 0
					_ = retrybudget.Do(t.Context(), all[i%members], idempotent(20*time.Millisecond), failing(&calls, errDown))
					retries.Add(int64(calls - 1))
				}()
				time.Sleep(10 * time.Millisecond)
			}
			time.Sleep(time.Second)
			t.Logf("%d members: %d retries, %d calls of the pool", members, retries.Load(), pool.calls.Load())
			assert.LessOrEqual(t, retries.Load(), int64(burst+perSecond*(seconds+1)))
			assert.GreaterOrEqual(t, retries.Load(), int64(perSecond*seconds*3/4))
			assert.LessOrEqual(t, float64(pool.calls.Load()), 1.1*float64(members)*seconds*4)
			made[members] = retries.Load()
			time.Sleep(15 * time.Second)
		})
	}
	// A lease is two retries at least, and more members leave more of it unspent.
	assert.InDelta(t, made[1], made[10], 4)
	assert.InDelta(t, made[1], made[1000], 0.2*float64(made[1]))
}

// Answers that are within bounds, by numbers at their bounds.
func TestAPoolAtItsBoundsOverspendsNothing(t *testing.T) {
	for name, edit := range map[string]func(*retrybudget.PoolGrant){
		"now far ahead":      func(g *retrybudget.PoolGrant) { g.Now = 1 << 53 },
		"now zero":           func(g *retrybudget.PoolGrant) { g.Now = 0 },
		"expires far ahead":  func(g *retrybudget.PoolGrant) { g.Expires = 1 << 53 },
		"all the members":    func(g *retrybudget.PoolGrant) { g.Members = math.MaxInt },
		"all the balance":    func(g *retrybudget.PoolGrant) { g.Balance = math.MaxInt64 },
		"lent far ahead":     func(g *retrybudget.PoolGrant) { g.Lent = 1 << 53 },
		"an epoch each time": func(g *retrybudget.PoolGrant) { g.Epoch = int64(g.Seq)%3 + 1 },
		"no life":            func(g *retrybudget.PoolGrant) { g.Life = 0 },
		"a hold of a minute": func(g *retrybudget.PoolGrant) { g.Hold = time.Minute },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var granted atomic.Int64
				b := retrybudget.New("target", fleet(poolFunc(func(_ context.Context, r retrybudget.PoolRequest) (retrybudget.PoolGrant, error) {
					assert.NoError(t, r.Check(), "the member asks out of bounds")
					g := retrybudget.PoolGrant{Seq: r.Seq, Epoch: 1, Now: time.Now().UnixMicro(), Granted: r.Want, Life: time.Second, Members: 1}
					edit(&g)
					granted.Add(g.Granted)
					return g, nil
				})))
				for i := range 2000 {
					if i%3 == 0 {
						earn(b, 3)
					}
					if i > 1000 && i < 1500 {
						b.TryTake()
						b.TryTake()
					}
					time.Sleep(10 * time.Millisecond)
				}
				s := b.Stats()
				assert.LessOrEqual(t, int64(s.Retries), granted.Load()/1_000_000+int64(s.Successes/10))
				_ = b.Close(t.Context())
				time.Sleep(time.Hour)
				assert.False(t, b.Armed())
			})
		})
	}
}
