package race_test

import (
	"context"
	"errors"
	"io"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/stress"
	"github.com/curfew-go/curfew/scope"
	"github.com/curfew-go/curfew/scope/race"
)

// The cases of scopes that races are about.

func TestCase20_PoliciesComposeAsFunctions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inScope(t, func(ctx context.Context, s *scope.Scope) {
			began := time.Now()
			var causeOfB error
			bEnded := make(chan time.Duration, 1)
			both := func(ctx context.Context) ([]string, error) {
				return scope.All(ctx, "both",
					func(ctx context.Context) (string, error) { // B
						<-ctx.Done()
						causeOfB = context.Cause(ctx)
						bEnded <- time.Since(began)
						return "", causeOfB
					},
					failsAfter(10*time.Millisecond, errors.New("A failed")))
			}
			v, err := race.First(ctx, "q", both, after(50*time.Millisecond, []string{"C"}))
			require.NoError(t, err)
			assert.Equal(t, []string{"C"}, v)
			assert.Equal(t, 10*time.Millisecond, <-bEnded, "B is cancelled when A fails, not when C wins")
			assert.Equal(t, budget.SiblingFailed, budget.KindOf(causeOfB))
		})
	})
}

func TestCase45_TheWinnersReaderStaysReadableAfterTheRace(t *testing.T) {
	const size = 512 << 10
	for _, owned := range []bool{true, false} {
		var seen context.Context
		read := func(ctx context.Context) {
			loserBegan, loserEnded := make(chan struct{}), make(chan error, 1)
			r, err := race.First(ctx, "download",
				func(ctx context.Context) (*ctxReader, error) {
					<-loserBegan
					release := race.Keep(ctx)
					return &ctxReader{ctx: ctx, left: size, release: release}, nil
				},
				func(ctx context.Context) (*ctxReader, error) {
					close(loserBegan)
					<-ctx.Done()
					loserEnded <- context.Cause(ctx)
					return nil, context.Cause(ctx)
				})
			require.NoError(t, err)
			assert.Equal(t, budget.RaceLost, budget.KindOf(<-loserEnded))
			n, err := io.Copy(io.Discard, r)
			assert.NoError(t, err)
			assert.EqualValues(t, size, n)
			assert.NoError(t, r.ctx.Err())
			r.release()
			r.release() // does no harm
			assert.ErrorIs(t, r.ctx.Err(), context.Canceled)
			assert.ErrorIs(t, context.Cause(r.ctx), scope.ErrClosed)

			// Without a release it ends with what the race was called with.
			r, err = race.First(ctx, "download", func(ctx context.Context) (*ctxReader, error) {
				return &ctxReader{ctx: ctx, release: race.Keep(ctx)}, nil
			})
			require.NoError(t, err)
			seen = r.ctx
			assert.NoError(t, seen.Err())
		}
		if owned {
			inScope(t, func(ctx context.Context, _ *scope.Scope) { read(ctx) })
		} else {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			read(ctx)
			cancel()
			<-seen.Done() // the end of a std parent comes from another goroutine
		}
		assert.ErrorIs(t, seen.Err(), context.Canceled)
	}
}

// A ctxReader reads zeros until its context ends.
type ctxReader struct {
	ctx     context.Context
	left    int
	release func()
}

func (r *ctxReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	if r.left == 0 {
		return 0, io.EOF
	}
	n := min(len(p), r.left, 3965)
	r.left -= n
	return n, nil
}

func TestCase47_ARefusedHedgeDoesNotEndThoseThatRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inScope(t, func(ctx context.Context, s *scope.Scope) {
			began := time.Now()
			g := &countingGate{grants: 1}
			cfg := race.Config[string]{After: every(10 * time.Millisecond), Extra: 2, Gate: g}
			v, err := cfg.Hedge(ctx, "q", byAttempt(after(200*time.Millisecond, "first"), after(60*time.Millisecond, "second")))
			assert.NoError(t, err)
			assert.Equal(t, "second", v)
			assert.Equal(t, 70*time.Millisecond, time.Since(began))
			assert.EqualValues(t, 2, g.asked.Load())
			assert.EqualValues(t, 1, g.denied.Load())
		})
	})
}

