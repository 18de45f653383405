package budget_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
)

type key string

func enter(t testing.TB, parent context.Context, limit budget.Limit) context.Context {
	t.Helper()
	ctx, cancel, err := budget.Enter(parent, limit)
	require.NoError(t, err)
	t.Cleanup(cancel)
	return ctx
}

func timed(t testing.TB, parent context.Context, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(parent, d)
	t.Cleanup(cancel)
	return ctx
}

func cancelled(t testing.TB, parent context.Context, cause error) context.Context {
	ctx, cancel := context.WithCancelCause(parent)
	cancel(cause)
	return ctx
}

// After an error there is still a context and a cancel function: code that
// forgets to look does no work, and finds the reason.
func TestAfterAnErrorTheContextHasEndedWithIt(t *testing.T) {
	boom := errors.New("boom")
	synctest.Test(t, func(t *testing.T) {
		gone := enter(t, context.Background(), budget.Within(time.Second).Named("gateway"))
		time.Sleep(time.Second)
		stdGone := timed(t, context.Background(), time.Second)
		time.Sleep(time.Second)
		synctest.Wait()
		oursCancelled, cancel, err := budget.Enter(context.Background(), budget.Within(time.Hour))
		require.NoError(t, err)
		cancel()
		shutdown := &budget.Cause{Kind: budget.Shutdown}

		for _, tt := range []struct {
			name     string
			parent   context.Context
			limit    budget.Limit
			kind     budget.Kind
			sentinel error // what ctx.Err answers
			err      error // the very error; nil when it is made for the occasion
			is       error // what else it matches
			text     string
		}{
			{"no deadline", context.Background(), budget.Inherited(), budget.Failed, context.Canceled, budget.ErrNoDeadline, nil,
				"budget: no deadline: Inherited needs a parent that has one"},
			{"no deadline below WithoutCancel", context.WithoutCancel(gone), budget.Inherited(), budget.Failed, context.Canceled, budget.ErrNoDeadline, nil, ""},
			{"expired", context.Background(), budget.Within(0), budget.ExpiredOnArrival, context.DeadlineExceeded, nil, nil,
				"budget: expired on arrival: limit within 0s"},
			{"too little", context.Background(), budget.Within(1).Require(2), budget.LocalBudgetRejected, context.DeadlineExceeded, nil, nil,
				"budget: local budget rejected: limit within 1ns"},
			{"parent expired", gone, budget.Within(time.Hour), budget.ExpiredOnArrival, context.DeadlineExceeded, nil, context.Cause(gone),
				"budget: expired on arrival: limit gateway 1s < within 1h0m0s: budget: deadline exceeded: limit gateway 1s"},
			{"parent expired, inherited", gone, budget.Inherited(), budget.ExpiredOnArrival, context.DeadlineExceeded, nil, context.Cause(gone),
				"budget: expired on arrival: limit gateway 1s: budget: deadline exceeded: limit gateway 1s"},
			{"std parent expired", stdGone, budget.Inherited(), budget.ExpiredOnArrival, context.DeadlineExceeded, nil, nil,
				"budget: expired on arrival: limit parent deadline: budget: deadline exceeded: limit parent deadline"},
			{"std parent cancelled", cancelled(t, context.Background(), nil), budget.Within(1), budget.ParentCancelled, context.Canceled, nil, nil,
				"budget: parent cancelled"},
			{"std parent cancelled with a cause", cancelled(t, context.Background(), boom), budget.Within(1), budget.ParentCancelled, context.Canceled, nil, boom,
				"budget: parent cancelled: boom"},
			{"std parent cancelled with a cause of ours", cancelled(t, context.Background(), shutdown), budget.Within(1), budget.Shutdown, context.Canceled, shutdown, nil, ""},
			{"parent cancelled", oursCancelled, budget.Within(1), budget.Cancelled, context.Canceled, context.Cause(oursCancelled), nil,
				"budget: cancelled"},
			{"parent cancelled, behind a value", context.WithValue(oursCancelled, key("a"), 1), budget.Inherited(), budget.Cancelled, context.Canceled, context.Cause(oursCancelled), nil, ""},
		} {
			ctx, cancel, err := budget.Enter(context.WithValue(tt.parent, key("user"), "ann"), tt.limit)
			require.Error(t, err, tt.name)
			require.NotNil(t, cancel, tt.name)
			assert.Equal(t, tt.kind, budget.KindOf(err), tt.name)
			if tt.err != nil {
				assert.Equal(t, tt.err, err, tt.name)
			}
			if tt.is != nil {
				assert.ErrorIs(t, err, tt.is, tt.name)
			}
			if tt.text != "" {
				assert.EqualError(t, err, tt.text, tt.name)
			}
			select {
			case <-ctx.Done():
			default:
				t.Errorf("%s: alive", tt.name)
			}
			assert.Equal(t, tt.sentinel, ctx.Err(), tt.name)
			assert.Equal(t, err, context.Cause(ctx), tt.name)
			assert.Equal(t, "ann", ctx.Value(key("user")), tt.name)
			cancel()
			cancel()
			assert.Equal(t, err, context.Cause(ctx), "%s: cancel after the end changes nothing", tt.name)

			ran := false
			err = scope.Run(tt.parent, "work", tt.limit, func(context.Context, *scope.Scope) error { ran = true; return nil })
			assert.Error(t, err, tt.name)
			assert.False(t, ran, "%s: the body ran", tt.name)
		}
	})
}

