package race_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
	"github.com/curfew-go/curfew/scope/race"
)

// The primary is deaf for 500 ms and the hedge answers at 30 ms.
func TestAHedgeOverADeafPrimaryReturnsWhenItHasAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type end struct {
			err     error
			overrun time.Duration
		}
		ended := map[string]end{}
		var mu sync.Mutex
		ctx := scope.WithTrace(context.Background(), &scope.Trace{
			TaskEnded: func(_, task string, err error, overrun time.Duration) {
				mu.Lock()
				defer mu.Unlock()
				ended[task] = end{err, overrun}
			},
			Straggler: func(g scope.Straggler) { assert.Equal(t, "user", g.Task) },
		})
		began := time.Now()
		var request *scope.Scope
		var late bin
		err := scope.Run(ctx, "request", budget.Within(time.Minute), func(ctx context.Context, s *scope.Scope) error {
			request = s
			v, err := race.Config[int]{After: every(10 * time.Millisecond), Dispose: late.put}.Hedge(ctx, "user",
				byAttempt(deaf(500*time.Millisecond, 1), after(20*time.Millisecond, 2)))
			assert.NoError(t, err)
			assert.Equal(t, 2, v)
			assert.Equal(t, 30*time.Millisecond, time.Since(began))
			return nil
		})
		assert.NoError(t, err)
		assert.Equal(t, 500*time.Millisecond, time.Since(began), "Run waits for the loser")
		assert.Equal(t, 470*time.Millisecond, request.Stats().Overrun)
		assert.Equal(t, map[string]end{"user": {nil, 470 * time.Millisecond}, "user/hedge-1": {}}, ended)
		assert.Equal(t, map[int]int{1: 1}, late.contents())
		assert.Equal(t, 1, request.Stats().Stragglers)
	})
}

func TestHedgesAreLaunchedOneDelayAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, inline := range []bool{false, true} {
			inScope(t, func(ctx context.Context, s *scope.Scope) {
				began := time.Now()
				delays := []time.Duration{10, 20, 40}
				var asked, launched []time.Duration
				var mu sync.Mutex // attempts may begin at the same instant as others go on
				cfg := race.Config[int]{Extra: 3, Inline: inline, After: func() time.Duration {
					asked = append(asked, time.Since(began)/time.Millisecond)
					d := delays[0]
					delays = delays[1:]
					return d * time.Millisecond
				}}
				v, err := cfg.Hedge(ctx, "q", func(ctx context.Context) (int, error) {
					mu.Lock()
					launched = append(launched, time.Since(began)/time.Millisecond)
					mu.Unlock()
					return after(100*time.Millisecond, race.Attempt(ctx))(ctx)
				})
				assert.NoError(t, err)
				assert.Equal(t, 0, v)
				mu.Lock()
				defer mu.Unlock()
				assert.Equal(t, []time.Duration{0, 10, 30}, asked)
				assert.Equal(t, []time.Duration{0, 10, 30, 70}, launched)
				assert.Equal(t, 100*time.Millisecond, time.Since(began))
			})
		}
	})
}

func TestAFailureReleasesTheNextAttemptAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, inline := range []bool{false, true} {
			inScope(t, func(ctx context.Context, s *scope.Scope) {
				began := time.Now()
				g := &countingGate{grants: 9}
				// The primary fails at 10 ms and the hedge which that releases at
				// 15 ms; the delay counts from there, and is not over when the last
				// hedge answers.
				v, err := race.Config[string]{After: every(50 * time.Millisecond), Extra: 3, Gate: g, Inline: inline}.Hedge(ctx, "q", byAttempt(
					failsAfter(10*time.Millisecond, io.ErrUnexpectedEOF),
					failsAfter(5*time.Millisecond, io.ErrUnexpectedEOF),
					after(20*time.Millisecond, "third")))
				assert.NoError(t, err)
				assert.Equal(t, "third", v)
				assert.Equal(t, 35*time.Millisecond, time.Since(began))
				assert.EqualValues(t, 2, g.asked.Load())

				// A hedge that fails while the primary runs on releases one, too.
				began = time.Now()
				v, err = race.Config[string]{After: every(50 * time.Millisecond), Extra: 2, Inline: inline}.Hedge(ctx, "q", byAttempt(
					after(time.Second, "primary"),
					failsAfter(5*time.Millisecond, io.ErrUnexpectedEOF),
					after(20*time.Millisecond, "third")))
				assert.NoError(t, err)
				assert.Equal(t, "third", v)
				assert.Equal(t, 75*time.Millisecond, time.Since(began))
			})
		}
	})
}

func TestWhenAllHaveFailedTheErrorHoldsEachOfThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inScope(t, func(ctx context.Context, s *scope.Scope) {
			first, second := errors.New("first"), errors.New("second")
			_, err := race.Hedge(ctx, "q", time.Millisecond, byAttempt(
				failsAfter(20*time.Millisecond, second), failsAfter(5*time.Millisecond, first)))
			assert.ErrorIs(t, err, first)
			assert.ErrorIs(t, err, second)
			assert.EqualError(t, err, `race: request/q: all 2 attempts failed: task "q/hedge-1": first; task "q": second`)
			assert.Equal(t, budget.Failed, budget.KindOf(err))
			assert.Same(t, causeOf(t, err), firstCause(err))
		})
	})
}

