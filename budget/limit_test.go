package budget_test

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
)

const (
	ms      = time.Millisecond
	forever = time.Duration(math.MaxInt64)
)

// The work's deadline is min(parent's deadline, limit) − reserve − cleanup, to
// the nanosecond; and too little time is refused, never rounded into a start.
func TestTheDeadlineThatALimitResolvesTo(t *testing.T) {
	until := func(d time.Duration) func() budget.Limit {
		return func() budget.Limit { return budget.Until(time.Now().Add(d)) }
	}
	plain := func(l budget.Limit) func() budget.Limit { return func() budget.Limit { return l } }
	const none = -1 // no parent deadline
	for _, tt := range []struct {
		name   string
		parent time.Duration
		limit  func() budget.Limit
		left   time.Duration // until the work's deadline
		kind   budget.Kind   // of the refusal; None: it begins
		text   string        // the limits in the cause, of a refusal or of the expiry
	}{
		{"within", none, plain(budget.Within(time.Second)), time.Second, budget.None, "within 1s"},
		{"within, named", none, plain(budget.Within(time.Second).Named("route maximum")), time.Second, budget.None, "route maximum 1s"},
		{"within, parent wider", time.Minute, plain(budget.Within(time.Second)), time.Second, budget.None, "within 1s < gateway 1m0s"},
		{"within, parent tighter", time.Second, plain(budget.Within(time.Minute)), time.Second, budget.None, "gateway 1s"},
		{"within, parent equal", time.Second, plain(budget.Within(time.Second)), time.Second, budget.None, "gateway 1s"},
		{"until", none, until(time.Second), time.Second, budget.None, "until 00:00:01.000"},
		{"until, parent wider", time.Minute, until(time.Second), time.Second, budget.None, "until 00:00:01.000 < gateway 1m0s"},
		{"until, parent tighter", time.Second, until(time.Minute), time.Second, budget.None, "gateway 1s"},
		{"inherited", time.Second, plain(budget.Inherited()), time.Second, budget.None, "gateway 1s"},
		{"zero limit", time.Second, plain(budget.Limit{}), time.Second, budget.None, "gateway 1s"},

		{"reserve", none, plain(budget.Within(time.Second).Reserve(50 * ms)), 950 * ms, budget.None, "within 1s"},
		{"reserve from the parent", time.Second, plain(budget.Inherited().Reserve(50 * ms)), 950 * ms, budget.None, "gateway 1s"},
		{"reserve under a tighter parent", time.Second, plain(budget.Within(time.Minute).Reserve(50 * ms)), 950 * ms, budget.None, "within 1m0s < gateway 1s"},
		{"reserve of a named inherited", time.Second, plain(budget.Inherited().Named("step").Reserve(50 * ms)), 950 * ms, budget.None, "step < gateway 1s"},
		{"reserve replaces reserve", none, plain(budget.Within(time.Second).Reserve(500 * ms).Reserve(50 * ms)), 950 * ms, budget.None, "within 1s"},
		{"cleanup", none, plain(budget.Within(time.Second).Cleanup(100 * ms)), 900 * ms, budget.None, "within 1s"},
		{"reserve and cleanup", none, plain(budget.Within(time.Second).Cleanup(100 * ms).Reserve(50 * ms)), 850 * ms, budget.None, "within 1s"},
		{"zero reserve and cleanup", none, plain(budget.Within(time.Second).Cleanup(0).Reserve(0)), time.Second, budget.None, "within 1s"},
		{"reserve takes all", none, plain(budget.Within(time.Second).Reserve(time.Second)), 0, budget.LocalBudgetRejected, "within 1s"},
		{"reserve takes all but one", none, plain(budget.Within(time.Second).Reserve(time.Second - 1)), 1, budget.None, "within 1s"},
		{"reserve takes more", none, plain(budget.Within(time.Second).Reserve(time.Minute)), 0, budget.LocalBudgetRejected, "within 1s"},
		{"reserve and cleanup take all", none, plain(budget.Within(time.Second).Reserve(500 * ms).Cleanup(500 * ms)), 0, budget.LocalBudgetRejected, "within 1s"},
		{"cleanup takes all of the parent's", time.Second, plain(budget.Inherited().Cleanup(time.Second)), 0, budget.LocalBudgetRejected, "gateway 1s"},

		{"share", none, plain(budget.Within(time.Second).ReserveShare(0.1, 10*ms, 200*ms)), 900 * ms, budget.None, "within 1s"},
		{"share of the parent's", 500 * ms, plain(budget.Within(time.Second).ReserveShare(0.1, 10*ms, 200*ms)), 450 * ms, budget.None, "within 1s < gateway 500ms"},
		{"share below its floor", none, plain(budget.Within(50*ms).ReserveShare(0.1, 10*ms, 200*ms)), 40 * ms, budget.None, "within 50ms"},
		{"share above its ceiling", none, plain(budget.Within(10*time.Second).ReserveShare(0.1, 10*ms, 200*ms)), 9800 * ms, budget.None, "within 10s"},
		{"share, floor equals ceiling", none, plain(budget.Within(time.Second).ReserveShare(0.5, 10*ms, 10*ms)), 990 * ms, budget.None, "within 1s"},
		{"share of nothing", none, plain(budget.Within(time.Second).ReserveShare(0, 10*ms, 200*ms)), 990 * ms, budget.None, "within 1s"},
		{"share below a floor that takes all", none, plain(budget.Within(5*ms).ReserveShare(0.1, 10*ms, 200*ms)), 0, budget.LocalBudgetRejected, "within 5ms"},
		{"share replaces reserve", none, plain(budget.Within(time.Second).Reserve(500*ms).ReserveShare(0.1, 0, time.Second)), 900 * ms, budget.None, "within 1s"},
		{"reserve replaces share", none, plain(budget.Within(time.Second).ReserveShare(0.1, 0, time.Second).Reserve(500 * ms)), 500 * ms, budget.None, "within 1s"},
		{"share and cleanup", none, plain(budget.Within(time.Second).ReserveShare(0.1, 0, time.Second).Cleanup(100 * ms)), 800 * ms, budget.None, "within 1s"},

		{"require, enough", none, plain(budget.Within(time.Second).Require(time.Second)), time.Second, budget.None, "within 1s"},
		{"require, one short", none, plain(budget.Within(time.Second).Require(time.Second + 1)), 0, budget.LocalBudgetRejected, "within 1s"},
		{"require after reserve, enough", none, plain(budget.Within(time.Second).Reserve(100 * ms).Require(900 * ms)), 900 * ms, budget.None, "within 1s"},
		{"require after reserve, short", none, plain(budget.Within(time.Second).Reserve(101 * ms).Require(900 * ms)), 0, budget.LocalBudgetRejected, "within 1s"},
		{"require of the parent's", 12 * ms, plain(budget.Inherited().Require(30 * ms)), 0, budget.LocalBudgetRejected, "gateway 12ms"},
		{"require of the parent's, own named", 12 * ms, plain(budget.Within(time.Second).Named("db").Require(30 * ms)), 0, budget.LocalBudgetRejected, "gateway 12ms < db 1s"},
		{"require zero", none, plain(budget.Within(1).Require(0)), 1, budget.None, "within 1ns"},

		{"within zero", none, plain(budget.Within(0)), 0, budget.ExpiredOnArrival, "within 0s"},
		{"within negative", none, plain(budget.Within(-time.Hour)), 0, budget.ExpiredOnArrival, "within -1h0m0s"},
		{"within zero under a parent", time.Minute, plain(budget.Within(0).Named("peer header")), 0, budget.ExpiredOnArrival, "peer header 0s < gateway 1m0s"},
		{"until now", none, until(0), 0, budget.ExpiredOnArrival, "until 00:00:00.000"},
		{"until past", none, until(-time.Hour), 0, budget.ExpiredOnArrival, "until 23:00:00.000"},
		{"until the zero time", none, plain(budget.Until(time.Time{})), 0, budget.ExpiredOnArrival, "until 00:00:00.000"},
		{"expired beats require", none, plain(budget.Within(0).Require(time.Second)), 0, budget.ExpiredOnArrival, "within 0s"},

		{"within, huge", none, plain(budget.Within(forever)), forever, budget.None, "within 2562047h47m16.854775807s"},
		{"within, most negative", none, plain(budget.Within(math.MinInt64)), 0, budget.ExpiredOnArrival, "within -2562047h47m16.854775808s"},
		{"within, huge, under a parent", time.Second, plain(budget.Within(forever)), time.Second, budget.None, "gateway 1s"},
		{"reserve, huge", none, plain(budget.Within(time.Second).Reserve(forever)), 0, budget.LocalBudgetRejected, "within 1s"},
		{"cleanup, huge", none, plain(budget.Within(time.Second).Cleanup(forever)), 0, budget.LocalBudgetRejected, "within 1s"},
		{"reserve and cleanup, huge", none, plain(budget.Within(time.Second).Reserve(forever).Cleanup(forever)), 0, budget.LocalBudgetRejected, "within 1s"},
		{"all huge", none, plain(budget.Within(forever).Reserve(forever).Cleanup(forever).Require(forever)), 0, budget.LocalBudgetRejected, "within 2562047h47m16.854775807s"},
		{"share, huge", none, plain(budget.Within(forever).ReserveShare(0.999999999, forever, forever).Cleanup(1)), 0, budget.LocalBudgetRejected, "within 2562047h47m16.854775807s"},
		{"require, huge", none, plain(budget.Within(time.Hour).Require(forever)), 0, budget.LocalBudgetRejected, "within 1h0m0s"},
		{"until, far", none, plain(budget.Until(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)).Named("far").Reserve(forever)), 0, budget.LocalBudgetRejected, "far until 00:00:00.000"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				parent := context.Background()
				if tt.parent != none {
					outer, cancel, err := budget.Enter(parent, budget.Within(tt.parent).Named("gateway"))
					require.NoError(t, err)
					defer cancel()
					parent = outer
				}
				ctx, cancel, err := budget.Enter(parent, tt.limit())
				require.NotNil(t, cancel)
				defer cancel()
				if tt.kind != budget.None {
					require.Error(t, err)
					assert.Equal(t, tt.kind, budget.KindOf(err))
					assert.Equal(t, tt.text, err.(*budget.Cause).Limit)
					return
				}
				require.NoError(t, err)
				left, ok := budget.Remaining(ctx)
				assert.True(t, ok)
				if tt.left == forever { // within the bounds of time.Time's arithmetic
					assert.Greater(t, left, forever-time.Second)
					return
				}
				require.Equal(t, tt.left, left)
				time.Sleep(tt.left - 1)
				synctest.Wait()
				assert.NoError(t, ctx.Err(), "before the deadline")
				time.Sleep(time.Nanosecond)
				synctest.Wait()
				assert.Equal(t, context.DeadlineExceeded, ctx.Err(), "at the deadline")
				cause, ok := context.Cause(ctx).(*budget.Cause)
				require.True(t, ok)
				assert.Equal(t, budget.DeadlineExceeded, cause.Kind)
				assert.Equal(t, tt.text, cause.Limit)
			})
		})
	}
}

