package retrybudget_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/curfew-go/curfew/retrybudget"
	"github.com/curfew-go/curfew/retrybudget/pooltest"
)

// told is a pool that remembers what it was asked, and when.
type told struct {
	retrybudget.Pool
	mu   sync.Mutex
	asks []retrybudget.PoolRequest
	at   []time.Time
}

func (p *told) Sync(ctx context.Context, r retrybudget.PoolRequest) (retrybudget.PoolGrant, error) {
	p.mu.Lock()
	p.asks, p.at = append(p.asks, r), append(p.at, time.Now())
	p.mu.Unlock()
	return p.Pool.Sync(ctx, r)
}

func (p *told) sofar() ([]retrybudget.PoolRequest, []time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.asks), slices.Clone(p.at)
}

func TestAMemberCallsOnceAPeriodAtMost(t *testing.T) {
	for _, system := range []struct {
		name string
		busy func(b *retrybudget.Budget)
	}{
		{"only failing", func(b *retrybudget.Budget) { b.TryTake() }},
		{"only succeeding", func(b *retrybudget.Budget) { earn(b, 5) }},
		{"spending more than it earns", func(b *retrybudget.Budget) { earn(b, 1); b.TryTake() }},
		{"earning and spending in turns", func(b *retrybudget.Budget) {
			if time.Now().Unix()%2 == 0 {
				earn(b, 20)
			} else {
				drain(b)
			}
		}},
	} {
		t.Run(system.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pool := &link{Pool: &pooltest.Memory{}, rtt: time.Millisecond}
				b := retrybudget.New("target", retrybudget.Config{Pool: pool})
				const seconds = 60
				for range seconds * 100 {
					system.busy(b)
					time.Sleep(10 * time.Millisecond)
				}
				calls := pool.calls.Load()
				t.Logf("%d calls in %d periods", calls, seconds*4)
				assert.LessOrEqual(t, float64(calls), 1.1*seconds*4)
				assert.Positive(t, calls)
				time.Sleep(15 * time.Second) // its timers end, and a call that is under way
			})
		})
	}
}

func TestAMemberThatHasNothingToSayIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := &link{Pool: &pooltest.Memory{}}
		b := retrybudget.New("target", fleet(pool))
		earn(b, 40)
		time.Sleep(4 * time.Second) // it gives two retries, and keeps two
		calls := pool.calls.Load()
		assert.Positive(t, calls)
		time.Sleep(3 * time.Second)
		assert.Equal(t, calls, pool.calls.Load())
		assert.True(t, b.TryTake())
		for range 2 {
			time.Sleep(400 * time.Millisecond)
			assert.Equal(t, calls+1, pool.calls.Load(), "that it has retried, once")
		}
		time.Sleep(15 * time.Second)
	})
}

func TestMembersThatStartTogetherDoNotCallTogether(t *testing.T) {
	for _, idle := range []time.Duration{0, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			const members = 500
			pool := &told{Pool: &pooltest.Memory{}}
			all := make([]*retrybudget.Budget, members)
			for i := range all {
				all[i] = retrybudget.New("target", fleet(pool))
			}
			time.Sleep(idle)
			for _, b := range all {
				earn(b, 20) // so little that all of it is for others, at once
			}
			time.Sleep(400 * time.Millisecond)
			_, calls := pool.sofar()
			began, most := calls[0], 0
			in := map[time.Duration]int{}
			for _, at := range calls {
				k := at.Sub(began) / (10 * time.Millisecond)
				in[k]++
				most = max(most, in[k])
			}
			t.Logf("%d calls, at most %d in 10 ms", len(calls), most)
			assert.GreaterOrEqual(t, len(calls), members)
			assert.Less(t, most, members/5, "in a hundredth of a second, of which a period has 25")
			time.Sleep(15 * time.Second)
		})
	}
}

func TestThePeriodsOfAMemberDiffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := &told{Pool: &pooltest.Memory{}}
		b := retrybudget.New("target", fleet(pool))
		for range 2000 {
			b.TryTake()
			time.Sleep(10 * time.Millisecond)
		}
		_, calls := pool.sofar()
		least, most := time.Hour, time.Duration(0)
		for i := range len(calls) - 1 {
			d := calls[i+1].Sub(calls[i])
			least, most = min(least, d), max(most, d)
		}
		t.Logf("%d calls, %v to %v apart", len(calls), least, most)
		assert.Greater(t, most-least, 50*time.Millisecond)
		time.Sleep(15 * time.Second)
	})
}

func TestAMemberWhoseEveryWantIsGrantedCallsOnceAPeriodToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := &told{Pool: poolFunc(func(_ context.Context, r retrybudget.PoolRequest) (retrybudget.PoolGrant, error) {
			return retrybudget.PoolGrant{Seq: r.Seq, Epoch: 1, Granted: r.Want, Life: time.Second, Members: 1}, nil
		})}
		b := retrybudget.New("target", fleet(pool))
		const seconds = 60
		for range seconds * 200 {
			b.TryTake()
			time.Sleep(5 * time.Millisecond)
		}
		_, calls := pool.sofar()
		t.Logf("%d calls in %d periods", len(calls), seconds*4)
		assert.LessOrEqual(t, float64(len(calls)), 1.1*seconds*4)
		assert.Positive(t, b.Stats().Retries)
		time.Sleep(15 * time.Second)
	})
}
