package plan_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/budget/latency"
	"github.com/curfew-go/curfew/budget/plan"
	"github.com/curfew-go/curfew/budget/wire"
	"github.com/curfew-go/curfew/internal/stress"
)

// What a limit of the plan gives to work that is entered with it.
func TestLimitsGiveWhatThePlanSays(t *testing.T) {
	p, err := plan.Fit(plan.Call{Name: "page", Timeout: time.Second, Reserve: 100 * ms, Calls: []plan.Call{
		{Name: "search", Timeout: 400 * ms, Share: 0.25, Floor: 50 * ms},
		{Name: "render", Local: true},
	}}, wire.Slush{}.Of)
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			path  string
			after time.Duration // how long before its start the page began
			left  time.Duration // 0 when it is refused
		}{
			{"page", 0, 900 * ms},
			{"page/search", 0, 300 * ms},        // a quarter of 400 kept
			{"page/search", 700 * ms, 150 * ms}, // a quarter of the 200 that the page has
			{"page/search", 840 * ms, 0},        // 45 would be left, of the 60
			{"page/render", 0, 500 * ms},        // what search and the reserve leave
			{"page/render", 899 * ms, 1 * ms},   // no floor
			{"page/render", 400 * ms, 500 * ms},
		} {
			page, cancel, err := budget.Enter(context.Background(), p.Limit("page"))
			require.NoError(t, err)
			ctx := page
			if tt.path != "page" {
				time.Sleep(tt.after)
				var cancel context.CancelFunc
				ctx, cancel, err = budget.Enter(page, p.Limit(tt.path))
				defer cancel()
			}
			if tt.left == 0 {
				assert.Equal(t, budget.LocalBudgetRejected, budget.KindOf(err), tt.path)
				assert.ErrorContains(t, err, "search 400ms")
			} else if assert.NoError(t, err) {
				left, _ := budget.Remaining(ctx)
				assert.Equal(t, tt.left, left, "%s after %v", tt.path, tt.after)
			}
			cancel()
		}
	})
	assert.Equal(t, 400*ms, p.Timeout("page/search"))
	assert.PanicsWithValue(t, `plan: Limit: no call "page/serach"`, func() { p.Limit("page/serach") })
	assert.PanicsWithValue(t, `plan: Timeout: no call ""`, func() { p.Timeout("") })
}

func TestCallsWithoutATimeoutShareWhatIsLeft(t *testing.T) {
	p, err := plan.Fit(plan.Call{Name: "r", Timeout: time.Second, Own: 100 * ms, Calls: []plan.Call{
		{Name: "capped", Timeout: 100 * ms, Attempts: 3},
		{Name: "once"},
		{Name: "twice", Attempts: 2},
	}}, nil)
	require.NoError(t, err)
	assert.Equal(t, 300*ms, p.Timeout("r/once"))
	assert.Equal(t, 150*ms, p.Timeout("r/twice"), "an attempt of two")

	p, err = plan.Fit(plan.Call{Name: "r", Timeout: time.Second, Own: 100 * ms, Parallel: true, Calls: []plan.Call{
		{Name: "capped", Timeout: 100 * ms, Attempts: 3}, {Name: "once"}, {Name: "twice", Attempts: 2},
	}}, nil)
	require.NoError(t, err)
	assert.Equal(t, 900*ms, p.Timeout("r/once"))
	assert.Equal(t, 450*ms, p.Timeout("r/twice"))
}

