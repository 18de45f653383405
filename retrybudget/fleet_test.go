package retrybudget_test

import (
	"context"
	"crypto/rand"
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
		assert.EqualValues(t, 1, pool.calls.Load(), "it says only that it has retried")
		assert.Zero(t, b.Stats().Fleet.Leased)
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