func firstCause(err error) (c *budget.Cause) {
	errors.As(err, &c)
	return c
}

func TestAHedgeThatDoesNotFitTheTimeLeftIsNotAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, inline := range []bool{false, true} {
			g := &countingGate{grants: 9}
			cfg := race.Config[string]{Limit: budget.Within(30 * time.Millisecond), After: every(30 * time.Millisecond), Gate: g, Inline: inline}
			v, err := cfg.Hedge(context.Background(), "q", after(20*time.Millisecond, "primary"))
			assert.NoError(t, err)
			assert.Equal(t, "primary", v)
			began := time.Now()
			_, err = cfg.Hedge(context.Background(), "q", after(40*time.Millisecond, "late"))
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			assert.Equal(t, 30*time.Millisecond, time.Since(began))
			assert.Zero(t, g.asked.Load())
			// It may still replace one that fails in time.
			v, err = cfg.Hedge(context.Background(), "q", byAttempt(failsAfter(10*time.Millisecond, io.EOF), after(5*time.Millisecond, "second")))
			assert.NoError(t, err)
			assert.Equal(t, "second", v)
			assert.EqualValues(t, 1, g.asked.Load())
		}
	})
}

func TestANegativeDelayIsNoHedge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, inline := range []bool{false, true} {
			began := time.Now()
			g := &countingGate{grants: 9}
			cfg := race.Config[string]{Limit: budget.Within(time.Second), After: every(-1), Extra: 3, Gate: g, Inline: inline}
			v, err := cfg.Hedge(context.Background(), "q", after(200*time.Millisecond, "primary"))
			assert.NoError(t, err)
			assert.Equal(t, "primary", v)
			_, err = cfg.Hedge(context.Background(), "q", failsAfter(20*time.Millisecond, io.EOF))
			assert.EqualError(t, err, `race: q: its only attempt failed: task "q": EOF`)
			assert.Equal(t, 220*time.Millisecond, time.Since(began))
			assert.Zero(t, g.asked.Load())
		}
	})
}

func TestALimitBoundsAllAttemptsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inScope(t, func(ctx context.Context, s *scope.Scope) {
			began := time.Now()
			var ends []time.Duration
			var mu sync.Mutex
			_, err := race.Config[string]{Limit: budget.Within(100 * time.Millisecond).Named("read"), After: every(60 * time.Millisecond)}.Hedge(ctx, "q", func(ctx context.Context) (string, error) {
				<-ctx.Done()
				mu.Lock()
				defer mu.Unlock()
				ends = append(ends, time.Since(began))
				assert.Equal(t, "read 100ms < within 1m0s", context.Cause(ctx).(*budget.Cause).Limit)
				return "", ctx.Err()
			})
			assert.EqualError(t, err, "race: request/q: deadline exceeded: scope request/q, limit read 100ms < within 1m0s")
			assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err))
			assert.NoError(t, s.Wait())
			assert.Equal(t, []time.Duration{100 * time.Millisecond, 100 * time.Millisecond}, ends)
			assert.NoError(t, ctx.Err())
		})
	})
}

// What failed before the time ran out is not lost.
func TestTheErrorOfARaceThatRanOutOfTimeHoldsTheFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, err := race.Config[string]{Limit: budget.Within(100 * time.Millisecond)}.First(context.Background(), "q",
			failsAfter(10*time.Millisecond, io.ErrUnexpectedEOF), stuck)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
		assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err))
		assert.EqualError(t, err, `race: q: deadline exceeded: scope q, limit within 100ms, after failures: task "q/0": unexpected EOF`)
	})
}

// A step: the backend answers four times as slowly from one instant on, and every
// call would be hedged.
func TestHedgeCase30_HedgesStayWithinTheirBudgetWhenTheBackendSlowsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const perSecond, calls = 10, 600
		g := &windowGate{perSecond: perSecond}
		var hedges [calls/100 + 2]atomic.Int64
		began := time.Now()
		inScope(t, func(ctx context.Context, s *scope.Scope) {
			for i := range calls {
				latency := 20 * time.Millisecond
				if i >= calls/3 {
					latency *= 4
				}
				s.Go("caller", func(ctx context.Context) error {
					_, err := race.Config[int]{After: every(40 * time.Millisecond), Gate: g}.Hedge(ctx, "q", func(ctx context.Context) (int, error) {
						if race.Attempt(ctx) > 0 {
							hedges[time.Since(began)/time.Second].Add(1)
						}
						return after(latency, i)(ctx)
					})
					return err
				})
				time.Sleep(10 * time.Millisecond) // 100 calls a second
			}
		})
		total := 0
		for second := range hedges {
			n := int(hedges[second].Load())
			assert.LessOrEqual(t, n, perSecond, "in second %d", second)
			total += n
		}
		assert.GreaterOrEqual(t, total, 3*perSecond, "hedging goes on within the budget")
		assert.Greater(t, g.denied.Load(), int64(200), "most were refused")
	})
}

// A windowGate grants so many in each second of the clock.
type windowGate struct {
	perSecond int
	mu        sync.Mutex
	second    int64
	taken     int
	denied    atomic.Int64
}

func (g *windowGate) TryTake() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now := time.Now().Unix(); now != g.second {
		g.second, g.taken = now, 0
	}
	if g.taken == g.perSecond {
		g.denied.Add(1)
		return false
	}
	g.taken++
	return true
}
