package latency_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/budget/latency"
	"github.com/curfew-go/curfew/internal/stress"
)

// What the error says decides how an attempt counts. The window's typical
// answer is 10 ms.
func TestWhatCountsDependsOnHowTheAttemptEnded(t *testing.T) {
	boom := errors.New("boom")
	answered, timeout, cut, out := latency.Stats{Answered: 1}, latency.Stats{CutOff: 1, TimedOut: 1}, latency.Stats{CutOff: 1}, latency.Stats{LeftOut: 1}
	for _, tt := range []struct {
		name string
		took time.Duration
		err  error
		want latency.Stats
	}{
		{"answer", 5 * ms, nil, answered},
		{"deadline", 5 * ms, timedOut, timeout},
		{"std deadline", 5 * ms, fmt.Errorf("call: %w", context.DeadlineExceeded), timeout},
		{"timeout of the dependency", 5 * ms, &budget.Cause{Kind: budget.DependencyTimeout}, timeout},
		{"failure that was a deadline", 5 * ms, &budget.Cause{Kind: budget.Failed, Err: timedOut}, timeout},
		{"race lost", 5 * ms, lost, cut},
		{"sibling failed", 5 * ms, &budget.Cause{Kind: budget.SiblingFailed}, cut},
		{"std cancel", 5 * ms, context.Canceled, cut},
		{"expired on arrival", 50 * ms, &budget.Cause{Kind: budget.ExpiredOnArrival}, out},
		{"refused", 50 * ms, &budget.Cause{Kind: budget.LocalBudgetRejected}, out},
		{"fast failure", 5 * ms, boom, out},
		{"fast refusal by the target", ms, &budget.Cause{Kind: budget.Overloaded}, out},
		{"slow failure", 50 * ms, boom, cut},
		{"slow refusal by the target", 50 * ms, &budget.Cause{Kind: budget.Shutdown}, cut},
	} {
		o := latency.New(latency.Config{})
		o.Record(50*ms, boom)
		assert.Equal(t, out, o.Snapshot().Stats(), "with nothing to compare it to, a failure is left out")
		for range 20 {
			o.Record(10*ms, nil)
		}
		o.SetPeers() // the answers of before are kept for a while
		before := o.Snapshot().Stats()
		o.Record(tt.took, tt.err)
		after := o.Snapshot().Stats()
		assert.Equal(t, tt.want, latency.Stats{
			Answered: after.Answered - before.Answered, CutOff: after.CutOff - before.CutOff,
			TimedOut: after.TimedOut - before.TimedOut, LeftOut: after.LeftOut - before.LeftOut,
		}, tt.name)
	}
}

// Failures that come at once do not make the target look fast, however many.
func TestFastFailuresDoNotMoveTheAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := latency.New(latency.Config{})
		r := rand.New(rand.NewPCG(1, 1))
		for range 2000 {
			o.Record(usual.draw(r), nil)
		}
		p50, hedge := o.Typical(), o.HedgeDelay()
		for range 10_000 {
			o.Record(100*us, errors.New("connection refused"))
		}
		time.Sleep(2 * time.Second) // new answers
		assert.Equal(t, p50, o.Typical())
		assert.Equal(t, hedge, o.HedgeDelay())
	})
}

// The rule of the package comment, at its edges, and what stands for an answer
// until then. The false timeouts are those of the project's vectors.
func TestAnswersWaitForEnoughAttempts(t *testing.T) {
	for _, tt := range []struct {
		name string
		c    latency.Config
		need int
		ask  func(*latency.Observed) time.Duration
		cold time.Duration
	}{
		{"typical", latency.Config{}, 20, (*latency.Observed).Typical, 0},
		{"hedge at p95", latency.Config{}, 200, (*latency.Observed).HedgeDelay, latency.Never},
		{"hedge at p99", latency.Config{HedgeAt: 0.99}, 1000, (*latency.Observed).HedgeDelay, latency.Never},
		{"timeout for 0.1%", latency.Config{}, 10_000, (*latency.Observed).Timeout, time.Second},
		{"timeout for 0.1%, named", latency.Config{FalseTimeouts: 0.001, Initial: 3 * time.Second}, 10_000, (*latency.Observed).Timeout, 3 * time.Second},
		{"timeout for 0.01%", latency.Config{FalseTimeouts: 0.0001, Max: 200 * ms}, 100_000, (*latency.Observed).Timeout, 200 * ms},
	} {
		o := latency.New(tt.c)
		for range tt.need - 1 {
			o.Record(10*ms, nil)
		}
		assert.Equal(t, tt.cold, tt.ask(o), tt.name)
		o.Record(10*ms, nil)
		o.SetPeers() // do not keep that answer
		near(t, 10*ms, tt.ask(o), 0.01, tt.name)
	}
}