// The first of several ends is the one that is told for ever.
func TestOnlyTheFirstEndCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel, err := budget.Enter(context.Background(), budget.Within(time.Second))
		require.NoError(t, err)
		cancel()
		cause := context.Cause(ctx)
		time.Sleep(2 * time.Second)
		cancel()
		assert.Equal(t, context.Canceled, ctx.Err())
		assert.Same(t, cause, context.Cause(ctx))
		assert.Equal(t, budget.Cancelled, budget.KindOf(cause))

		ctx, cancel, err = budget.Enter(context.Background(), budget.Within(time.Second))
		require.NoError(t, err)
		time.Sleep(2 * time.Second)
		cause = context.Cause(ctx)
		cancel()
		assert.Equal(t, context.DeadlineExceeded, ctx.Err())
		assert.Same(t, cause, context.Cause(ctx))
	})
}

// The limits in a cause, the tightest first: each that really bounds the work,
// and none that does not.
func TestTheChainNamesTheLimitsThatBoundTheWork(t *testing.T) {
	named := func(d time.Duration, who string) budget.Limit { return budget.Within(d).Named(who) }
	for _, tt := range []struct {
		name string
		ctx  func(t *testing.T) context.Context
		want string
	}{
		{"three that tighten", func(t *testing.T) context.Context {
			return enter(t, enter(t, enter(t, context.Background(), named(10*time.Second, "edge")), named(5*time.Second, "route maximum")), named(time.Second, "db"))
		}, "db 1s < route maximum 5s < edge 10s"},
		{"one in the middle does not tighten", func(t *testing.T) context.Context {
			return enter(t, enter(t, enter(t, context.Background(), named(10*time.Second, "edge")), named(time.Minute, "route maximum")), named(time.Second, "db"))
		}, "db 1s < edge 10s"},
		{"behind values", func(t *testing.T) context.Context {
			return enter(t, context.WithValue(enter(t, context.Background(), named(5*time.Second, "route maximum")), key("a"), 1), named(time.Second, "db"))
		}, "db 1s < route maximum 5s"},
		{"below a std deadline", func(t *testing.T) context.Context {
			return enter(t, timed(t, context.Background(), 5*time.Second), named(time.Second, "db"))
		}, "db 1s < parent deadline"},
		{"a std deadline in between, which bounds", func(t *testing.T) context.Context {
			return enter(t, timed(t, enter(t, context.Background(), named(10*time.Second, "edge")), 5*time.Second), named(time.Second, "db"))
		}, "db 1s < parent deadline"},
		{"a std deadline in between, which does not", func(t *testing.T) context.Context {
			return enter(t, timed(t, enter(t, context.Background(), named(5*time.Second, "edge")), time.Minute), named(time.Second, "db"))
		}, "db 1s < edge 5s"},
		{"WithoutCancel drops what is above", func(t *testing.T) context.Context {
			return enter(t, context.WithoutCancel(enter(t, context.Background(), named(time.Second, "edge"))), named(5*time.Second, "db"))
		}, "db 5s"},
		{"a std deadline below WithoutCancel", func(t *testing.T) context.Context {
			return enter(t, timed(t, context.WithoutCancel(enter(t, context.Background(), named(time.Second, "edge"))), 10*time.Second), named(5*time.Second, "db"))
		}, "db 5s < parent deadline"},
		{"detached drops what is above", func(t *testing.T) context.Context {
			ctx, cancel := budget.Detached(enter(t, context.Background(), named(time.Second, "edge")), 10*time.Second)
			t.Cleanup(cancel)
			return enter(t, ctx, named(5*time.Second, "rollback"))
		}, "rollback 5s < detached 10s"},
		{"unnamed and inherited", func(t *testing.T) context.Context {
			return enter(t, enter(t, enter(t, context.Background(), budget.Within(5*time.Second)), budget.Inherited()), budget.Inherited().Reserve(time.Second))
		}, "within 5s"},
		{"a limit below a hand-made parent that never ends", func(t *testing.T) context.Context {
			return enter(t, onlyDeadline{context.Background(), time.Now().Add(time.Second)}, named(5*time.Second, "db"))
		}, "parent deadline"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := tt.ctx(t)
				err := budget.Require(ctx, time.Minute)
				require.IsType(t, &budget.Cause{}, err)
				assert.Equal(t, tt.want, err.(*budget.Cause).Limit, "asked before the end")
				_, _, err = budget.Enter(ctx, budget.Inherited().Require(time.Minute))
				require.IsType(t, &budget.Cause{}, err)
				assert.Equal(t, tt.want, err.(*budget.Cause).Limit, "refused below")
				<-ctx.Done()
				assert.Equal(t, tt.want, context.Cause(ctx).(*budget.Cause).Limit, "at the end")
			})
		})
	}
}