func TestCase48_NoHedgeIsLaunchedAfterTheCallerCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inScope(t, func(ctx context.Context, s *scope.Scope) {
			began := time.Now()
			g := &countingGate{grants: 9}
			var calls atomic.Int64
			err := scope.Run(ctx, "inner", budget.Inherited(), func(ctx context.Context, s *scope.Scope) error {
				time.AfterFunc(20*time.Millisecond, func() { s.Cancel(errors.New("left")) })
				_, err := race.Config[string]{After: every(50 * time.Millisecond), Gate: g}.Hedge(ctx, "q", func(context.Context) (string, error) {
					calls.Add(1)
					time.Sleep(90 * time.Millisecond) // a deaf one: a hedge would be due
					return "late", nil
				})
				assert.Equal(t, 20*time.Millisecond, time.Since(began), "the call does not wait for a deaf attempt")
				assert.Same(t, context.Cause(ctx), causeOf(t, err))
				return err
			})
			assert.Equal(t, budget.Cancelled, budget.KindOf(err))
			assert.Equal(t, 90*time.Millisecond, time.Since(began))
			assert.EqualValues(t, 1, calls.Load())
			assert.Zero(t, g.asked.Load())
		})
	})
}

func causeOf(t *testing.T, err error) *budget.Cause {
	t.Helper()
	var e *race.Error
	require.ErrorAs(t, err, &e)
	return e.Cause
}

func TestCase49_ATerminalErrorStartsNothingNewAndIsReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inScope(t, func(ctx context.Context, s *scope.Scope) {
			began := time.Now()
			gone := errors.New("not found")
			cfg := race.Config[string]{
				After: every(50 * time.Millisecond), Extra: 2,
				Terminal: func(err error) bool { return err == gone },
			}
			_, err := cfg.Hedge(ctx, "q", failsAfter(10*time.Millisecond, gone))
			assert.ErrorIs(t, err, gone)
			assert.Equal(t, 10*time.Millisecond, time.Since(began))
			assert.Equal(t, 1, s.Stats().Started)

			_, err = cfg.Quorum(ctx, "q", 2, failsAfter(10*time.Millisecond, gone), after(20*time.Millisecond, "b"), after(20*time.Millisecond, "c"))
			assert.ErrorIs(t, err, gone)
			assert.Equal(t, 20*time.Millisecond, time.Since(began))
			assert.EqualError(t, err, `race: request/q: stopped by a terminal error: task "q/0": not found`)
		})
	})
}

func TestCase49_ASuccessBeyondTheQuorumIsDisposedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bin
		inScope(t, func(ctx context.Context, s *scope.Scope) {
			v, err := race.Config[int]{Dispose: b.put}.Quorum(ctx, "q", 2,
				after(30*time.Millisecond, 1), deaf(40*time.Millisecond, 2), after(20*time.Millisecond, 3))
			assert.NoError(t, err)
			assert.Equal(t, []int{3, 1}, v, "in the order in which they came")
			assert.Empty(t, b.contents())
		})
		assert.Equal(t, map[int]int{2: 1}, b.contents())
	})
}

func TestCase49_AQuorumThatCannotBeReachedCancelsTheRestAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var b bin
		inScope(t, func(ctx context.Context, s *scope.Scope) {
			var third error
			fails := func(d time.Duration) func(context.Context) (int, error) { return afterErr(d, 0, io.ErrUnexpectedEOF) }
			_, err := race.Config[int]{Dispose: b.put}.Quorum(ctx, "q", 3,
				fails(10*time.Millisecond), fails(20*time.Millisecond), after(5*time.Millisecond, 7),
				func(ctx context.Context) (int, error) {
					<-ctx.Done()
					third = context.Cause(ctx)
					return 0, third
				})
			assert.Equal(t, 20*time.Millisecond, time.Since(began))
			assert.EqualError(t, err, `race: request/q: 1 of 4 succeeded, 3 needed: task "q/0": unexpected EOF; task "q/1": unexpected EOF`)
			assert.Equal(t, map[int]int{7: 1}, b.contents(), "what it had is disposed of")
			assert.NoError(t, s.Wait())
			assert.Equal(t, 20*time.Millisecond, time.Since(began))
			assert.Equal(t, budget.RaceLost, budget.KindOf(third))
		})
	})
}