// A handful of attempts that are all cut off by the first timeout show that it
// is too short long before there are enough for the wanted quantile.
func TestAFirstTimeoutThatIsTooShortGrows(t *testing.T) {
	o := latency.New(latency.Config{Initial: 100 * ms, Max: time.Second})
	for range 9 {
		o.Record(100*ms, timedOut)
	}
	assert.Equal(t, 100*ms, o.Timeout(), "nine are not enough")
	o.SetPeers()
	o.Record(100*ms, timedOut)
	near(t, 200*ms, o.Timeout(), 0.01)
	for range 10 {
		o.Record(900*ms, timedOut)
	}
	o.SetPeers()
	assert.Equal(t, time.Second, o.Timeout())
	assert.Equal(t, 1.0, o.Snapshot().FalseTimeouts())
	atLeast, ok := o.Quantile(0.5)
	near(t, 900*ms, atLeast, 0.01, "the median is at least that")
	assert.False(t, ok)
	assert.Zero(t, o.Typical(), "and so is not known")
	o.Record(300*ms, errors.New("refused"))
	assert.Equal(t, uint64(1), o.Snapshot().Stats().LeftOut, "but a failure that comes sooner is a fast one")
}

// When the hedges themselves cut off everything slow, the quantile after which
// to send one is beyond what is seen. It is sent there, not never.
func TestAHedgeIsSentWhereItsQuantileIsBeyondWhatIsSeen(t *testing.T) {
	o := latency.New(latency.Config{})
	for range 900 {
		o.Record(10*ms, nil)
	}
	for range 100 {
		o.Record(50*ms, lost)
	}
	near(t, 50*ms, o.HedgeDelay(), 0.01)
}

func TestAnswersAreKeptForASixtiethOfTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := latency.New(latency.Config{Window: time.Minute})
		require.Zero(t, o.Typical())
		for range 20 {
			o.Record(10*ms, nil)
		}
		time.Sleep(time.Second - time.Nanosecond)
		assert.Zero(t, o.Typical())
		time.Sleep(time.Nanosecond)
		near(t, 10*ms, o.Typical(), 0.01)
	})
}

// What other processes have seen warms up the answers of this one, for a window.
func TestPeersCountBesideTheOwnAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, a, b := latency.New(latency.Config{}), latency.New(latency.Config{}), latency.New(latency.Config{})
		for range 10 {
			o.Record(10*ms, nil)
			a.Record(20*ms, nil)
			b.Record(30*ms, nil)
		}
		assert.Zero(t, o.Typical())
		o.SetPeers(a.Snapshot(), b.Snapshot())
		near(t, 20*ms, o.Typical(), 0.01)
		o.SetPeers(a.Snapshot(), b.Snapshot())
		assert.EqualValues(t, 10, o.Snapshot().Stats().Answered, "replaced, not added, and never passed on as one's own")
		near(t, 20*ms, o.Typical(), 0.01)
		time.Sleep(time.Minute - time.Second)
		near(t, 20*ms, o.Typical(), 0.01)
		time.Sleep(time.Second)
		assert.Zero(t, o.Typical(), "forgotten after a window")
	})
}