type onlyDeadline struct {
	context.Context
	deadline time.Time
}

func (c onlyDeadline) Deadline() (time.Time, bool) { return c.deadline, true }

// Asked of a std context, Require names what it can: that context's deadline,
// and not a wider limit of ours above it.
func TestRequireBelowAStdDeadlineDoesNotBlameALimitAboveIt(t *testing.T) {
	outer := enter(t, context.Background(), budget.Within(time.Hour).Named("route maximum"))
	err := budget.Require(timed(t, outer, time.Second), time.Minute)
	require.IsType(t, &budget.Cause{}, err)
	assert.Equal(t, "parent deadline", err.(*budget.Cause).Limit)
}

func TestRequire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := enter(t, context.Background(), budget.Within(time.Second).Named("route maximum"))
		for _, tt := range []struct {
			name string
			ctx  context.Context
			need time.Duration
			want budget.Kind
		}{
			{"enough", ctx, 500 * ms, budget.None},
			{"exactly enough", ctx, time.Second, budget.None},
			{"one too little", ctx, time.Second + 1, budget.LocalBudgetRejected},
			{"nothing needed", ctx, 0, budget.None},
			{"of a std child", timed(t, ctx, 100*ms), 200 * ms, budget.LocalBudgetRejected},
			{"no deadline", context.Background(), time.Hour, budget.None},
			{"std cancelled", cancelled(t, context.Background(), nil), 0, budget.Cancelled},
			{"std cancelled with a cause", cancelled(t, context.Background(), &budget.Cause{Kind: budget.UserCancelled}), 0, budget.UserCancelled},
			{"std cancelled below ours", cancelled(t, ctx, nil), 0, budget.Cancelled},
			{"deadline passed, timer late", onlyDeadline{context.Background(), time.Now()}, 0, budget.DeadlineExceeded},
			{"deadline long passed, timer late", onlyDeadline{context.Background(), time.Now().Add(-1)}, time.Second, budget.DeadlineExceeded},
		} {
			assert.Equal(t, tt.want, budget.KindOf(budget.Require(tt.ctx, tt.need)), tt.name)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Same(t, context.Cause(ctx), budget.Require(ctx, 0), "why it ended")

		require.NoError(t, scope.Run(context.Background(), "order", budget.Within(time.Second).Named("route maximum"), func(ctx context.Context, s *scope.Scope) error {
			s.Go("payment", func(ctx context.Context) error {
				assert.EqualError(t, budget.Require(ctx, time.Minute),
					"budget: local budget rejected: scope order, task payment, limit route maximum 1s")
				return nil
			})
			return nil
		}))
	})
}

func TestRemaining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left, ok := budget.Remaining(context.Background())
		assert.False(t, ok)
		assert.Zero(t, left)
		ctx := enter(t, context.Background(), budget.Within(time.Second).Reserve(100*ms))
		left, ok = budget.Remaining(ctx)
		assert.True(t, ok)
		assert.Equal(t, 900*ms, left, "of the work, not of the caller")
		time.Sleep(900 * ms)
		left, _ = budget.Remaining(ctx)
		assert.Zero(t, left)
		time.Sleep(time.Second)
		left, ok = budget.Remaining(ctx)
		assert.True(t, ok)
		assert.Equal(t, -time.Second, left)
	})
}

