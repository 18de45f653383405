package budget_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

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
