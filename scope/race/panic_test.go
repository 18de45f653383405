package race_test

import (
	"context"
	"errors"
	"io"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
	"github.com/curfew-go/curfew/scope/race"
)

// quiet is a context whose scopes report panics to nobody.
func quiet() context.Context {
	return scope.WithTrace(context.Background(), &scope.Trace{TaskPanicked: func(*scope.PanicError) {}})
}

// recovered returns what f panics with.
func recovered(f func()) (v any) {
	defer func() { v = recover() }()
	f()
	return nil
}

func TestHedgeCase38_APanicOfAHedgeIsRaisedOnTheCallersGoroutineAfterTheLosersStopped(t *testing.T) {
	type variant struct{ owned, inline bool }
	for _, c := range []variant{{true, false}, {true, true}, {false, false}, {false, true}} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			var loser error
			var stopped time.Duration
			var raceErr error
			hedge := func(ctx context.Context) {
				_, raceErr = race.Config[string]{After: every(10 * time.Millisecond), Inline: c.inline, Limit: budget.Within(time.Second)}.Hedge(ctx, "q", func(ctx context.Context) (string, error) {
					if race.Attempt(ctx) > 0 {
						panic("hedge broke")
					}
					<-ctx.Done()
					loser, stopped = context.Cause(ctx), time.Since(began)
					time.Sleep(5 * time.Millisecond)
					return "", loser
				})
			}
			v := recovered(func() {
				if !c.owned {
					hedge(quiet())
					return
				}
				_ = scope.Run(quiet(), "request", budget.Within(time.Second), func(ctx context.Context, s *scope.Scope) error {
					hedge(ctx)
					assert.Same(t, context.Cause(ctx), causeOf(t, raceErr), "the caller gets the scope's cause")
					assert.Equal(t, budget.SiblingFailed, budget.KindOf(raceErr))
					return raceErr
				})
			})
			pe, ok := v.(*scope.PanicError)
			require.True(t, ok, "%v", v)
			assert.Equal(t, "hedge broke", pe.Value)
			assert.Contains(t, string(pe.Stack), "HedgeCase38", "with the attempt's own stack")
			assert.ErrorIs(t, loser, context.Canceled)
			assert.Equal(t, 10*time.Millisecond, stopped)
			assert.Equal(t, 15*time.Millisecond, time.Since(began), "raised once the loser has ended")
		})
	}
}

func TestAPanicOfAnInlinePrimaryUnwindsTheCallerAndStopsTheHedges(t *testing.T) {
	for _, owned := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			var late bin
			hedge := func(ctx context.Context) error {
				_, err := race.Config[int]{After: every(10 * time.Millisecond), Inline: true, Limit: budget.Within(time.Second), Dispose: late.put}.Hedge(ctx, "q", func(ctx context.Context) (int, error) {
					if race.Attempt(ctx) == 0 {
						time.Sleep(20 * time.Millisecond)
						panic("primary broke")
					}
					<-ctx.Done()
					assert.Equal(t, 20*time.Millisecond, time.Since(began))
					return 7, nil
				})
				return err
			}
			v := recovered(func() {
				if !owned {
					_ = hedge(quiet())
				}
				_ = scope.Run(quiet(), "request", budget.Within(time.Second), func(ctx context.Context, s *scope.Scope) error { return hedge(ctx) })
			})
			assert.Equal(t, "primary broke", v, "its own panic, not one that was carried over")
			assert.Equal(t, map[int]int{7: 1}, late.contents())
			assert.Equal(t, 20*time.Millisecond, time.Since(began))
		})
	}
}

// A value has won, and then the call does not return it because another attempt
// panicked before it could.
func TestAWinnersValueIsDisposedOfWhenThePanicOfALoserTakesItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var late bin
		v := recovered(func() {
			_, _ = race.Config[int]{Limit: budget.Within(time.Second), Dispose: late.put}.First(quiet(), "q",
				after(10*time.Millisecond, 1),
				func(context.Context) (int, error) {
					time.Sleep(20 * time.Millisecond)
					panic("late")
				})
		})
		require.IsType(t, &scope.PanicError{}, v)
		assert.Equal(t, map[int]int{1: 1}, late.contents())
	})
}

func TestAnAttemptThatReturnsTheErrorOfAPanicHasJustFailed(t *testing.T) {
	inScope(t, func(ctx context.Context, s *scope.Scope) {
		carried := &scope.PanicError{Task: "elsewhere", Value: "x"}
		_, err := race.First(ctx, "q", func(context.Context) (int, error) { return 0, carried })
		assert.ErrorIs(t, err, error(carried))
		assert.NoError(t, ctx.Err())
	})
}

func TestGoexitInAnAttemptIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inScope(t, func(ctx context.Context, s *scope.Scope) {
			exits := func(context.Context) (string, error) { runtime.Goexit(); return "", nil }
			_, err := race.First(ctx, "q", exits)
			assert.ErrorIs(t, err, scope.ErrGoexit)
			v, err := race.Hedge(ctx, "q", time.Hour, byAttempt(exits, after(time.Millisecond, "hedge")))
			assert.NoError(t, err)
			assert.Equal(t, "hedge", v)
		})
	})
}

func TestGoexitInAnInlinePrimaryEndsTheCallerAfterTheHedges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		gone := make(chan struct{})
		returned := false
		go func() {
			defer close(gone)
			_, _ = race.Config[int]{After: every(10 * time.Millisecond), Inline: true, Limit: budget.Within(time.Second)}.Hedge(context.Background(), "q", func(ctx context.Context) (int, error) {
				if race.Attempt(ctx) == 0 {
					time.Sleep(20 * time.Millisecond)
					runtime.Goexit()
				}
				<-ctx.Done()
				return 0, context.Cause(ctx)
			})
			returned = true
		}()
		<-gone
		assert.False(t, returned)
		assert.Equal(t, 20*time.Millisecond, time.Since(began))
	})
}

// What the settings' functions do wrong unwinds the caller, and the attempts are
// stopped.
func TestAPanicOfAGateOrOfAfterUnwindsTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hedge := func(ctx context.Context) {
			v := recovered(func() {
				_, _ = race.Config[string]{After: every(10 * time.Millisecond), Gate: gate(func() bool { panic("gate") })}.Hedge(ctx, "q", stuck)
			})
			assert.Equal(t, "gate", v)
			v = recovered(func() {
				_, _ = race.Config[string]{After: func() time.Duration { panic("after") }}.Hedge(ctx, "q", stuck)
			})
			assert.Equal(t, "after", v)
		}
		began := time.Now()
		inScope(t, func(ctx context.Context, s *scope.Scope) { hedge(ctx) })
		assert.Equal(t, 10*time.Millisecond, time.Since(began), "nothing runs any more")
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		hedge(ctx)
		assert.Equal(t, 20*time.Millisecond, time.Since(began), "nothing runs any more")
	})
}

func TestAPanicOfTerminalOrOfDisposeIsOneOfTheAttempt(t *testing.T) {
	for _, cfg := range []race.Config[int]{
		{Terminal: func(error) bool { panic("mine") }},
		{Dispose: func(int) { panic("mine") }},
	} {
		synctest.Test(t, func(t *testing.T) {
			v := recovered(func() {
				_ = scope.Run(quiet(), "request", budget.Within(time.Second), func(ctx context.Context, s *scope.Scope) error {
					_, err := cfg.First(ctx, "q", deaf(20*time.Millisecond, 1), afterErr(10*time.Millisecond, 0, io.EOF), after(15*time.Millisecond, 3))
					return err
				})
			})
			pe, ok := v.(*scope.PanicError)
			require.True(t, ok, "%v", v)
			assert.Equal(t, "mine", pe.Value)
		})
	}
}

// An abandoned attempt is an orphan; what it brings after all is disposed of.
func TestTheValueOfAnAbandonedAttemptIsDisposedOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var late bin
		var orphans int
		ctx := scope.WithTrace(context.Background(), &scope.Trace{Straggler: func(scope.Straggler) {}})
		began := time.Now()
		err := scope.Run(ctx, "request", budget.Within(50*time.Millisecond), func(ctx context.Context, s *scope.Scope) error {
			s.SetStragglers(100*time.Millisecond, scope.Abandon)
			s.Cleanup("look", func(context.Context) error { orphans = s.Stats().Orphans; return nil })
			_, err := race.Config[int]{Dispose: late.put}.First(ctx, "q", deaf(time.Second, 1), deaf(time.Second, 2))
			assert.Equal(t, 50*time.Millisecond, time.Since(began))
			return err
		})
		assert.True(t, errors.Is(err, context.DeadlineExceeded))
		assert.Equal(t, 150*time.Millisecond, time.Since(began))
		assert.Equal(t, 2, orphans)
		assert.Empty(t, late.contents())
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Equal(t, map[int]int{1: 1, 2: 1}, late.contents())
	})
}