// The cases of hedges. That of a gate which refuses everything is 4.

func TestHedgeCase04_AnEmptyBudgetNeitherFailsNorHangsTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inScope(t, func(ctx context.Context, s *scope.Scope) {
			for _, inline := range []bool{false, true} {
				began := time.Now()
				g := &countingGate{}
				cfg := race.Config[string]{After: every(50 * time.Millisecond), Gate: g, Inline: inline}
				v, err := cfg.Hedge(ctx, "q", after(200*time.Millisecond, "primary"))
				assert.NoError(t, err)
				assert.Equal(t, "primary", v)
				assert.Equal(t, 200*time.Millisecond, time.Since(began))
				assert.EqualValues(t, 1, g.denied.Load())

				began = time.Now()
				cfg.Extra = 3
				_, err = cfg.Hedge(ctx, "q", failsAfter(10*time.Millisecond, io.ErrUnexpectedEOF))
				assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
				assert.Equal(t, 10*time.Millisecond, time.Since(began), "its error at once, not the deadline")
				assert.EqualValues(t, 2, g.denied.Load())
			}
			assert.Equal(t, 4, s.Stats().Started, "no hedges")
		})
	})
}

func TestHedgeCase31_LosersThatFinishLateLeaveNoGoroutineParked(t *testing.T) {
	base := runtime.NumGoroutine()
	n := stress.Rounds(2000)
	var late bin
	inScope(t, func(ctx context.Context, s *scope.Scope) {
		s.SetStragglers(-1, scope.Wait) // on a busy machine nobody obeys in time
		for i := range n {
			won := make(chan struct{})
			v, err := race.Config[int]{After: every(0), Dispose: func(v int) { late.put(v) }}.Hedge(ctx, "q", func(ctx context.Context) (int, error) {
				if race.Attempt(ctx) == 0 {
					<-won // the caller has its answer, and nobody listens any more
				}
				return i, nil
			})
			if err != nil || v != i {
				t.Fatal(v, err)
			}
			close(won)
		}
		assert.NoError(t, s.Wait())
		assert.Equal(t, 2*n, s.Stats().Started)
		assert.Zero(t, s.Stats().Live)
	})
	backToBase(t, base)
	assert.Len(t, late.contents(), n)
}

func TestHedgeCase34_AnErrorOfAHedgeDoesNotBeatAHealthyPrimary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inScope(t, func(ctx context.Context, s *scope.Scope) {
			for _, inline := range []bool{false, true} {
				began := time.Now()
				v, err := race.Config[string]{After: every(5 * time.Millisecond), Inline: inline}.Hedge(ctx, "q",
					byAttempt(after(60*time.Millisecond, "primary"), failsAfter(5*time.Millisecond, io.ErrUnexpectedEOF)))
				assert.NoError(t, err)
				assert.Equal(t, "primary", v)
				assert.Equal(t, 60*time.Millisecond, time.Since(began))
			}
		})
	})
}

func TestHedgeCase35_AHedgeIsMarkedAndCanBeRefusedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inScope(t, func(ctx context.Context, s *scope.Scope) {
			busy := errors.New("limiter: no hedges now")
			var refused atomic.Int64
			call := func(ctx context.Context) (string, error) { // a client, some scopes further in
				return scope.RunValue(ctx, "client", budget.Inherited(), func(ctx context.Context, s *scope.Scope) (string, error) {
					if race.Attempt(ctx) > 0 {
						refused.Add(1)
						return "", busy
					}
					return after(80*time.Millisecond, "primary")(ctx)
				})
			}
			v, err := race.Hedge(ctx, "q", 10*time.Millisecond, call)
			assert.NoError(t, err)
			assert.Equal(t, "primary", v)
			assert.EqualValues(t, 1, refused.Load())
			assert.Equal(t, -1, race.Attempt(ctx))
		})
	})
}