// Nothing is lost and nothing counted twice while slices are turned under the
// hands of those who record and ask.
func TestEveryAttemptIsCountedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const goroutines, rounds, each = 8, 9, 200
		for range stress.Rounds(12) {
			o := latency.New(latency.Config{Window: time.Minute})
			for round := range rounds { // the first attempts of a slice race for turning it
				var wg sync.WaitGroup
				start := make(chan struct{})
				for g := range goroutines {
					wg.Go(func() {
						<-start
						for i := range each {
							switch (i + g) % 4 {
							case 0:
								o.Record(time.Duration(i)*ms, timedOut)
							case 1:
								o.CutOff(time.Duration(i) * ms)
							case 2:
								o.Record(time.Duration(g)*ms, nil)
							case 3:
								o.Record(time.Hour, &budget.Cause{Kind: budget.ExpiredOnArrival})
							}
							if i%50 == 0 {
								o.Timeout()
							}
						}
					})
				}
				synctest.Wait()
				close(start)
				wg.Wait()
				quarter := uint64(goroutines * min(round+1, 6) * each / 4) // of six slices
				require.Equal(t, latency.Stats{Answered: quarter, CutOff: 2 * quarter, TimedOut: quarter, LeftOut: quarter}, o.Snapshot().Stats())
				time.Sleep(10 * time.Second)
			}
			time.Sleep(time.Minute)
			require.Zero(t, o.Snapshot().Stats())
		}
	})
}

// A package variable is older than a test's bubble, in which the clock begins
// in another year.
var made = latency.New(latency.Config{})

func TestAnObservedMadeOutsideOfABubbleWorksInside(t *testing.T) {
	for range 2 {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(17 * time.Second)
			before := made.Snapshot().Stats().Answered
			made.Record(ms, nil)
			time.Sleep(49 * time.Second)
			assert.Equal(t, before+1, made.Snapshot().Stats().Answered)
			time.Sleep(12 * time.Second)
			assert.Zero(t, made.Snapshot().Stats().Answered)
		})
	}
}

func TestBadSettingsPanic(t *testing.T) {
	for want, c := range map[string]latency.Config{
		"latency: New: negative Window -1ns":                         {Window: -1},
		"latency: New: negative Initial -1ns":                        {Initial: -1},
		"latency: New: negative Max -1ns":                            {Max: -1},
		"latency: New: Window 1h0m0.000000001s is more than an hour": {Window: time.Hour + 1},
		"latency: New: FalseTimeouts 1 is not between 0 and 1":       {FalseTimeouts: 1},
		"latency: New: FalseTimeouts NaN is not between 0 and 1":     {FalseTimeouts: math.NaN()},
		"latency: New: HedgeAt -0.5 is not between 0 and 1":          {HedgeAt: -0.5},
		"latency: New: Initial 2s is above Max 1s":                   {Initial: 2 * time.Second, Max: time.Second},
	} {
		assert.PanicsWithValue(t, want, func() { latency.New(c) })
	}
	assert.PanicsWithValue(t, "latency: Quantile: q 0 is not between 0 and 1", func() { new(latency.Snapshot).Quantile(0) })
	assert.PanicsWithValue(t, "latency: Quantile: q 1 is not between 0 and 1", func() { latency.New(latency.Config{}).Quantile(1) })
	assert.NotPanics(t, func() { latency.New(latency.Config{Window: 1, Initial: time.Hour}).Record(ms, nil) })
}

// The answers are the hooks of a retry policy and of a hedge as they are.
var _ = struct{ Typical, After func() time.Duration }{made.Typical, made.HedgeDelay}

// The project's vectors: the timeout for a rate of false timeouts is that
// quantile.
func TestTheTimeoutForARateIsItsQuantile(t *testing.T) {
	var seeds struct {
		Rates []struct{ Rate, Quantile float64 } `json:"false_timeout_rate"`
	}
	text, err := os.ReadFile("testdata/seeds.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &seeds))
	require.Len(t, seeds.Rates, 2)
	r := rand.New(rand.NewPCG(15, 16))
	attempts := usual.sample(r, 200_000)
	for _, v := range seeds.Rates {
		o := latency.New(latency.Config{Window: time.Hour, FalseTimeouts: v.Rate})
		for _, s := range attempts {
			o.Record(s.took, nil)
		}
		want, ok := o.Quantile(v.Quantile)
		require.True(t, ok)
		assert.Equal(t, want, o.Timeout())
	}
}
