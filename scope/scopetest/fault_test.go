package scopetest_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
	"github.com/curfew-go/curfew/scope/scopetest"
)

var errDown = errors.New("shop is down")

// A story is what became of a scope "shop" with a task "fetch", which takes a
// second, one "other", which obeys, and a cleanup "unlock".
type story struct {
	took      time.Duration
	err       error
	panicked  any
	goexited  bool
	fetched   bool        // the function of fetch ran to its end
	unlocked  atomic.Bool // also by a cleanup that was left behind
	otherEnds error       // the context's cause of the other task; nil: it was not cancelled
}

// play tells the story under a limit of five seconds.
func play(ctx context.Context) *story {
	st := &story{}
	began := time.Now()
	st.goexited = goexits(func() {
		defer func() { st.panicked = recover() }()
		st.err = scope.Run(ctx, "shop", budget.Within(5*time.Second), func(ctx context.Context, s *scope.Scope) error {
			s.Cleanup("unlock", func(context.Context) error { st.unlocked.Store(true); return nil })
			s.Go("other", func(ctx context.Context) error {
				select {
				case <-time.After(2 * time.Second):
					return nil
				case <-ctx.Done():
					st.otherEnds = context.Cause(ctx)
					return st.otherEnds
				}
			})
			s.Go("fetch", func(ctx context.Context) error {
				select {
				case <-time.After(time.Second):
					st.fetched = true
					return nil
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			})
			return s.Wait()
		})
	})
	st.took = time.Since(began)
	return st
}

// Every fault at every point. took says that the clock is exact.
func TestEveryFaultAtEveryPoint(t *testing.T) {
	failed := func(target error) func(*testing.T, *story) {
		return func(t *testing.T, st *story) { assert.ErrorIs(t, st.err, target); assert.Error(t, st.otherEnds) }
	}
	panicked := func(t *testing.T, st *story) {
		pe, ok := st.panicked.(*scope.PanicError)
		require.True(t, ok, "%v", st.panicked)
		assert.Equal(t, "boom", pe.Value)
		assert.Contains(t, pe.Task, "shop/")
	}
	well := func(t *testing.T, st *story) { assert.NoError(t, st.err); assert.NoError(t, st.otherEnds) }
	for _, tt := range []struct {
		point   scopetest.Point
		fault   func(scopetest.Place) *scopetest.Fault
		took    time.Duration
		fetched bool
		locked  bool // unlock did not run
		check   func(*testing.T, *story)
	}{
		{scopetest.Spawn, failing, 0, false, false, failed(errDown)},
		{scopetest.Start, failing, 0, false, false, failed(errDown)},
		{scopetest.Join, failing, time.Second, true, false, failed(errDown)},
		{scopetest.Cleanup, failing, 2 * time.Second, true, true, func(t *testing.T, st *story) {
			assert.ErrorIs(t, st.err, errDown)
			assert.NoError(t, st.otherEnds)
		}},

		{scopetest.Spawn, panicking, 0, false, false, func(t *testing.T, st *story) { assert.Equal(t, "boom", st.panicked) }},
		{scopetest.Start, panicking, 0, false, false, panicked},
		{scopetest.Join, panicking, time.Second, true, false, panicked},
		{scopetest.Cleanup, panicking, 2 * time.Second, true, true, panicked},

		{scopetest.Spawn, goexiting, 0, false, false, func(t *testing.T, st *story) { assert.True(t, st.goexited) }},
		{scopetest.Start, goexiting, 0, false, false, failed(scope.ErrGoexit)},
		{scopetest.Join, goexiting, time.Second, true, false, failed(scope.ErrGoexit)},
		{scopetest.Cleanup, goexiting, 2 * time.Second, true, true, func(t *testing.T, st *story) {
			assert.ErrorIs(t, st.err, scope.ErrGoexit)
		}},

		{scopetest.Spawn, delaying(3 * time.Second), 4 * time.Second, true, false, well},
		{scopetest.Start, delaying(3 * time.Second), 4 * time.Second, true, false, well},
		{scopetest.Join, delaying(3 * time.Second), 4 * time.Second, true, false, well},
		{scopetest.Cleanup, delaying(500 * time.Millisecond), 2500 * time.Millisecond, true, false, well},

		{scopetest.Spawn, deaf(3 * time.Second), 4 * time.Second, true, false, well},
		{scopetest.Start, deaf(3 * time.Second), 4 * time.Second, true, false, well},
		{scopetest.Join, deaf(3 * time.Second), 4 * time.Second, true, false, well},
		{scopetest.Cleanup, deaf(500 * time.Millisecond), 2500 * time.Millisecond, true, false, well},
	} {
		path := "shop/fetch"
		if tt.point == scopetest.Cleanup {
			path = "shop/unlock"
		}
		fault := tt.fault(scopetest.At(path, tt.point))
		t.Run(fault.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *recorder, _ <-chan struct{}) {
				ctx := scopetest.Context(r)
				scopetest.Inject(ctx, fault)
				st := play(ctx)
				assert.Equal(t, tt.took, st.took)
				assert.Equal(t, tt.fetched, st.fetched, "fetch ran to its end")
				assert.Equal(t, !tt.locked, st.unlocked.Load(), "unlock ran")
				assert.Equal(t, 1, fault.Hits())
				tt.check(t, st)
				assert.Empty(t, r.end())
			})
		})
	}
}