// Detached: values kept, end and deadline dropped, a bound of its own.
func TestDetachedOutlivesItsParentWithinItsOwnBound(t *testing.T) {
	parents := map[string]func(t *testing.T) context.Context{
		"cancelled": func(t *testing.T) context.Context {
			ctx, cancel, err := budget.Enter(context.WithValue(context.Background(), key("user"), "ann"), budget.Within(time.Hour))
			require.NoError(t, err)
			cancel()
			return ctx
		},
		"expired": func(t *testing.T) context.Context {
			ctx := enter(t, context.WithValue(context.Background(), key("user"), "ann"), budget.Within(time.Second))
			time.Sleep(time.Second)
			synctest.Wait()
			return ctx
		},
		"expiring": func(t *testing.T) context.Context {
			return enter(t, context.WithValue(context.Background(), key("user"), "ann"), budget.Within(time.Second))
		},
		"std, cancelled": func(t *testing.T) context.Context {
			return cancelled(t, context.WithValue(context.Background(), key("user"), "ann"), nil)
		},
	}
	for name, parent := range parents {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := budget.Detached(parent(t), 10*time.Second)
				defer cancel()
				assert.NoError(t, ctx.Err())
				assert.Equal(t, "ann", ctx.Value(key("user")))
				left, ok := budget.Remaining(ctx)
				assert.True(t, ok)
				assert.Equal(t, 10*time.Second, left)
				time.Sleep(10*time.Second - 1)
				synctest.Wait()
				assert.NoError(t, ctx.Err(), "before its bound")
				time.Sleep(time.Nanosecond)
				synctest.Wait()
				assert.Equal(t, context.DeadlineExceeded, ctx.Err())
				assert.EqualError(t, context.Cause(ctx), "budget: deadline exceeded: limit detached 10s")
			})
		})
	}
}

func TestDetachedIsCancelledByItsFunctionAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outer, cancelOuter, err := budget.Enter(context.Background(), budget.Within(time.Hour))
		require.NoError(t, err)
		ctx, cancel := budget.Detached(outer, time.Minute)
		below := enter(t, ctx, budget.Inherited())
		cancelOuter()
		synctest.Wait()
		assert.NoError(t, ctx.Err())
		assert.NoError(t, below.Err())
		cancel()
		cancel()
		assert.Equal(t, context.Canceled, ctx.Err())
		assert.Equal(t, budget.Cancelled, budget.KindOf(context.Cause(ctx)))
		assert.Same(t, context.Cause(ctx), context.Cause(below))
	})
}

func TestDetachedForNoTimeHasEnded(t *testing.T) {
	for _, d := range []time.Duration{0, -1, -time.Hour, -forever} {
		ctx, cancel := budget.Detached(context.WithValue(context.Background(), key("user"), "ann"), d)
		require.NotNil(t, cancel)
		<-ctx.Done()
		assert.Equal(t, context.DeadlineExceeded, ctx.Err())
		assert.Equal(t, budget.ExpiredOnArrival, budget.KindOf(context.Cause(ctx)))
		assert.ErrorContains(t, context.Cause(ctx), "detached")
		assert.Equal(t, "ann", ctx.Value(key("user")))
		_, ok := budget.Remaining(ctx)
		assert.True(t, ok, "it has a deadline, which has passed")
		cancel()
		assert.Equal(t, budget.ExpiredOnArrival, budget.KindOf(context.Cause(ctx)))
	}
	ctx, cancel := budget.Detached(context.Background(), forever)
	assert.NoError(t, ctx.Err(), "and for ever is not negative")
	cancel()
}

