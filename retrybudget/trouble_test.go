package retrybudget_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/retrybudget"
	"github.com/curfew-go/curfew/retrybudget/pooltest"
)

// A pool that swallows every call: nobody waits for it but the retry that finds
// it out, own credit goes on paying, and it is back within two periods.
func TestCase43_APoolThatSwallowsCallsIsInNobodysWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := &link{Pool: &pooltest.Memory{}, rtt: time.Millisecond}
		b := retrybudget.New("target", retrybudget.Config{Pool: pool, PerSecond: 10, Burst: 10})
		b.TryTake()
		time.Sleep(400 * time.Millisecond)
		require.Equal(t, "fleet", b.Stats().Fleet.Mode)
		drain(b)
		pool.cut.Store(true)
		b.TryTake()
		time.Sleep(320 * time.Millisecond) // a period and the timeout of a call
		require.Equal(t, "local", b.Stats().Fleet.Mode)
		drain(b)

		before := b.Stats()
		var successes, retries int
		for i := range 1000 {
			calls, began := 0, time.Now()
			err := retrybudget.Do(t.Context(), b, idempotent(time.Millisecond), func(context.Context) error {
				if calls++; calls == 1 {
					assert.Zero(t, time.Since(began), "a first attempt waited")
				}
				if i%2 == 0 {
					return nil
				}
				return errDown
			})
			if err == nil {
				successes++
			}
			if retries += calls - 1; calls == 1 {
				assert.Zero(t, time.Since(began), "a denial waited")
			}
			time.Sleep(10 * time.Millisecond)
		}
		assert.Equal(t, successes/10, retries, "exactly what it earned")
		s := b.Stats()
		assert.Equal(t, before.Fleet.Leased, s.Fleet.Leased)
		assert.Positive(t, s.Fleet.DeniedLocal)
		assert.Greater(t, s.Fleet.Stale, 10*time.Second)
		assert.Contains(t, b.String(), "local")

		pool.cut.Store(false)
		time.Sleep(500 * time.Millisecond)
		assert.Equal(t, "fleet", b.Stats().Fleet.Mode, "two periods later")
	})
}

// Every kind of failure takes the same path.
func TestCase46_EveryErrorOfAPoolEndsInLocalMode(t *testing.T) {
	type answer = func(ctx context.Context, r retrybudget.PoolRequest) (retrybudget.PoolGrant, error)
	var replay retrybudget.PoolGrant
	good := func(r retrybudget.PoolRequest) retrybudget.PoolGrant {
		return retrybudget.PoolGrant{Seq: r.Seq, Epoch: 1, Granted: r.Want, Life: time.Second, Members: 1}
	}
	for name, wrong := range map[string]answer{
		"an error": func(context.Context, retrybudget.PoolRequest) (retrybudget.PoolGrant, error) {
			return retrybudget.PoolGrant{}, errors.New("CLUSTERDOWN")
		},
		"an error beside a grant": func(_ context.Context, r retrybudget.PoolRequest) (retrybudget.PoolGrant, error) {
			return good(r), errors.New("READONLY")
		},
		"no answer": func(ctx context.Context, _ retrybudget.PoolRequest) (retrybudget.PoolGrant, error) {
			<-ctx.Done()
			return retrybudget.PoolGrant{}, context.Cause(ctx)
		},
		"a call that ends its goroutine": func(context.Context, retrybudget.PoolRequest) (retrybudget.PoolGrant, error) {
			runtime.Goexit()
			panic("unreachable")
		},
		"a panic": func(context.Context, retrybudget.PoolRequest) (retrybudget.PoolGrant, error) {
			panic("a hook of the client")
		},
		"nothing": func(context.Context, retrybudget.PoolRequest) (retrybudget.PoolGrant, error) {
			return retrybudget.PoolGrant{}, nil
		},
		"more than was wanted": func(_ context.Context, r retrybudget.PoolRequest) (g retrybudget.PoolGrant, _ error) {
			g = good(r)
			g.Granted += 1_000_000
			return g, nil
		},
		"a huge grant": func(_ context.Context, r retrybudget.PoolRequest) (g retrybudget.PoolGrant, _ error) {
			g = good(r)
			g.Granted = math.MaxInt64 / 1_000_000 * 1_000_000
			return g, nil
		},
		"a negative grant": func(_ context.Context, r retrybudget.PoolRequest) (g retrybudget.PoolGrant, _ error) {
			g = good(r)
			g.Granted = -1_000_000
			return g, nil
		},
		"a part of a retry": func(_ context.Context, r retrybudget.PoolRequest) (g retrybudget.PoolGrant, _ error) {
			g = good(r)
			g.Granted = 1
			return g, nil
		},
		"a hold for ever": func(_ context.Context, r retrybudget.PoolRequest) (g retrybudget.PoolGrant, _ error) {
			g = good(r)
			g.Hold = math.MaxInt64
			return g, nil
		},
		"more of the floor than there is": func(_ context.Context, r retrybudget.PoolRequest) (g retrybudget.PoolGrant, _ error) {
			g = good(r)
			g.Floor = g.Granted + 1
			return g, nil
		},
		"a lease for ever": func(_ context.Context, r retrybudget.PoolRequest) (g retrybudget.PoolGrant, _ error) {
			g = good(r)
			g.Life = math.MaxInt64
			return g, nil
		},
		"no epoch": func(_ context.Context, r retrybudget.PoolRequest) (g retrybudget.PoolGrant, _ error) {
			g = good(r)
			g.Epoch = 0
			return g, nil
		},
		"a time before all": func(_ context.Context, r retrybudget.PoolRequest) (g retrybudget.PoolGrant, _ error) {
			g = good(r)
			g.Now = math.MinInt64
			return g, nil
		},
		"a negative balance": func(_ context.Context, r retrybudget.PoolRequest) (g retrybudget.PoolGrant, _ error) {
			g = good(r)
			g.Balance = -1
			return g, nil
		},
		"the answer to an earlier request": func(_ context.Context, r retrybudget.PoolRequest) (retrybudget.PoolGrant, error) {
			if replay.Seq == 0 {
				replay = good(r)
				replay.Seq = 99_999
			}
			return replay, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var bad atomic.Bool
				bad.Store(true)
				b := retrybudget.New("target", fleet(poolFunc(func(ctx context.Context, r retrybudget.PoolRequest) (retrybudget.PoolGrant, error) {
					if bad.Load() {
						return wrong(ctx, r)
					}
					return good(r), nil
				})))
				for range 100 {
					b.Success()
					calls, began := 0, time.Now()
					err := retrybudget.Do(t.Context(), b, idempotent(time.Second), failing(&calls, errDown))
					require.Error(t, err)
					assert.LessOrEqual(t, time.Since(began), time.Second+20*time.Millisecond)
					time.Sleep(10 * time.Millisecond)
				}
				s := b.Stats()
				assert.Equal(t, "local", s.Fleet.Mode)
				assert.Error(t, s.Fleet.Err)
				assert.Contains(t, s.Fleet.String(), s.Fleet.Err.Error())
				assert.Zero(t, s.Fleet.Leased)
				assert.LessOrEqual(t, s.Retries, s.Successes/10)
				assert.Positive(t, s.Retries)
				bad.Store(false)
				time.Sleep(500 * time.Millisecond)
				assert.Equal(t, "fleet", b.Stats().Fleet.Mode)
				assert.NoError(t, b.Stats().Fleet.Err)
				bad.Store(true)
				earn(b, 30)
				assert.Error(t, b.Close(t.Context()), "also of the last call")
				time.Sleep(20 * time.Second) // its timers end
			})
		})
	}
}

