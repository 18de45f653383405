package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/budget/ledger"
	"github.com/curfew-go/curfew/internal/stress"
)

const ms = time.Millisecond

func enter(t testing.TB, parent context.Context, limit budget.Limit) context.Context {
	t.Helper()
	ctx, cancel, err := budget.Enter(parent, limit)
	require.NoError(t, err)
	t.Cleanup(cancel)
	return ctx
}

// How a request ended in respect of time, by what its work returned, when, and
// whether it had begun anything.
func TestTheOutcomeSaysWhereTheTimeRanOut(t *testing.T) {
	expired := &budget.Cause{Kind: budget.ExpiredOnArrival, Limit: "peer header 0s"}
	for _, tt := range []struct {
		name  string
		after time.Duration
		calls int
		err   error
		want  string
		past  time.Duration
	}{
		{"in time", 50 * ms, 1, nil, "ok", 0},
		{"just in time", 100 * ms, 1, nil, "ok", 0},
		{"late", 130 * ms, 1, nil, "late", 30 * ms},
		{"expired on arrival", 0, 0, expired, "expired_on_arrival", 0},
		{"refused on arrival", 0, 0, &budget.Cause{Kind: budget.LocalBudgetRejected}, "local_budget_rejected", 0},
		{"a later step refused", 90 * ms, 1, &budget.Cause{Kind: budget.LocalBudgetRejected}, "exceeded_here", 0},
		{"a later step expired", 100 * ms, 2, expired, "exceeded_here", 0},
		{"exceeded", 100 * ms, 1, &budget.Cause{Kind: budget.DeadlineExceeded}, "exceeded_here", 0},
		{"exceeded, without a call", 110 * ms, 0, fmt.Errorf("sum: %w", context.DeadlineExceeded), "exceeded_here", 10 * ms},
		{"a dependency's own timeout", 60 * ms, 1, &budget.Cause{Kind: budget.DependencyTimeout}, "dependency_timeout", 0},
		{"client gone", 60 * ms, 1, &budget.Cause{Kind: budget.ClientCancelled}, "client_cancelled", 0},
		{"std cancel", 60 * ms, 1, context.Canceled, "cancelled", 0},
		{"failed, and after the deadline", 160 * ms, 1, errors.New("boom"), "failed", 60 * ms},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, l := ledger.New(enter(t, context.Background(), budget.Within(100*ms)), "checkout")
				for range tt.calls {
					l.Call("inventory", 0).Done(nil)
				}
				assert.Equal(t, "open", ledger.From(ctx).Report().Outcome)
				time.Sleep(tt.after)
				l.Close(tt.err)
				time.Sleep(time.Second)
				r := l.Report()
				assert.Equal(t, tt.want, r.Outcome)
				assert.Equal(t, budget.KindOf(tt.err), r.Kind)
				assert.Equal(t, tt.after, r.Total)
				assert.Equal(t, tt.past, r.Past)
				assert.Equal(t, 100*ms, r.RemainingIn)
				l.Close(errors.New("again"))
				assert.Equal(t, r, l.Report(), "closed once")
			})
		})
	}
}

// A refused request has a context as well, and its account says that nothing
// was left.
func TestARequestThatWasRefusedHasAnAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent := enter(t, context.Background(), budget.Within(10*ms).Named("peer header"))
		time.Sleep(30 * ms)
		ctx, cancel, err := budget.Enter(parent, budget.Within(time.Second).Named("route maximum"))
		defer cancel()
		_, l := ledger.New(ctx, "checkout")
		l.Close(err)
		assert.Equal(t, "checkout: expired_on_arrival in 0s of -20ms, local 0s, limited by peer header 10ms < route maximum 1s", l.String())
	})
	_, l := ledger.New(context.Background(), "job")
	assert.False(t, l.Report().HasDeadline)
	assert.Contains(t, l.String(), " without a deadline, ")
}