func TestATreeThatDoesNotFitIsRefusedWithTheOverrun(t *testing.T) {
	slush := wire.Slush{Floor: 10 * ms, Cap: 10 * ms}.Of
	for _, tt := range []struct {
		name string
		root plan.Call
		want string
	}{
		{"own work alone", plan.Call{Name: "r", Timeout: 10 * ms, Own: 11 * ms}, "plan: r does not fit by 1ms: own 11ms = 11ms of 10ms"},
		{"serial", plan.Call{Name: "r", Timeout: 100 * ms, Own: 5 * ms, Reserve: 10 * ms, Calls: []plan.Call{
			{Name: "a", Timeout: 60 * ms}, {Name: "b", Timeout: 30 * ms}}},
			"plan: r does not fit by 5ms: reserve 10ms + own 5ms + a 60ms + b 30ms = 105ms of 100ms"},
		{"parallel", plan.Call{Name: "r", Timeout: 100 * ms, Own: 5 * ms, Parallel: true, Calls: []plan.Call{
			{Name: "a", Timeout: 100 * ms}, {Name: "b", Timeout: 30 * ms}}},
			"plan: r does not fit by 5ms: own 5ms + the longest of (a 100ms, b 30ms) = 105ms of 100ms"},
		{"attempts", plan.Call{Name: "r", Timeout: 100 * ms, Calls: []plan.Call{{Name: "a", Timeout: 40 * ms, Attempts: 3}}},
			"plan: r does not fit by 20ms: a 3 × 40ms = 120ms of 100ms"},
		{"a share", plan.Call{Name: "r", Timeout: 100 * ms, Share: 0.5, Calls: []plan.Call{{Name: "a", Timeout: 60 * ms}}},
			"plan: r does not fit by 10ms: reserve 50ms + a 60ms = 110ms of 100ms"},
		{"optional", plan.Call{Name: "r", Timeout: 100 * ms, Calls: []plan.Call{
			{Name: "a", Timeout: 90 * ms}, {Name: "b", Timeout: 30 * ms, Optional: true}}},
			"plan: r does not fit by 20ms: a 90ms + b 30ms = 120ms of 100ms; without its optional calls it fits"},
		{"slush", plan.Call{Name: "r", Timeout: 100 * ms, Calls: []plan.Call{{Name: "a", Timeout: 100 * ms, Own: 91 * ms}}},
			"plan: r/a does not fit by 1ms: slush 10ms + own 91ms = 101ms of 100ms"},
		{"no slush without a hop", plan.Call{Name: "r", Timeout: 100 * ms, Calls: []plan.Call{{Name: "a", Timeout: 100 * ms, Own: 91 * ms, Local: true}}}, ""},
		{"a floor that its reserve makes unreachable", plan.Call{Name: "r", Timeout: 100 * ms, Reserve: 30 * ms, Floor: 80 * ms},
			"plan: r does not fit by 10ms: reserve 30ms + floor 80ms = 110ms of 100ms"},
		{"nothing left for a call without a timeout", plan.Call{Name: "r", Timeout: 100 * ms, Calls: []plan.Call{
			{Name: "a", Timeout: 100 * ms}, {Name: "b", Attempts: 2, Calls: []plan.Call{{Name: "c"}}}}},
			"plan: r does not fit by 2ms: a 100ms + b at least 2 × 1ms = 102ms of 100ms"},
		{"an uneven floor", plan.Call{Name: "r", Timeout: 100 * ms, Calls: []plan.Call{{Name: "a", Floor: 60 * ms}, {Name: "b"}}},
			"plan: r/a does not fit by 10ms: what it needs of an even share = 60ms of 50ms"},
		{"a hop that leaves nothing", plan.Call{Name: "r", Timeout: time.Second, Calls: []plan.Call{{Name: "a", Timeout: 10 * ms}}},
			"plan: r/a does not fit by 1ms: slush 10ms + any work 1ms = 11ms of 10ms"},
		{"two at once", plan.Call{Name: "r", Timeout: 100 * ms, Calls: []plan.Call{
			{Name: "a", Timeout: 101 * ms, Calls: []plan.Call{{Name: "b", Timeout: 92 * ms}}}}},
			"plan: r does not fit by 1ms: a 101ms = 101ms of 100ms\nplan: r/a does not fit by 1ms: slush 10ms + b 92ms = 102ms of 101ms"},
		{"more than there is time", plan.Call{Name: "r", Timeout: time.Second, Own: math.MaxInt64, Calls: []plan.Call{
			{Name: "a", Timeout: math.MaxInt64, Attempts: 3}}},
			"plan: r does not fit by 2562047h47m15.854775807s: own 2562047h47m16.854775807s + a 3 × 854015h55m45.618258602s = 2562047h47m16.854775807s of 1s"},
	} {
		p, err := plan.Fit(tt.root, slush)
		if tt.want == "" {
			assert.NoError(t, err, tt.name)
			continue
		}
		assert.Nil(t, p, tt.name)
		var over *plan.OverrunError
		if !assert.ErrorAs(t, err, &over, tt.name) {
			continue
		}
		assert.Greater(t, over.Needed, over.Given, tt.name)
		assert.Equal(t, tt.want, err.Error(), tt.name)
	}
}