// A shielded block inside a scope: the scope's end does not cut it, Run waits
// for it, and a scope inside the block lives on its bound.
func TestDetachedInsideAScope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var steps []string
		start := time.Now()
		err := scope.Run(context.Background(), "order", budget.Within(time.Second), func(ctx context.Context, s *scope.Scope) error {
			s.Go("pay", func(ctx context.Context) error {
				shield, cancel := budget.Detached(ctx, 5*time.Second)
				defer cancel()
				err := scope.Run(shield, "commit", budget.Inherited(), func(ctx context.Context, s *scope.Scope) error {
					time.Sleep(2 * time.Second) // past the scope's deadline
					steps = append(steps, "committed")
					return context.Cause(ctx)
				})
				if err != nil {
					return err
				}
				<-ctx.Done() // ended long ago
				return context.Cause(ctx)
			})
			return nil
		})
		assert.Equal(t, []string{"committed"}, steps)
		assert.Equal(t, 2*time.Second, time.Since(start))
		assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err))
	})
}

// Adjusting the wall clock moves no deadline. A time as time.Now gives it after
// a jump differs in its wall part alone.
func TestAJumpOfTheWallClockHasNoEffect(t *testing.T) {
	for _, jump := range []time.Duration{time.Hour, -time.Hour} {
		now := time.Now()
		moved := jumped(t, now, jump)
		require.Equal(t, 10*time.Minute, moved.Add(10*time.Minute).Sub(now), "what counts is the monotonic part")

		ctx := enter(t, context.Background(), budget.Until(moved.Add(10*time.Minute)))
		inMinutes(t, 10, ctx)

		std, cancel := context.WithDeadline(context.Background(), moved.Add(10*time.Minute))
		defer cancel()
		inMinutes(t, 10, enter(t, std, budget.Inherited()))
		inMinutes(t, 10, enter(t, std, budget.Within(20*time.Minute)))
		inMinutes(t, 5, enter(t, std, budget.Within(5*time.Minute)))
		inMinutes(t, 8, enter(t, std, budget.Inherited().Reserve(2*time.Minute)))

		_, _, err := budget.Enter(context.Background(), budget.Until(moved.Add(-time.Minute)))
		assert.Equal(t, budget.ExpiredOnArrival, budget.KindOf(err))
	}
}

// Whatever the limit was made of, from here on the deadline is monotonic: a
// later jump of the clock does not move it.
func TestEveryDeadlineIsMonotonic(t *testing.T) {
	wall := time.Now().Round(0).Add(10 * time.Minute) // as parsed from text
	require.False(t, isMonotonic(wall))
	std, cancel := context.WithDeadline(context.Background(), wall)
	defer cancel()
	for name, ctx := range map[string]context.Context{
		"within":                          enter(t, context.Background(), budget.Within(10*time.Minute)),
		"until a wall time":               enter(t, context.Background(), budget.Until(wall)),
		"until a wall time under ours":    enter(t, enter(t, context.Background(), budget.Within(time.Hour)), budget.Until(wall)),
		"inherited from a wall time":      enter(t, std, budget.Inherited()),
		"wider than a parent's wall time": enter(t, std, budget.Within(time.Hour)),
		"reserve from a wall time":        enter(t, std, budget.Inherited().Reserve(1)),
		"detached":                        detached(t, 10*time.Minute),
	} {
		d, ok := ctx.Deadline()
		assert.True(t, ok, name)
		assert.True(t, isMonotonic(d), "%s: %v", name, d)
		inMinutes(t, 10, ctx)
	}
}

