package race_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/ctxnode"
	"github.com/curfew-go/curfew/internal/stress"
	"github.com/curfew-go/curfew/scope"
	"github.com/curfew-go/curfew/scope/race"
)

// A first attempt that has won before anybody else was at work for its race goes the
// short way. Here it wins around the instant in which the hedge is due.
func TestAnAttemptThatWinsAsItsHedgeIsDueLeavesNothingBehind(t *testing.T) {
	for name, inline := range map[string]bool{"own goroutine": false, "inline": true} {
		t.Run(name, func(t *testing.T) {
			n := stress.Rounds(3000)
			y := newTally(2 * n)
			var hedged atomic.Int64
			inScope(t, func(ctx context.Context, s *scope.Scope) {
				s.SetStragglers(-1, scope.Wait)
				for i := range n {
					delay, launched := time.Duration(i%40)*time.Microsecond, make(chan struct{})
					if i%10 == 1 {
						delay = time.Hour
					}
					cfg := race.Config[int]{Inline: inline, Dispose: y.dispose, After: every(delay)}
					v, err := cfg.Hedge(ctx, "q", func(ctx context.Context) (int, error) {
						number := race.Attempt(ctx)
						switch {
						case number == 1:
							hedged.Add(1)
							close(launched)
						case i%10 == 0:
							<-launched
						default:
							for range i % 7 * 5 {
								runtime.Gosched()
							}
						}
						v := 2*i + number
						y.made[v].Add(1)
						return v, nil
					})
					require.NoError(t, err)
					y.returned[v].Add(1)
				}
				require.NoError(t, s.Wait())
				assert.Empty(t, ctxnode.Find(ctx).Node().Children())
				assert.Zero(t, s.Stats().Live)
			})
			_, returned, _ := y.check(t)
			assert.Equal(t, n, returned)
			assert.Positive(t, hedged.Load())
			assert.Less(t, int(hedged.Load()), n)
			t.Logf("%d of %d were hedged", hedged.Load(), n)
		})
	}
}

// The race is told of it last, when the scope has let go of the attempt: the scope may
// be over by then.
func TestAScopeMayEndAsSoonAsItsOnlyAttemptHasWon(t *testing.T) {
	base := runtime.NumGoroutine()
	for i := range stress.Rounds(3000) {
		var seen context.Context
		var inside *scope.Scope
		cfg := race.Config[int]{Inline: i%2 == 0, After: every(time.Hour)}
		err := scope.Run(context.Background(), "request", budget.Within(time.Minute), func(ctx context.Context, s *scope.Scope) error {
			inside = s
			if i%3 == 0 { // nobody waits for the winner but the scope
				s.Go("caller", func(ctx context.Context) error {
					_, err := cfg.Hedge(ctx, "q", func(ctx context.Context) (int, error) { seen = ctx; return 1, nil })
					return err
				})
				return nil
			}
			_, err := cfg.Hedge(ctx, "q", func(ctx context.Context) (int, error) { seen = ctx; return 1, nil })
			return err
		})
		require.NoError(t, err)
		require.Zero(t, inside.Stats().Live)
		require.Equal(t, 0, race.Attempt(seen), "also when it is over")
		require.ErrorIs(t, context.Cause(seen), scope.ErrClosed)
	}
	backToBase(t, base)
}

// What is made for the others when the first attempt has failed is bounded as that was,
// whether by the race's own limit or by its parent's deadline.
func TestTheHedgeOfAFailedAttemptHasItsDeadline(t *testing.T) {
	for name, limit := range map[string]budget.Limit{"own": budget.Within(time.Second), "inherited": budget.Inherited()} {
		for _, inline := range []bool{false, true} {
			inScope(t, func(ctx context.Context, s *scope.Scope) {
				var deadlines []time.Time
				_, err := race.Config[int]{Inline: inline, Limit: limit, After: every(time.Hour)}.Hedge(ctx, "q", func(ctx context.Context) (int, error) {
					d, _ := ctx.Deadline()
					deadlines = append(deadlines, d)
					if race.Attempt(ctx) == 0 {
						return 0, assert.AnError
					}
					return 1, nil
				})
				require.NoError(t, err)
				require.Len(t, deadlines, 2)
				assert.True(t, deadlines[0].Equal(deadlines[1]), name)
				outer, _ := ctx.Deadline()
				assert.Equal(t, name == "own", deadlines[1].Before(outer))
			})
		}
	}
}

// The first attempt fails in the instant in which its hedge is due: both need a group,
// and whoever comes second finds the other's attempt in the race.
func TestAnAttemptThatFailsAsItsHedgeIsDueMakesTheGroupOnce(t *testing.T) {
	for name, inline := range map[string]bool{"own goroutine": false, "inline": true} {
		t.Run(name, func(t *testing.T) {
			inScope(t, func(ctx context.Context, s *scope.Scope) {
				s.SetStragglers(-1, scope.Wait)
				for i := range stress.Rounds(2000) {
					delay := time.Duration(i%60) * time.Microsecond
					began := time.Now()
					v, err := race.Config[int]{Inline: inline, After: every(delay)}.Hedge(ctx, "q", func(ctx context.Context) (int, error) {
						if race.Attempt(ctx) > 0 {
							return 1, nil
						}
						for time.Since(began) < delay {
							if i%2 == 0 {
								runtime.Gosched()
							}
						}
						return 0, assert.AnError
					})
					require.NoError(t, err)
					require.Equal(t, 1, v)
				}
				require.NoError(t, s.Wait())
				assert.Empty(t, ctxnode.Find(ctx).Node().Children())
			})
		})
	}
}