// Local is the time when no call was open, however the calls overlap.
func TestLocalIsTheTimeWithoutAnOpenCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l := ledger.New(context.Background(), "checkout")
		time.Sleep(5 * ms)
		a := l.Call("a", 0)
		time.Sleep(10 * ms)
		b := l.Call("b", 0)
		time.Sleep(10 * ms)
		a.Done(nil)
		a.Done(errors.New("twice")) // does not count
		time.Sleep(10 * ms)
		assert.Equal(t, 5*ms, l.Report().Local, "b is still open")
		assert.Equal(t, 20*ms, l.Report().Calls[1].Took)
		b.Done(nil)
		time.Sleep(7 * ms)
		c := l.Call("c", 0)
		time.Sleep(3 * ms)
		l.Close(nil)
		time.Sleep(time.Second)
		c.Done(nil) // an orphan: too late for the account
		c.Stage(ledger.Work, time.Second)
		l.Stage(ledger.Queue, time.Second)
		l.Call("d", 0).Done(nil)
		r := l.Report()
		assert.Equal(t, 45*ms, r.Total)
		assert.Equal(t, 12*ms, r.Local)
		require.Len(t, r.Calls, 3)
		assert.Equal(t, ledger.CallReport{Target: "a", Took: 20 * ms, Outcome: "ok"}, r.Calls[0])
		assert.Equal(t, ledger.CallReport{Target: "c", Took: 3 * ms, Outcome: "open"}, r.Calls[2])
		assert.Zero(t, r.Stages)
	})
}

// Each attempt has its own entry with what it was really given.
func TestCase14_EachAttemptSaysWhatItPassedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		total := enter(t, context.Background(), budget.Within(250*ms).Named("total"))
		_, l := ledger.New(total, "route")
		for range 3 {
			ctx, cancel, err := budget.Enter(total, budget.Within(100*ms).Named("per try"))
			require.NoError(t, err)
			left, _ := budget.Remaining(ctx)
			call := l.Call("upstream", left)
			<-ctx.Done()
			call.Done(context.Cause(ctx))
			cancel()
		}
		l.Close(context.Cause(total))
		var out []time.Duration
		for _, c := range l.Report().Calls {
			out = append(out, c.RemainingOut)
			assert.Equal(t, "deadline_exceeded", c.Outcome)
		}
		assert.Equal(t, []time.Duration{100 * ms, 100 * ms, 50 * ms}, out)
		assert.Equal(t, "route: exceeded_here in 250ms of 250ms, local 0s, limited by total 250ms"+
			"; upstream deadline_exceeded in 100ms of 100ms; upstream deadline_exceeded in 100ms of 100ms; upstream deadline_exceeded in 50ms of 50ms", l.String())
	})
}

// Raising one layer's timeout has no effect while another is tighter: the
// account names them all with their values.
func TestCase21_TheAccountNamesEveryLimitWithItsValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := enter(t, context.Background(), budget.Within(2*time.Second).Named("route maximum"))
		ctx = enter(t, ctx, budget.Within(300*ms).Named("peer header"))
		ctx, l := ledger.New(ctx, "checkout")
		<-ctx.Done()
		l.Close(fmt.Errorf("load: %w", context.Cause(ctx)))
		assert.Equal(t, "peer header 300ms < route maximum 2s", l.Report().LimitedBy)
	})
}

// A client that left, a parent's end and a deadline are three outcomes.
func TestCase22_TheOutcomeTellsACancelFromADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		std, stop := context.WithCancel(context.Background())
		parent := enter(t, std, budget.Within(time.Second))
		deadline := enter(t, context.Background(), budget.Within(ms))
		stop()
		time.Sleep(ms)
		synctest.Wait()
		for want, err := range map[string]error{
			"parent_cancelled": context.Cause(parent),
			"exceeded_here":    context.Cause(deadline),
			"client_cancelled": &budget.Cause{Kind: budget.ClientCancelled},
		} {
			_, l := ledger.New(context.Background(), "checkout")
			l.Close(err)
			assert.Equal(t, want, l.Report().Outcome)
		}
	})
}

func TestStagesAddUp(t *testing.T) {
	_, l := ledger.New(context.Background(), "checkout")
	l.Stage(ledger.Queue, 2*ms)
	l.Stage(ledger.Queue, 3*ms)
	c := l.Call("db", 0)
	c.Stage(ledger.PoolWait, ms)
	c.Stage(ledger.Work, 4*ms)
	c.Stage(ledger.Work, 5*ms)
	c.Stage(200, time.Hour) // no stage
	l.Stage(200, time.Hour)
	c.Done(nil)
	c.Stage(ledger.Work, time.Hour) // too late
	l.Call("cache", -ms)
	r := l.Report()
	assert.Zero(t, r.Calls[1].RemainingOut)
	assert.Equal(t, 5*ms, r.Stages[ledger.Queue])
	assert.Equal(t, ms, r.Calls[0].Stages[ledger.PoolWait])
	assert.Equal(t, 9*ms, r.Calls[0].Stages[ledger.Work])
	var names []string
	for s := range ledger.Work + 2 {
		names = append(names, s.String())
	}
	assert.Equal(t, []string{"queue", "pool_wait", "connect", "work", "unknown"}, names)
}

