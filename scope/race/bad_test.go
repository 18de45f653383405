package race_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
	"github.com/curfew-go/curfew/scope/race"
)

func TestBadCallsPanicNamingFunctionAndArgument(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	f := answer("x")
	var none func(context.Context) (string, error)
	var noCtx context.Context
	hedge := race.Config[string]{After: every(0)}
	negative := race.Config[string]{After: every(0), Extra: -1}
	for text, call := range map[string]func(){
		`race: First: nil context`:                                                func() { race.First(noCtx, "q", f) },
		`race: First: empty name`:                                                 func() { race.First(ctx, "", f) },
		`race: First("q"): no function`:                                           func() { race.First[string](ctx, "q") },
		`race: First("q"): function 1 is nil`:                                     func() { race.First(ctx, "q", f, nil) },
		`race: Quorum("q"): no function`:                                          func() { race.Quorum[string](ctx, "q", 1) },
		`race: Quorum: empty name`:                                                func() { race.Quorum(ctx, "", 1, f) },
		`race: Hedge: empty name`:                                                 func() { hedge.Hedge(ctx, "", f) },
		`race: Hedge("q"): function 0 is nil`:                                     func() { race.Hedge(ctx, "q", 0, none) },
		`race: Hedge("q"): Config.After is nil`:                                   func() { race.Config[string]{}.Hedge(ctx, "q", f) },
		`race: Hedge("q"): Config.Extra is -1`:                                    func() { negative.Hedge(ctx, "q", f) },
		`race: Keep: nil context`:                                                 func() { race.Keep(noCtx) },
		`race: Attempt: nil context`:                                              func() { race.Attempt(noCtx) },
		"race: Keep: the context is not that of an attempt":                       func() { race.Keep(ctx) },
		`race: Quorum("q"): need 0: must be from 1 to the number of functions, 1`: func() { race.Quorum(ctx, "q", 0, f) },
		`race: Quorum("q"): need 2: must be from 1 to the number of functions, 1`: func() { race.Quorum(ctx, "q", 2, f) },
	} {
		assert.PanicsWithValue(t, text, call)
	}
}

func TestKeepIsForTheAttemptsOwnContext(t *testing.T) {
	inScope(t, func(ctx context.Context, s *scope.Scope) {
		assert.Panics(t, func() { race.Keep(ctx) })
		_, err := race.First(ctx, "q", func(ctx context.Context) (int, error) {
			defer race.Keep(context.WithValue(ctx, aKey{}, 1))()
			inner, cancel := context.WithCancel(ctx)
			defer cancel()
			defer race.Keep(inner)()
			return 0, scope.Run(ctx, "inner", budget.Inherited(), func(ctx context.Context, s *scope.Scope) error {
				assert.Panics(t, func() { race.Keep(ctx) })
				return nil
			})
		})
		assert.NoError(t, err)
	})
}

func TestARaceWithoutTimeDoesNotBegin(t *testing.T) {
	cancelled, cancel := context.WithTimeout(context.Background(), time.Hour)
	cancel()
	expired, cancel := context.WithTimeout(context.Background(), -1)
	defer cancel()
	short, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	why := errors.New("mine")
	caused, cancelCause := context.WithCancelCause(short)
	cancelCause(why)
	for _, c := range []struct {
		name  string
		ctx   context.Context
		limit budget.Limit
		kind  budget.Kind
		is    error
		text  string
	}{
		{"no deadline", context.Background(), budget.Limit{}, budget.Failed, budget.ErrNoDeadline,
			"race: q: not begun: failed: scope q: budget: no deadline: Inherited needs a parent that has one"},
		{"cancelled", cancelled, budget.Limit{}, budget.ParentCancelled, context.Canceled, "race: q: not begun: parent cancelled"},
		{"cancelled with a cause", caused, budget.Limit{}, budget.ParentCancelled, why, "race: q: not begun: parent cancelled: mine"},
		{"expired", expired, budget.Limit{}, budget.ExpiredOnArrival, context.DeadlineExceeded, ""},
		{"a limit of nothing", short, budget.Within(0), budget.ExpiredOnArrival, context.DeadlineExceeded,
			"race: q: not begun: expired on arrival: limit within 0s < parent deadline"},
		{"too little left", short, budget.Inherited().Require(2 * time.Hour), budget.LocalBudgetRejected, context.DeadlineExceeded, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			never := func(context.Context) (int, error) { t.Error("begun"); return 0, nil }
			cfg := race.Config[int]{Limit: c.limit, After: every(0)}
			first, err1 := cfg.First(c.ctx, "q", never, never)
			quorum, err2 := cfg.Quorum(c.ctx, "q", 2, never, never)
			hedge, err3 := cfg.Hedge(c.ctx, "q", never)
			cfg.Inline = true
			inline, err4 := cfg.Hedge(c.ctx, "q", never)
			assert.Zero(t, first+hedge+inline+len(quorum))
			for _, err := range []error{err1, err2, err3, err4} {
				assert.ErrorIs(t, err, c.is)
				assert.Equal(t, c.kind, budget.KindOf(err))
				if c.text != "" {
					assert.EqualError(t, err, c.text)
				}
			}
		})
	}
}