func TestATreeThatMakesNoSenseIsInvalid(t *testing.T) {
	for want, c := range map[string]plan.Call{
		"no name":                          {},
		"a name must not hold a slash":     {Name: "a/b"},
		"an optional call needs a Timeout": {Name: "a", Optional: true},
		"a negative duration":              {Name: "a", Own: -1},
		"negative Attempts":                {Name: "a", Attempts: -1},
		"share 1 is not in [0, 1)":         {Name: "a", Share: 1},
		"share NaN is not in [0, 1)":       {Name: "a", Share: math.NaN()},
		"both a Reserve and a Share":       {Name: "a", Share: 0.1, Reserve: 1},
		"its Floor 2ns is above its Timeout 1ns: it could never start": {Name: "a", Timeout: 1, Floor: 2},
		"a second call of this name":                                   {Name: "a", Timeout: 1, Calls: []plan.Call{}},
	} {
		calls := []plan.Call{c}
		if strings.HasPrefix(want, "a second") {
			calls = append(calls, c)
		}
		_, err := plan.Fit(plan.Call{Name: "root", Timeout: time.Second, Calls: []plan.Call{{Name: "mid", Calls: calls}}}, nil)
		var invalid *plan.InvalidError
		if assert.ErrorAs(t, err, &invalid, want) {
			assert.Equal(t, plan.InvalidError{Path: "root/mid/" + c.Name, Why: want}, *invalid)
			assert.EqualError(t, err, fmt.Sprintf("plan: invalid call %q: %s", invalid.Path, want))
		}
	}
	_, err := plan.Fit(plan.Call{Name: "root"}, nil)
	assert.EqualError(t, err, `plan: invalid call "root": the root needs a Timeout: it is what is shared out`)
}

// A plan never gives away more than there is: whatever the tree, each call's
// slush, reserve, work and calls fit into its timeout.
func TestAPlanNeverGivesAwayMoreThanThereIs(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	slush := wire.Slush{}.Of
	fit, refused := 0, 0
	var check func(c plan.Call, path string, p *plan.Plan, depth int)
	check = func(c plan.Call, path string, p *plan.Plan, depth int) {
		timeout := p.Timeout(path)
		if c.Timeout > 0 {
			require.Equal(t, c.Timeout, timeout)
		}
		used := c.Own + c.Reserve
		if depth > 0 && !c.Local {
			used += slush(timeout)
		}
		var calls time.Duration
		for _, child := range c.Calls {
			all := p.Timeout(path+"/"+child.Name) * time.Duration(max(child.Attempts, 1))
			require.GreaterOrEqual(t, all, ms)
			if c.Parallel {
				calls = max(calls, all)
			} else {
				calls += all
			}
			check(child, path+"/"+child.Name, p, depth+1)
		}
		require.LessOrEqual(t, used+calls, timeout, "%s of\n%s", path, p)
	}
	for range stress.Rounds(3000) {
		tree := randomTree(r, 3)
		tree.Timeout = time.Duration(50+r.IntN(950)) * ms
		p, err := plan.Fit(tree, slush)
		if err != nil {
			refused++
			var over *plan.OverrunError
			require.ErrorAs(t, err, &over)
			require.Greater(t, over.Needed, over.Given)
			require.GreaterOrEqual(t, over.Needed, over.Required)
			continue
		}
		fit++
		check(tree, tree.Name, p, 0)
	}
	t.Logf("%d fit, %d refused", fit, refused)
	assert.Greater(t, fit, 300)
	assert.Greater(t, refused, 300)
}

