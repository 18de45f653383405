package retrybudget_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/retrybudget"
	"github.com/curfew-go/curfew/retrybudget/pooltest"
)

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
		assert.Equal(t, "retrybudget: target: 1 retries + 0 hedges / 35 successes (2.9%) in 10s; cap 10% of successes (has left its fleet); "+
			"denies now: no credit left, and the fleet is left", b.String())
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

func TestTheLastCallOfAMemberAndNoOtherSaysThatItLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := &told{Pool: &pooltest.Memory{}}
		b := retrybudget.New("target", fleet(pool))
		earn(b, 100)
		time.Sleep(5 * time.Second)
		earn(b, 100)
		require.NoError(t, b.Close(t.Context()))
		asks, _ := pool.sofar()
		require.NotEmpty(t, asks)
		for i, r := range asks {
			assert.Equal(t, i == len(asks)-1, r.Leave, "call %d of %d", i, len(asks))
		}
	})
}

func TestCloseOfAMemberWhosePoolIgnoresItsContextReturnsAfterItsSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		b := retrybudget.New("target", fleet(poolFunc(func(context.Context, retrybudget.PoolRequest) (retrybudget.PoolGrant, error) {
			<-release
			return retrybudget.PoolGrant{}, errors.New("late")
		})))
		earn(b, 50)
		began := time.Now()
		assert.ErrorIs(t, b.Close(context.Background()), context.DeadlineExceeded)
		assert.LessOrEqual(t, time.Since(began), time.Second)
		close(release)
		time.Sleep(15 * time.Second)
	})
}

// The pool lent at the instant of the call. What comes after the member has left is
// worth nothing, and what comes before that ends when the pool thinks it does.
func TestALeaseWhoseAnswerComesWhileTheMemberLeavesIsNotSpentAnew(t *testing.T) {
	for _, late := range []time.Duration{300 * time.Millisecond, 1050 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			b := retrybudget.New("target", fleet(poolFunc(func(_ context.Context, r retrybudget.PoolRequest) (retrybudget.PoolGrant, error) {
				g := retrybudget.PoolGrant{Seq: r.Seq, Epoch: 1, Now: time.Now().UnixMicro(), Members: 1, Granted: r.Want, Life: time.Second, Floor: r.Want}
				if r.Want > 0 {
					time.Sleep(late)
				}
				return g, nil
			})))
			b.TryTake() // wants one
			time.Sleep(time.Millisecond)
			_ = b.Close(t.Context()) // gives up on the call after a second
			time.Sleep(100 * time.Millisecond)
			assert.False(t, b.TryTake())
			assert.EqualValues(t, 1, b.Stats().Fleet.Leased)
			if late > time.Second {
				assert.EqualValues(t, 1, b.Stats().Fleet.Stranded)
			}
		})
	}
}

func TestAllWhoCloseWhileACallHangsHearTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := &link{Pool: &pooltest.Memory{}, rtt: time.Millisecond}
		b := retrybudget.New("target", retrybudget.Config{Pool: pool})
		earn(b, 100)
		time.Sleep(300 * time.Millisecond)
		pool.cut.Store(true)
		drain(b)
		b.TryTake()
		errs := make(chan error, 10)
		for range 10 {
			go func() { errs <- b.Close(t.Context()) }()
		}
		first := <-errs
		assert.ErrorIs(t, first, context.DeadlineExceeded)
		for range 9 {
			assert.Equal(t, first, <-errs)
		}
		earn(b, 30)
		time.Sleep(time.Hour)
		assert.False(t, b.Armed())
	})
}

func TestATargetThatASetForgetsBeforeItsFirstPeriodNeverJoins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := &link{Pool: &pooltest.Memory{}}
		s := retrybudget.NewSet(fleet(pool), 1)
		time.Sleep(time.Second)
		s.For("first").Success()
		time.Sleep(time.Second)
		joined := pool.calls.Load()
		assert.Positive(t, joined)
		for _, name := range []string{"a", "b", "c"} {
			earn(s.For(name), 30)
		}
		time.Sleep(time.Minute)
		s.For("last")
		time.Sleep(time.Minute)
		assert.LessOrEqual(t, pool.calls.Load(), joined+1+4, "first leaves, and c joins, gives and leaves")
	})
}