type poolFunc func(context.Context, retrybudget.PoolRequest) (retrybudget.PoolGrant, error)

func (f poolFunc) Sync(ctx context.Context, r retrybudget.PoolRequest) (retrybudget.PoolGrant, error) {
	return f(ctx, r)
}

func TestAPoolThatIgnoresItsContextHoldsOneGoroutineAndNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, most atomic.Int64
		release := make(chan struct{})
		b := retrybudget.New("target", fleet(poolFunc(func(_ context.Context, r retrybudget.PoolRequest) (retrybudget.PoolGrant, error) {
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			<-release
			return retrybudget.PoolGrant{Seq: r.Seq, Epoch: 1, Members: 1}, nil
		})))
		for i := range 200 {
			calls, began := 0, time.Now()
			_ = retrybudget.Do(t.Context(), b, idempotent(time.Second), failing(&calls, errDown))
			assert.LessOrEqual(t, time.Since(began), 20*time.Millisecond)
			if i > 50 {
				assert.Zero(t, time.Since(began))
			}
			time.Sleep(10 * time.Millisecond)
		}
		assert.EqualValues(t, 1, most.Load())
		assert.Equal(t, "local", b.Stats().Fleet.Mode)
		close(release)
		time.Sleep(time.Second)
		assert.Equal(t, "fleet", b.Stats().Fleet.Mode)
	})
}

// Its timer has stopped by then, and no success starts it.
func TestAMemberThatOnlyFailsFindsAPoolThatIsBackAfterAnIdleTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := &link{Pool: &pooltest.Memory{}}
		pool.cut.Store(true)
		b := retrybudget.New("target", retrybudget.Config{Pool: pool})
		b.TryTake()
		time.Sleep(time.Minute)
		require.Equal(t, "local", b.Stats().Fleet.Mode)
		calls := pool.calls.Load()
		time.Sleep(time.Hour)
		require.Equal(t, calls, pool.calls.Load())
		pool.cut.Store(false)
		assert.False(t, b.TryTake())
		time.Sleep(time.Millisecond)
		assert.Equal(t, "fleet", b.Stats().Fleet.Mode)
		time.Sleep(5 * time.Second)
	})
}

// What was lent or given before it is lost with it.
func TestWhatAMemberOwesToAPoolThatHasForgottenIsStranded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := &pooltest.Memory{}
		fill(t, pool, 5)
		b := retrybudget.New("target", retrybudget.Config{PerSecond: -1, Burst: 5, Pool: pool})
		for range 3 {
			b.TryTake() // are denied, and make the member ask for as much
		}
		time.Sleep(350 * time.Millisecond)
		require.EqualValues(t, 3, b.Stats().Fleet.Leased)
		pool.Lose()
		time.Sleep(5 * time.Second)
		assert.EqualValues(t, 3, b.Stats().Fleet.Stranded)
		assert.Zero(t, b.Stats().Floor)
	})
}