func failing(p scopetest.Place) *scopetest.Fault   { return p.Fail(errDown) }
func panicking(p scopetest.Place) *scopetest.Fault { return p.Panic("boom") }
func goexiting(p scopetest.Place) *scopetest.Fault { return p.Goexit() }

func delaying(d time.Duration) func(scopetest.Place) *scopetest.Fault {
	return func(p scopetest.Place) *scopetest.Fault { return p.Delay(d) }
}

func deaf(d time.Duration) func(scopetest.Place) *scopetest.Fault {
	return func(p scopetest.Place) *scopetest.Fault { return p.Deaf(d) }
}

// What tells the two apart is a context that ends first: at the deadline of five
// seconds, or for a cleanup at the end of its second.
func TestADelayObeysAndADeafOneDoesNot(t *testing.T) {
	deadline := 5 * time.Second
	for _, tt := range []struct {
		path    string
		point   scopetest.Point
		fault   func(time.Duration) func(scopetest.Place) *scopetest.Fault
		took    time.Duration
		fetched bool
	}{
		{"shop/fetch", scopetest.Spawn, delaying, deadline, false},
		{"shop/fetch", scopetest.Start, delaying, deadline, false},
		{"shop/fetch", scopetest.Join, delaying, deadline, true},
		{"shop/unlock", scopetest.Cleanup, delaying, 3 * time.Second, true},
		{"shop/fetch", scopetest.Spawn, deaf, 20 * time.Second, false},
		{"shop/fetch", scopetest.Start, deaf, 20 * time.Second, false},
		{"shop/fetch", scopetest.Join, deaf, 21 * time.Second, true},
		{"shop/unlock", scopetest.Cleanup, deaf, 3*time.Second + 10*time.Millisecond, true},
	} {
		fault := tt.fault(20 * time.Second)(scopetest.At(tt.path, tt.point))
		t.Run(fault.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *recorder, _ <-chan struct{}) {
				ctx := scopetest.Context(r)
				scopetest.Inject(ctx, fault)
				st := play(ctx)
				assert.Equal(t, tt.took, st.took)
				assert.Equal(t, tt.fetched, st.fetched)
				switch {
				case tt.point == scopetest.Cleanup:
					assert.ErrorIs(t, st.err, scope.ErrCleanupTimeout)
				case tt.point == scopetest.Join:
					assert.NoError(t, st.err, "nothing was cut")
				default:
					assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(st.err))
				}
				time.Sleep(time.Minute)
				assert.Empty(t, r.end())
			})
		})
	}
}

func TestAFaultThatNothingMeetsFailsTheTest(t *testing.T) {
	inBubble(t, func(t *testing.T, r *recorder, _ <-chan struct{}) {
		ctx := scopetest.Context(r)
		missed := scopetest.At("shop/fecth", scopetest.Start).Fail(errDown).Times(2)
		scopetest.Inject(ctx, missed)
		line := lineBelow(-1)
		scopetest.Inject(ctx, scopetest.At("shop/fetch", scopetest.Start).Delay(1))
		assert.NoError(t, play(ctx).err)
		failures := r.end()
		require.Len(t, failures, 1)
		assert.Equal(t, `scopetest: nothing met the fault At("shop/fecth", Start).Fail("shop is down").Times(2), injected at `+line, failures[0])
		assert.Zero(t, missed.Hits())
	})
}

func TestAFaultHappensToAsManyAsItSays(t *testing.T) {
	for _, times := range []int{1, 10, 64} {
		ctx := scopetest.Context(t)
		fault := scopetest.At("shop/*", scopetest.Start).Fail(errDown).Times(times)
		scopetest.Inject(ctx, fault)
		err := scope.Run(ctx, "shop", budget.Within(time.Minute), func(_ context.Context, s *scope.Scope) error {
			s.SetKeepGoing()
			for i := range 64 {
				s.Go(fmt.Sprint(i), func(context.Context) error { return nil })
			}
			return nil
		})
		var e *scope.Error
		require.ErrorAs(t, err, &e)
		assert.Len(t, e.Failures, times)
		assert.Equal(t, times, fault.Hits())
	}
}

func TestFaultsOfOnePlaceHappenInTheirOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, r *recorder, _ <-chan struct{}) {
		ctx := scopetest.Context(r)
		at := scopetest.At("shop/fetch", scopetest.Start)
		errLater := errors.New("later")
		second := at.Fail(errLater)
		scopetest.Inject(ctx, at.Delay(time.Second), at.Fail(errDown).Times(1), second)
		st := play(ctx)
		assert.Equal(t, time.Second, st.took)
		assert.ErrorIs(t, st.err, errDown)
		assert.Zero(t, second.Hits(), "the first failure ends the row")
		assert.ErrorIs(t, play(ctx).err, errLater)
		assert.Empty(t, r.end())
	})
}