// A limit is a plain value: what counts is when work is entered.
func TestARelativeLimitStartsWhenWorkIsEntered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := budget.Within(5 * time.Second)
		time.Sleep(5 * time.Second)
		for range 2 {
			ctx, cancel, err := budget.Enter(context.Background(), limit)
			require.NoError(t, err)
			defer cancel()
			left, _ := budget.Remaining(ctx)
			assert.Equal(t, 5*time.Second, left)
			time.Sleep(time.Second)
		}
	})
}

func TestALimitIsAValue(t *testing.T) {
	a := budget.Within(time.Second)
	b := a.Named("b").Reserve(1).Cleanup(2).Require(3)
	assert.Equal(t, budget.Within(time.Second), a, "its methods return another")
	assert.NotEqual(t, a, b)
	assert.Equal(t, budget.Limit{}, budget.Inherited(), "the zero Limit")
}

func TestTheTextOfALimit(t *testing.T) {
	at := time.Date(2026, 11, 29, 13, 14, 15, 16e6, time.UTC)
	for want, l := range map[string]budget.Limit{
		"inherited":                 budget.Inherited(),
		"step":                      budget.Inherited().Named("step"),
		"within 1s":                 budget.Within(time.Second),
		"peer header 300ms":         budget.Within(300 * ms).Named("peer header"),
		"until 13:14:15.016":        budget.Until(at),
		"slot until 13:14:15.016":   budget.Until(at).Named("slot"),
		"peer header 300µs":         budget.Within(300 * time.Microsecond).Named("peer header").Reserve(1).Cleanup(1).Require(1),
		"within 2h0m0s":             budget.Within(2 * time.Hour).Named("").Reserve(time.Second),
		"within -1s":                budget.Within(-time.Second),
		"within 0s":                 budget.Within(0),
		"a name, with %s signs 1ns": budget.Within(1).Named("a name, with %s signs"),
	} {
		assert.Equal(t, want, l.String())
	}
}