func randomTree(r *rand.Rand, depth int) plan.Call {
	c := plan.Call{Name: "r", Own: time.Duration(r.IntN(10)) * ms, Reserve: time.Duration(r.IntN(10)) * ms, Parallel: r.IntN(2) == 0, Local: r.IntN(3) == 0, Attempts: r.IntN(3)}
	if r.IntN(3) == 0 {
		c.Timeout = time.Duration(1+r.IntN(300)) * ms
	}
	if depth == 0 {
		return c
	}
	for i := range r.IntN(4) {
		child := randomTree(r, depth-1)
		child.Name = strconv.Itoa(i)
		c.Calls = append(c.Calls, child)
	}
	return c
}

type quantiles struct{ p50, p999 time.Duration }

func (q quantiles) Quantile(at float64) (time.Duration, bool) {
	d := map[float64]time.Duration{0.5: q.p50, 0.999: q.p999}[at]
	return d, d > 0
}

func TestStaticSettingsThatLeftTheObservedRangeAreFound(t *testing.T) {
	seen := quantiles{20 * ms, 200 * ms}
	for _, tt := range []struct {
		call plan.Call
		want []string
	}{
		{plan.Call{Timeout: 200 * ms, Floor: 20 * ms, Observed: seen}, nil},
		{plan.Call{Timeout: 20 * ms, Observed: seen}, nil},
		{plan.Call{Timeout: 19 * ms, Observed: seen}, []string{"cap: a timeout of 19ms is below the observed median of 20ms: it cuts off most attempts"}},
		{plan.Call{Timeout: 201 * ms, Observed: seen}, []string{"cap: a timeout of 201ms is above the observed p99.9 of 200ms: it bounds nothing"}},
		{plan.Call{Timeout: 200 * ms, Floor: 19 * ms, Observed: seen}, []string{"floor: a floor of 19ms is below the observed median of 20ms: it starts what is likely to be cut off"}},
		{plan.Call{Floor: 201 * ms, Observed: seen}, []string{"floor: a floor of 201ms is above the observed p99.9 of 200ms: it refuses what would be answered"}},
		{plan.Call{Timeout: 19 * ms, Floor: 201 * ms}, nil}, // nothing observed
		{plan.Call{Timeout: 19 * ms, Floor: 201 * ms, Observed: quantiles{}}, nil},
		{plan.Call{Timeout: time.Hour, Floor: 20 * ms, Observed: quantiles{p50: 20 * ms}}, nil},
		{plan.Call{Timeout: 19 * ms, Observed: latency.New(latency.Config{})}, nil},
	} {
		tt.call.Name = "call"
		var got []string
		for _, f := range plan.Check(plan.Call{Name: "root", Calls: []plan.Call{tt.call}}) {
			assert.Equal(t, "root/call", f.Path)
			assert.Equal(t, "root/call: "+f.Text, f.String())
			got = append(got, f.Problem+": "+f.Text)
		}
		assert.Equal(t, tt.want, got)
	}
}

func TestUncappedEarlyStagesAndInvertedAttemptsAreFound(t *testing.T) {
	tree := plan.Call{Name: "r", Timeout: time.Second, Calls: []plan.Call{
		{Name: "first"},
		{Name: "second", Timeout: 100 * ms},
		{Name: "group", Calls: []plan.Call{{Name: "retried", Timeout: 400 * ms, Attempts: 3}}}, // its parent has no timeout, the root has
		{Name: "last"},
	}}
	var got []string
	for _, f := range plan.Check(tree) {
		got = append(got, f.Problem+" "+f.String())
	}
	assert.Equal(t, []string{
		"uncapped r/first: no timeout, and 3 after it: it can use up their time",
		"uncapped r/group: no timeout, and 1 after it: it can use up their time",
		"inverted r/group/retried: 3 attempts of 400ms outlive their caller, which gives up after 1s",
	}, got)
	tree.Parallel = true
	got = nil
	for _, f := range plan.Check(tree) {
		got = append(got, f.Problem)
	}
	assert.Equal(t, []string{"inverted"}, got, "side by side nobody uses up the time of others")
}