func detached(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := budget.Detached(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func isMonotonic(t time.Time) bool { return t != t.Round(0) }

// inMinutes checks that the deadline of ctx is that far away, give or take what
// a busy machine takes to run a test.
func inMinutes(t *testing.T, minutes float64, ctx context.Context) {
	t.Helper()
	left, ok := budget.Remaining(ctx)
	assert.True(t, ok)
	assert.InDelta(t, minutes, left.Minutes(), 0.75)
}

// jumped returns what time.Now would have said instead of t, had the wall clock
// been moved by d: the monotonic part is the same.
func jumped(t *testing.T, at time.Time, d time.Duration) time.Time {
	require.True(t, isMonotonic(at))
	field, ok := reflect.TypeFor[time.Time]().FieldByName("wall")
	require.True(t, ok && field.Type.Kind() == reflect.Uint64, "time.Time has changed")
	wall := (*uint64)(unsafe.Add(unsafe.Pointer(&at), field.Offset))
	*wall += uint64(d/time.Second) << 30 // seconds stand above 30 bits of nanoseconds
	return at
}

// The worked numbers of the problem that this project solves.
func TestSeeds(t *testing.T) {
	var seeds struct {
		Hops []struct {
			Name         string
			Arrive       []int64
			Spent        json.RawMessage // a list, or a number
			Next         int64
			Needs        int64
			Outcome      string
			FreshTimeout int64 `json:"fresh_timeout"`
			WithDeadline int64 `json:"with_deadline"`
			RunsUntil    int64 `json:"runs_until"`
		}
		UsefulMinimum []struct {
			Remaining, Minimum int64
			Outcome            string
		} `json:"useful_minimum"`
		SkewMs []int64 `json:"skew_ms"`
	}
	text, err := os.ReadFile("testdata/seeds.json") // of the project's vectors, what is about budgets
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &seeds))
	millis := func(n int64) time.Duration { return time.Duration(n) * ms }

	require.Len(t, seeds.Hops, 5)
	for _, hop := range seeds.Hops {
		t.Run(hop.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var arrive []time.Duration
				for _, n := range hop.Arrive {
					arrive = append(arrive, millis(n))
				}
				if hop.Next > 0 {
					arrive = append(arrive, millis(hop.Next))
				}
				if hop.FreshTimeout > 0 { // the fault: a hop that takes a timeout of its own, where a deadline holds
					var spent int64
					require.NoError(t, json.Unmarshal(hop.Spent, &spent))
					ctx := enter(t, context.Background(), budget.Within(millis(hop.WithDeadline)))
					start := time.Now()
					time.Sleep(millis(spent))
					<-enter(t, ctx, budget.Within(millis(hop.FreshTimeout))).Done()
					assert.Equal(t, millis(hop.WithDeadline), time.Since(start))
					assert.Less(t, hop.WithDeadline, hop.RunsUntil)
					return
				}
				// Every hop asks for a minute of its own; what it gets is what is left.
				ctx := enter(t, context.Background(), budget.Within(arrive[0]).Named("edge"))
				for i, want := range arrive {
					left, _ := budget.Remaining(ctx)
					assert.Equal(t, want, left, "hop %d", i)
					if i+1 < len(arrive) {
						time.Sleep(want - arrive[i+1])
						ctx = enter(t, ctx, budget.Within(time.Minute))
					}
				}
				if hop.Needs > 0 {
					_, _, err := budget.Enter(ctx, budget.Inherited().Require(millis(hop.Needs)))
					require.Equal(t, "local_budget_rejected before any work", hop.Outcome)
					assert.Equal(t, budget.LocalBudgetRejected, budget.KindOf(err))
				}
			})
		})
	}

	require.Len(t, seeds.UsefulMinimum, 3)
	for _, tt := range seeds.UsefulMinimum {
		synctest.Test(t, func(t *testing.T) {
			want := map[string]budget.Kind{"run": budget.None, "local_budget_rejected": budget.LocalBudgetRejected}[tt.Outcome]
			ctx := enter(t, context.Background(), budget.Within(millis(tt.Remaining)))
			assert.Equal(t, want, budget.KindOf(budget.Require(ctx, millis(tt.Minimum))))
			inner, cancel, err := budget.Enter(ctx, budget.Within(time.Minute).Require(millis(tt.Minimum)))
			defer cancel()
			assert.Equal(t, want, budget.KindOf(err))
			if err == nil {
				left, _ := budget.Remaining(inner)
				assert.Equal(t, millis(tt.Remaining), left, "a useful minimum never raises what is left")
			}
		})
	}

	require.NotEmpty(t, seeds.SkewMs)
	for _, skew := range seeds.SkewMs {
		moved := jumped(t, time.Now(), millis(skew).Truncate(time.Second))
		inMinutes(t, 10, enter(t, context.Background(), budget.Until(moved.Add(10*time.Minute))))
	}
}

// TestADeadlineOfTheOutsideIsInherited: the clock of a bubble starts years before it.
func TestADeadlineOfTheOutsideIsInherited(t *testing.T) {
	outside, cancel, err := budget.Enter(context.Background(), budget.Within(time.Hour))
	require.NoError(t, err)
	defer cancel()
	synctest.Test(t, func(t *testing.T) {
		ran := false
		require.NoError(t, scope.Run(context.WithoutCancel(outside), "x", budget.Within(time.Second), func(context.Context, *scope.Scope) error {
			ran = true
			return nil
		}))
		assert.True(t, ran)
		ctx, cancel, err := budget.Enter(outside, budget.Inherited())
		require.NoError(t, err)
		defer cancel()
		deadline, _ := ctx.Deadline()
		want, _ := outside.Deadline()
		assert.True(t, want.Equal(deadline))
	})
}
