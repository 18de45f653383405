package race_test

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/stress"
	"github.com/curfew-go/curfew/scope"
	"github.com/curfew-go/curfew/scope/internal/lab"
	"github.com/curfew-go/curfew/scope/race"
)

// Two things that happen in one instant, in the order that is the hard one.

// whileStarting returns a context under which the named attempt, once it has
// entered its race, closes entered and is really started when all else has come to
// rest.
func whileStarting(name string) (ctx context.Context, entered chan struct{}) {
	entered = make(chan struct{})
	return lab.With(context.Background(), &lab.Test{At: func(_ context.Context, p lab.Point, _, task string) error {
		if p == lab.Spawn && task == name {
			close(entered)
			synctest.Wait()
		}
		return nil
	}}, scope.NewRoot("root")), entered
}

func TestAnAttemptThatIsStillBeingStartedLearnsThatItHasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var cause error
		ctx, entered := whileStarting("q/1")
		err := scope.Run(ctx, "request", budget.Within(time.Minute), func(ctx context.Context, s *scope.Scope) error {
			winner := func(context.Context) (int, error) { <-entered; return 1, nil }
			v, err := race.First(ctx, "q", winner, func(ctx context.Context) (int, error) {
				<-ctx.Done()
				cause = context.Cause(ctx)
				return 0, cause
			})
			assert.Equal(t, 1, v)
			return err
		})
		assert.NoError(t, err)
		assert.Equal(t, budget.RaceLost, budget.KindOf(cause))
		assert.Zero(t, time.Since(began))
	})
}

func TestAFailureBeforeTheOthersHaveBegunDoesNotDecideTheRace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, entered := whileStarting("q/1")
		err := scope.Run(ctx, "request", budget.Within(time.Minute), func(ctx context.Context, s *scope.Scope) error {
			fails := func(context.Context) (string, error) { <-entered; return "", io.EOF }
			v, err := race.Quorum(ctx, "q", 2, fails, answer("a"), answer("b"))
			assert.Len(t, v, 2)
			return err
		})
		assert.NoError(t, err)
	})
}

// Timers are late on a busy machine. What an attempt returns because it has looked
// at the clock is not a failure of its own.
func TestAnAttemptThatNoticesTheDeadlineBeforeTheTimerDoesNotDecideTheRace(t *testing.T) {
	own := errors.New("i/o timeout")
	for range stress.Rounds(300) {
		_, err := race.Config[int]{Limit: budget.Within(200 * time.Microsecond)}.First(context.Background(), "q", func(ctx context.Context) (int, error) {
			deadline, _ := ctx.Deadline()
			for time.Until(deadline) > 0 {
			}
			return 0, own
		})
		require.Equal(t, budget.DeadlineExceeded, budget.KindOf(err), "%v", err)
	}
}

func TestAHedgeThatIsDueAtTheDeadlineIsNotAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &countingGate{grants: 1000}
		for i := range 200 {
			_, err := race.Config[int]{
				Limit: budget.Within(30 * time.Millisecond), After: every(30 * time.Millisecond), Gate: g, Inline: i%2 == 0,
			}.Hedge(context.Background(), "q", stuckInt)
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		assert.Zero(t, g.asked.Load())
	})
}

// The primary fails while the gate is asked for the hedge that is due.
func TestAFailureWhileAHedgeIsBeingLaunchedReleasesNoSecondOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inScope(t, func(ctx context.Context, s *scope.Scope) {
			began := time.Now()
			fail := make(chan struct{})
			asked := 0
			v, err := race.Config[string]{
				After: every(50 * time.Millisecond), Extra: 2,
				Gate: gate(func() bool {
					if asked++; asked == 1 {
						close(fail)
						synctest.Wait() // the failure has arrived
					}
					return true
				}),
			}.Hedge(ctx, "q", byAttempt(
				func(context.Context) (string, error) { <-fail; return "", io.EOF },
				after(20*time.Millisecond, "hedge")))
			assert.NoError(t, err)
			assert.Equal(t, "hedge", v)
			assert.Equal(t, 1, asked)
			assert.Equal(t, 70*time.Millisecond, time.Since(began))
		})
	})
}

// While the primary runs inline, the gate is asked on a goroutine of the race's own.
func TestTheCallReturnsAfterTheGateHasAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inScope(t, func(ctx context.Context, s *scope.Scope) {
			began := time.Now()
			var asking atomic.Bool
			v, err := race.Config[string]{
				Inline: true, After: every(10 * time.Millisecond),
				Gate: gate(func() bool {
					asking.Store(true)
					time.Sleep(5 * time.Millisecond) // it should not, but may be slow
					asking.Store(false)
					return true
				}),
			}.Hedge(ctx, "q", after(12*time.Millisecond, "primary"))
			assert.NoError(t, err)
			assert.Equal(t, "primary", v)
			assert.False(t, asking.Load())
			assert.Equal(t, 15*time.Millisecond, time.Since(began))
			assert.Equal(t, 1, s.Stats().Started, "and begins nothing any more")
		})
	})
}