// The race is entered in time, and then there is none left for its attempts. The first
// attempt of a hedge in a scope is not among them: it enters the race by itself.
func TestARaceWhoseTimeIsOverBeforeItsAttemptsBeginRanOutOfTime(t *testing.T) {
	never := func(context.Context) (int, error) { t.Error("begun"); return 0, nil }
	cfg := race.Config[int]{Limit: budget.Within(1), After: every(0)}
	check := func(_ int, err error) {
		t.Helper()
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err), "%v", err)
	}
	for range 100 {
		check(cfg.First(context.Background(), "q", never, never))
		check(cfg.Hedge(context.Background(), "q", never))
		inScope(t, func(ctx context.Context, _ *scope.Scope) { check(cfg.First(ctx, "q", never, never)) })
	}
}

func TestARaceInAScopeThatHasEndedReturnsTheScopesCause(t *testing.T) {
	var outer context.Context
	err := scope.Run(context.Background(), "request", budget.Within(time.Minute), func(ctx context.Context, s *scope.Scope) error {
		outer = ctx
		s.Cancel(nil)
		_, err := race.First(ctx, "q", answer("never"))
		assert.Same(t, context.Cause(ctx), causeOf(t, err))
		assert.EqualError(t, err, "race: request/q: not begun: cancelled: scope request")
		return err
	})
	assert.Equal(t, budget.Cancelled, budget.KindOf(err))
	_, err = race.First(outer, "q", answer("never"))
	assert.ErrorIs(t, err, context.Canceled)
}

func TestTheKindOfAFailedRaceIsThatOfTheFailureThatDecided(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	fails := func(err error) func(context.Context) (int, error) {
		return func(context.Context) (int, error) { return 0, err }
	}
	tooLate := &budget.Cause{Kind: budget.DeadlineExceeded}
	_, err := race.First(ctx, "q", fails(tooLate))
	assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err))
	// Nothing was done, says a refusal; the race cannot say that of all it began.
	_, err = race.First(ctx, "q", fails(&budget.Cause{Kind: budget.LocalBudgetRejected}))
	assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err))
}

func TestALongErrorCountsWhatItDoesNotName(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	fs := make([]func(context.Context) (string, error), 9)
	for i := range fs {
		fs[i] = broken("no")
	}
	_, err := race.First(ctx, "q", fs...)
	var e *race.Error
	require.ErrorAs(t, err, &e)
	assert.Len(t, e.Failures, 9)
	assert.Regexp(t, `^race: q: all 9 attempts failed: task "q/\d": no(; task "q/\d": no){4}; and 4 more$`, err.Error())
	assert.Equal(t, "race: no error", fmt.Sprint((*race.Error)(nil)))
	assert.False(t, errors.Is((*race.Error)(nil), context.Canceled))
}

// The end comes in the middle, by whoever is above.
func TestARaceEndsWithItsContextWhateverItsAttemptsDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		inScope(t, func(outer context.Context, s *scope.Scope) {
			_, err := race.Quorum(ctx, "q", 2, after(10*time.Millisecond, 1), stuckInt, stuckInt)
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			assert.Equal(t, "race: q: deadline exceeded: limit parent deadline", err.Error())
		})
		assert.Equal(t, 100*time.Millisecond, time.Since(began))
	})
}

func stuckInt(ctx context.Context) (int, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}