// The fault is inside of what Restart repeats: that is how a restart is tested.
func TestARestartedTaskMeetsTheFaultAgain(t *testing.T) {
	for _, p := range []scopetest.Point{scopetest.Start, scopetest.Join} {
		inBubble(t, func(t *testing.T, r *recorder, _ <-chan struct{}) {
			ctx := scopetest.Context(r)
			fault := scopetest.At("shop/consume", p).Fail(errDown).Times(3)
			once := scopetest.At("shop/consume", scopetest.Spawn).Fail(errDown)
			scopetest.Inject(ctx, fault, once)
			restarts, runs := 0, 0
			ctx = scope.WithTrace(ctx, &scope.Trace{TaskRestarted: func(string, string, error, time.Duration) { restarts++ }})
			err := scope.Run(ctx, "shop", budget.Within(time.Hour), func(_ context.Context, s *scope.Scope) error {
				s.Restart(scope.Backoff{}).Go("consume", func(context.Context) error { runs++; return nil })
				return nil
			})
			assert.NoError(t, err)
			assert.Equal(t, 4, restarts)
			assert.Equal(t, map[scopetest.Point]int{scopetest.Start: 1, scopetest.Join: 4}[p], runs)
			assert.Equal(t, 1, once.Hits())
			assert.Empty(t, r.end())
		})
	}
}

func TestOneItemOfAMapMeetsAFault(t *testing.T) {
	ctx := scopetest.Context(t)
	scopetest.Inject(ctx, scopetest.At("prices/3", scopetest.Join).Fail(errDown))
	_, err := scope.Map(ctx, "prices", 2, make([]int, 5), func(_ context.Context, v int) (int, error) { return v, nil })
	var e *scope.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, "3", e.Cause.Task)
	assert.ErrorIs(t, err, errDown)
}

func TestAFaultOfOneTestIsNotThatOfAnother(t *testing.T) {
	one, other := scopetest.Context(t), scopetest.Context(t)
	fault := scopetest.At("shop/fetch", scopetest.Start).Fail(errDown)
	scopetest.Inject(one, fault)
	run := func(ctx context.Context) error {
		return scope.Run(ctx, "shop", budget.Inherited(), func(_ context.Context, s *scope.Scope) error {
			s.Go("fetch", func(context.Context) error { return nil })
			return nil
		})
	}
	assert.NoError(t, run(other))
	assert.ErrorIs(t, run(one), errDown)
	assert.PanicsWithValue(t, `scopetest: Inject: At("shop/fetch", Start).Fail("shop is down") was injected before`,
		func() { scopetest.Inject(other, fault) })
	assert.PanicsWithValue(t, `scopetest: At("shop/fetch", Start).Fail("shop is down"): Times after Inject`,
		func() { fault.Times(2) })
}

// The same faults give the same story, to the nanosecond.
func TestAStoryWithFaultsIsTheSameEachTime(t *testing.T) {
	tell := func() (st *story) {
		synctest.Test(t, func(t *testing.T) {
			ctx := scopetest.Context(t)
			scopetest.Inject(ctx,
				scopetest.At("shop/other", scopetest.Start).Deaf(700*time.Millisecond),
				scopetest.At("shop/fetch", scopetest.Spawn).Delay(300*time.Millisecond),
				scopetest.At("shop/fetch", scopetest.Join).Fail(errDown),
				scopetest.At("shop/unlock", scopetest.Cleanup).Delay(50*time.Millisecond))
			st = play(ctx)
			require.Error(t, st.err)
		})
		return st
	}
	first := tell()
	assert.Equal(t, 1350*time.Millisecond, first.took)
	for range 50 {
		again := tell()
		assert.Equal(t, first.took, again.took)
		assert.Equal(t, first.err.Error(), again.err.Error())
		assert.Equal(t, first.otherEnds.Error(), again.otherEnds.Error())
	}
}

// TestAFaultMeetsAnItemOfAMapByItsNumber, which everybody else calls it, too.
func TestAFaultMeetsAnItemOfAMapByItsNumber(t *testing.T) {
	ctx := scopetest.Context(t)
	scopetest.Inject(ctx, scopetest.At("page/prices/2", scopetest.Join).Fail(errDown))
	var paths []string
	err := scope.Run(ctx, "page", budget.Inherited(), func(ctx context.Context, _ *scope.Scope) error {
		return scope.Each(ctx, "prices", 1, make([]int, 4), func(ctx context.Context, _ int) error {
			paths = append(paths, ctx.(interface{ Path() string }).Path())
			return nil
		})
	})
	var te *scope.TaskError
	var inner *scope.Error
	require.ErrorAs(t, err, &te)
	require.ErrorAs(t, te.Err, &inner)
	require.Len(t, inner.Failures, 1)
	require.ErrorAs(t, inner.Failures[0], &te)
	assert.Equal(t, "2", te.Task)
	assert.Equal(t, []string{"page/prices/0", "page/prices/1", "page/prices/2"}, paths)
}