// A mistake of the program panics, and says which argument it is.
func TestMistakesInALimitPanicWithTheNameOfTheArgument(t *testing.T) {
	l := budget.Within(time.Second)
	var none context.Context
	for _, tt := range []struct {
		f    func()
		text string
	}{
		{func() { l.Reserve(-1) }, "budget: Reserve: negative duration -1ns"},
		{func() { l.Cleanup(-time.Second) }, "budget: Cleanup: negative duration -1s"},
		{func() { l.Require(math.MinInt64) }, "budget: Require: negative duration -2562047h47m16.854775808s"},
		{func() { l.ReserveShare(0.1, -1, 1) }, "budget: ReserveShare: floor: negative duration -1ns"},
		{func() { l.ReserveShare(0.1, 2, 1) }, "budget: ReserveShare: ceiling 1ns is below floor 2ns"},
		{func() { l.ReserveShare(-0.1, 1, 2) }, "budget: ReserveShare: share -0.1 is not in [0, 1)"},
		{func() { l.ReserveShare(1, 1, 2) }, "budget: ReserveShare: share 1 is not in [0, 1)"},
		{func() { l.ReserveShare(math.NaN(), 1, 2) }, "budget: ReserveShare: share NaN is not in [0, 1)"},
		{func() { l.ReserveShare(math.Inf(1), 1, 2) }, "budget: ReserveShare: share +Inf is not in [0, 1)"},
		{func() { _ = budget.Require(context.Background(), -1) }, "budget: Require: negative duration -1ns"},
		{func() { _, _, _ = budget.Enter(none, l) }, "budget: nil context"},
		{func() { _, _ = budget.Detached(none, 1) }, "nil context"},
		{func() { _, _ = budget.Detached(none, 0) }, "nil context"},
	} {
		t.Run(tt.text, func(t *testing.T) {
			defer func() { assert.Contains(t, recover(), tt.text) }()
			tt.f()
			t.Error("no panic")
		})
	}
	// What is often computed is no mistake.
	assert.NotPanics(t, func() {
		budget.Within(-1).Reserve(0).Cleanup(0).Require(0).ReserveShare(0, 0, 0)
		budget.Until(time.Time{})
	})
}