// Own work counts once an attempt; of calls side by side, the longest.
func TestWorstCasesCountOwnWorkAndTheLongestOfSeveral(t *testing.T) {
	tree := plan.Call{Name: "r", Own: 3 * ms, Attempts: 2, Calls: []plan.Call{
		{Name: "group", Own: ms, Parallel: true, Calls: []plan.Call{{Name: "a", Timeout: 20 * ms, Attempts: 2}, {Name: "b", Timeout: 30 * ms}}},
		{Name: "capped", Own: 5 * ms, Timeout: 10 * ms, Calls: []plan.Call{{Name: "c", Timeout: 7 * ms}, {Name: "d"}}},
	}}
	assert.Equal(t, []plan.Worst{
		{"r", 2, 108 * ms, 132 * ms},
		{"r/group", 2, 41 * ms, 41 * ms},
		{"r/group/a", 4, 40 * ms, 40 * ms},
		{"r/group/b", 2, 30 * ms, 30 * ms},
		{"r/capped", 2, 10 * ms, 22 * ms},
		{"r/capped/c", 2, 7 * ms, 7 * ms},
		{"r/capped/d", 2, 10 * ms, 10 * ms}, // its own is not known: that of its caller
	}, plan.WorstCase(tree))
}

func TestWorstCasesStayWithinTheirTypes(t *testing.T) {
	tree := chain(math.MaxInt64/2, 1<<20, 1<<20, 1<<20, 1<<20)
	for i, w := range plan.WorstCase(tree) {
		assert.Positive(t, w.Calls)
		assert.Equal(t, time.Duration(math.MaxInt64), w.Waits)
		if i == 3 {
			assert.Equal(t, math.MaxInt, w.Calls)
		}
	}
	assert.Equal(t, []plan.Worst{{Path: "a", Calls: 1}}, plan.WorstCase(plan.Call{Name: "a"}), "no timeout anywhere")
}

// The tree that was passed in stays the caller's, and the plan its own.
func TestTheWorstCaseOfATreeThatIsNotValidIsThatOfItsValidPart(t *testing.T) {
	c := plan.Call{Name: "a", Timeout: -time.Second, Own: -time.Second, Attempts: -1, Calls: []plan.Call{{Name: "b", Timeout: time.Second}}}
	assert.Equal(t, []plan.Worst{{Path: "a", Calls: 1, Waits: time.Second, Runs: time.Second}, {Path: "a/b", Calls: 1, Waits: time.Second, Runs: time.Second}}, plan.WorstCase(c))
}

func TestFitDoesNotChangeItsTree(t *testing.T) {
	tree := chain(0, 2, 2)
	tree.Timeout = time.Second
	p, err := plan.Fit(tree, nil)
	require.NoError(t, err)
	assert.Zero(t, tree.Calls[0].Timeout)
	assert.Equal(t, 500*ms, p.Timeout("call/call"))
	before := p.String()
	tree.Calls[0].Name, tree.Calls[0].Attempts = "other", 7
	assert.Equal(t, before, p.String())
	_, err = plan.Fit(tree, func(time.Duration) time.Duration { return -time.Second })
	assert.NoError(t, err, "slush below nothing is nothing")
	_, err = plan.Fit(tree, func(time.Duration) time.Duration { return time.Hour })
	assert.True(t, errors.As(err, new(*plan.OverrunError)), "slush of all there is leaves nothing")
}