// Code that adds to the account works where nobody opened one.
// A clock that jumped takes nothing away from what was measured.
func TestAStageNeverShrinks(t *testing.T) {
	_, l := ledger.New(context.Background(), "checkout")
	c := l.Call("stock", 0)
	for _, took := range []time.Duration{2 * time.Second, -time.Second, 0, math.MinInt64, math.MaxInt64} {
		l.Stage(ledger.Queue, took)
		c.Stage(ledger.Work, took)
		r := l.Report()
		assert.Equal(t, 2*time.Second, r.Stages[ledger.Queue])
		assert.Equal(t, 2*time.Second, r.Calls[0].Stages[ledger.Work])
	}
}

func TestWithoutALedgerAddingDoesNothing(t *testing.T) {
	l := ledger.From(context.Background())
	require.Nil(t, l)
	l.Stage(ledger.Queue, ms)
	c := l.Call("inventory", ms)
	c.Stage(ledger.Work, ms)
	c.Done(nil)
	l.Close(nil)
	assert.Zero(t, l.Report())
	assert.Equal(t, "no ledger", l.String())
	assert.Empty(t, l.ServerTiming())
	assert.Empty(t, l.LogValue().Group())
	assert.NotPanics(t, func() { _ = ledger.Report{}.String() + ledger.Report{}.ServerTiming() })
}

// An inner hop in the same process has an account of its own.
func TestTheInnermostLedgerIsTheOneOfTheContext(t *testing.T) {
	ctx, outer := ledger.New(context.Background(), "outer")
	inner, l := ledger.New(ctx, "inner")
	assert.Same(t, l, ledger.From(inner))
	assert.Same(t, outer, ledger.From(ctx))
	assert.Same(t, l, ledger.From(context.WithoutCancel(inner)))
}

// The first 64 calls are listed, and those beyond still count as calls.
func TestALedgerListsABoundedNumberOfCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l := ledger.New(context.Background(), "batch")
		for i := range 100 {
			c := l.Call(fmt.Sprint("call ", i), 0)
			time.Sleep(ms)
			c.Done(nil)
			c.Done(nil)
		}
		r := l.Report()
		require.Len(t, r.Calls, 64)
		for i, c := range r.Calls {
			assert.Equal(t, fmt.Sprint("call ", i), c.Target)
			assert.Equal(t, ms, c.Took)
		}
		assert.Equal(t, 36, r.More)
		assert.Zero(t, r.Local)
		assert.Contains(t, l.String(), "; 36 more calls")
	})
}

// Many goroutines on one account: every call is there, in the order of its
// beginning, and the time away is that of their union.
func TestGoroutinesShareALedger(t *testing.T) {
	for range stress.Rounds(50) {
		_, l := ledger.New(context.Background(), "fan-out")
		start := make(chan struct{})
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				<-start
				for range 7 {
					c := l.Call(strconv.Itoa(g), time.Duration(g+1))
					c.Stage(ledger.Work, 1)
					l.Stage(ledger.Queue, 1)
					_ = l.String()
					c.Done(nil)
				}
			})
		}
		close(start)
		wg.Wait()
		l.Close(nil)
		r := l.Report()
		require.Len(t, r.Calls, 56)
		require.EqualValues(t, 56, r.Stages[ledger.Queue])
		seen := map[string]int{}
		for _, c := range r.Calls {
			seen[c.Target]++
			require.Equal(t, "ok", c.Outcome)
			require.EqualValues(t, 1, c.Stages[ledger.Work])
			require.Equal(t, c.Target, strconv.Itoa(int(c.RemainingOut)-1))
		}
		require.Len(t, seen, 8)
		require.GreaterOrEqual(t, r.Local, time.Duration(0))
		require.LessOrEqual(t, r.Local, r.Total)
	}
}
