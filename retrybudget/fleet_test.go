package retrybudget_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/retrybudget"
	"github.com/curfew-go/curfew/retrybudget/pooltest"
)

// link is a pool behind a network: it takes a while, it can be cut, and it
// counts.
type link struct {
	retrybudget.Pool
	rtt   time.Duration
	cut   atomic.Bool // nothing comes back until the caller gives up
	calls atomic.Int64
}

func (l *link) Sync(ctx context.Context, r retrybudget.PoolRequest) (retrybudget.PoolGrant, error) {
	l.calls.Add(1)
	if l.cut.Load() {
		<-ctx.Done()
		return retrybudget.PoolGrant{}, context.Cause(ctx)
	}
	time.Sleep(l.rtt)
	return l.Pool.Sync(ctx, r)
}

// fleet is a Config for members of a pool without a floor.
func fleet(p retrybudget.Pool) retrybudget.Config {
	return retrybudget.Config{Ratio: 0.1, PerSecond: -1, Burst: -1, Pool: p}
}

// fill makes the floor of a pool full, which takes time. It never was a member.
func fill(t testing.TB, p retrybudget.Pool, burst int64) {
	r := retrybudget.PoolRequest{Target: "target", Member: rand.Text(), PerSecond: 10_000_000_000, Burst: burst * 1_000_000}
	for range 2 {
		r.Seq++
		_, err := p.Sync(t.Context(), r)
		require.NoError(t, err)
		time.Sleep(2 * time.Second)
	}
	r.Seq, r.Leave = 3, true
	g, err := p.Sync(t.Context(), r)
	require.NoError(t, err)
	require.Equal(t, r.Burst, g.Balance)
}

func idempotent(backoff time.Duration) retrybudget.Policy {
	return retrybudget.Policy{Idempotent: true, Attempts: 2, Backoff: fixed(backoff)}
}

func TestWhatOneMemberEarnsAnotherOneSpends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := &link{Pool: &pooltest.Memory{}, rtt: time.Millisecond}
		rich, poor := retrybudget.New("target", fleet(pool)), retrybudget.New("target", fleet(pool))
		for range 300 { // 3 s of 100/s: 10 retries/s
			rich.Success()
			time.Sleep(10 * time.Millisecond)
		}
		calls := 0
		err := retrybudget.Do(t.Context(), poor, idempotent(50*time.Millisecond), failing(&calls, errDown))
		var retried *retrybudget.RetriedError
		require.ErrorAs(t, err, &retried)
		assert.Equal(t, 2, calls)
		s := poor.Stats()
		assert.Equal(t, "fleet", s.Fleet.Mode)
		assert.EqualValues(t, 1, s.Fleet.Leased)
		assert.EqualValues(t, 1, s.Retries)
		assert.InDelta(t, 10, rich.Stats().Credit, 3, "keeps what it earns in a second, and what came since it last gave")
	})
}

func TestAMemberSpendsItsOwnCreditBeforeItAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := &link{Pool: &pooltest.Memory{}}
		b := retrybudget.New("target", fleet(pool))
		earn(b, 20)
		assert.True(t, b.TryTake())
		assert.True(t, b.TryTake())
		time.Sleep(20 * time.Second)
		assert.Zero(t, pool.calls.Load(), "nothing to say, nothing said")
		assert.Equal(t, "joining", b.Stats().Fleet.Mode)
		assert.False(t, b.Armed())
	})
}

func TestAFleetHasNoFloorOfItsOwnInEachProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := &pooltest.Memory{}
		fill(t, memory, 5)
		retries := 0
		for range 20 {
			b := retrybudget.New("target", retrybudget.Config{PerSecond: -1, Burst: 5, Pool: memory})
			for range 4 {
				calls := 0
				_ = retrybudget.Do(t.Context(), b, idempotent(time.Millisecond), failing(&calls, errDown))
				retries += calls - 1
				time.Sleep(300 * time.Millisecond)
			}
			require.NoError(t, b.Close(t.Context()))
		}
		assert.Equal(t, 5, retries, "one burst for the fleet")
	})
}

func TestTheRoundTripHidesInTheBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := &link{Pool: &pooltest.Memory{}, rtt: 15 * time.Millisecond}
		fill(t, pool.Pool, 5)
		b := retrybudget.New("target", retrybudget.Config{Pool: pool})
		calls, began := 0, time.Now()
		_ = retrybudget.Do(t.Context(), b, idempotent(40*time.Millisecond), failing(&calls, errDown))
		assert.Equal(t, 2, calls)
		assert.Equal(t, 40*time.Millisecond, time.Since(began))
	})
}

func TestADenialComesWithThePoolsAnswerAndIsKeptUntilTheNextPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := &link{Pool: &pooltest.Memory{}, rtt: 5 * time.Millisecond}
		b := retrybudget.New("target", fleet(pool))
		took := func() time.Duration {
			calls, began := 0, time.Now()
			err := retrybudget.Do(t.Context(), b, idempotent(time.Second), failing(&calls, errDown))
			var denied *retrybudget.DeniedError
			require.ErrorAs(t, err, &denied)
			assert.ErrorIs(t, err, errDown)
			assert.Equal(t, "no credit left, nor any in the fleet's pool", denied.Why)
			assert.GreaterOrEqual(t, denied.Wait, time.Second)
			return time.Since(began)
		}
		assert.Equal(t, 5*time.Millisecond, took())
		for range 10 {
			assert.Zero(t, took())
		}
		assert.EqualValues(t, 1, pool.calls.Load())
		assert.EqualValues(t, 11, b.Stats().Fleet.DeniedEmpty)
	})
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
			})
		})
	}
}

func TestNothingRunsWhenAMemberIsIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which waits for every goroutine, and ends no timer
		pool := &link{Pool: &pooltest.Memory{}, rtt: time.Millisecond}
		b := retrybudget.New("target", retrybudget.Config{Pool: pool})
		earn(b, 100)
		time.Sleep(time.Second)
		drain(b)
		time.Sleep(15 * time.Second)
		assert.False(t, b.Armed())
		calls := pool.calls.Load()
		time.Sleep(time.Hour)
		assert.Equal(t, calls, pool.calls.Load())
	})
}

func TestWhatWasLentAndNotSpentComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := &pooltest.Memory{}
		fill(t, memory, 5)
		b := retrybudget.New("target", retrybudget.Config{PerSecond: -1, Burst: 5, Pool: memory})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(4*time.Millisecond, cancel) // during the backoff
		calls := 0
		require.Error(t, retrybudget.Do(ctx, b, idempotent(8*time.Millisecond), failing(&calls, errDown)))
		assert.EqualValues(t, 1, b.Stats().Fleet.Leased)
		assert.EqualValues(t, 1, b.Stats().Floor)
		assert.Zero(t, b.Stats().Retries)
		time.Sleep(3 * time.Second)
		probe := retrybudget.PoolRequest{Target: "target", Member: "probe", Seq: 2, Burst: 5_000_000}
		g, err := memory.Sync(t.Context(), probe)
		require.NoError(t, err)
		assert.EqualValues(t, 5_000_000, g.Balance)
	})
}

func TestCloseGivesBackWhatWasNotSpentAndOnlyOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := &pooltest.Memory{}
		pool := &link{Pool: memory, rtt: 2 * time.Millisecond}
		b := retrybudget.New("target", fleet(pool))
		earn(b, 35)
		require.True(t, b.TryTake())
		for range 3 {
			require.NoError(t, b.Close(t.Context()))
		}
		require.NoError(t, b.Hedges().Close(t.Context()))
		assert.EqualValues(t, 2, pool.calls.Load(), "it asks for the time, and leaves")
		assert.Equal(t, "left", b.Stats().Fleet.Mode)
		assert.False(t, b.TryTake())
		earn(b, 10)
		assert.True(t, b.TryTake(), "it goes on by itself")
		other := retrybudget.New("target", fleet(pool))
		other.TryTake()
		time.Sleep(10 * time.Millisecond)
		assert.Equal(t, 1, other.Stats().Floor, "lent to another")
		g, err := memory.Sync(t.Context(), retrybudget.PoolRequest{Target: "target", Member: "probe", Seq: 2})
		require.NoError(t, err)
		assert.EqualValues(t, 1_500_000, g.Balance)
		assert.NoError(t, retrybudget.New("alone", retrybudget.Config{}).Close(t.Context()), "nothing to close")
	})
}

func TestCloseSaysWhenThePoolIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := &link{Pool: &pooltest.Memory{}}
		pool.cut.Store(true)
		b := retrybudget.New("target", fleet(pool))
		earn(b, 35)
		ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, errors.New("no more patience"))
		defer cancel()
		assert.EqualError(t, b.Close(ctx), "no more patience")
		began := time.Now()
		assert.ErrorIs(t, b.Close(t.Context()), context.DeadlineExceeded)
		assert.LessOrEqual(t, time.Since(began), time.Second)
		assert.Zero(t, b.Stats().Fleet.Stranded)
		assert.Equal(t, 3, drain(b), "what could not be given goes on paying")
	})
}

func TestAHoldReachesTheWholeFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := &pooltest.Memory{}
		one, other := retrybudget.New("target", fleet(memory)), retrybudget.New("target", fleet(memory))
		for range 20 {
			earn(one, 10)
			earn(other, 10)
			time.Sleep(50 * time.Millisecond)
		}
		require.True(t, other.TryTake())
		one.Hold(5 * time.Second)
		assert.False(t, one.TryTake(), "at once where it is said")
		earn(other, 20) // something to say
		time.Sleep(600 * time.Millisecond)
		assert.False(t, other.TryTake())
		assert.False(t, other.Hedges().TryTake())
		assert.EqualValues(t, 2, other.Stats().DeniedHeld)
		assert.Contains(t, fmt.Sprint(other), "retries are held for 4.")
		time.Sleep(5 * time.Second)
		assert.True(t, other.TryTake())
		assert.True(t, one.TryTake())
	})
}

func TestASetOfAFleetBringsNoBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := &link{Pool: &pooltest.Memory{}}
		s := retrybudget.NewSet(retrybudget.Config{Pool: pool, Burst: 5, PerSecond: -1}, 2)
		for i := range 10 {
			b := s.For(fmt.Sprint("made-up-", i))
			calls := 0
			_ = retrybudget.Do(t.Context(), b, idempotent(time.Millisecond), failing(&calls, errDown))
			assert.Equal(t, 1, calls)
		}
		require.NoError(t, s.Close(t.Context()))
	})
}
