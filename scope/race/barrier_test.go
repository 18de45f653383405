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
	"github.com/curfew-go/curfew/internal/stress"
	"github.com/curfew-go/curfew/scope"
	"github.com/curfew-go/curfew/scope/race"
)

// A tally counts what came of values that are numbered from zero.
type tally struct {
	made, returned, disposed []atomic.Int32
}

func newTally(n int) *tally {
	return &tally{make([]atomic.Int32, n), make([]atomic.Int32, n), make([]atomic.Int32, n)}
}

func (y *tally) dispose(v int) { y.disposed[v].Add(1) }

// check demands that each value that was made came to one end.
func (y *tally) check(t *testing.T) (made, returned, disposed int) {
	t.Helper()
	for v := range y.made {
		m, r, d := y.made[v].Load(), y.returned[v].Load(), y.disposed[v].Load()
		if m != r+d || m > 1 {
			t.Fatalf("value %d: made %d times, returned %d times, disposed of %d times", v, m, r, d)
		}
		made, returned, disposed = made+int(m), returned+int(r), disposed+int(d)
	}
	return made, returned, disposed
}

// Two attempts finish in the same instant: one wins, the other's value is disposed
// of once, both are joined by whoever owns them. It is 20,000 races in all, and
// a million with CURFEW_STRESS=50.
func TestHedgeCase33_TwoAttemptsThatFinishInTheSameInstantHaveOneWinner(t *testing.T) {
	kinds := []struct {
		name string
		race func(ctx context.Context, y *tally, f func(context.Context) (int, error)) (int, error)
	}{
		{"first", func(ctx context.Context, y *tally, f func(context.Context) (int, error)) (int, error) {
			return race.Config[int]{Dispose: y.dispose}.First(ctx, "q", f, f)
		}},
		{"hedge", func(ctx context.Context, y *tally, f func(context.Context) (int, error)) (int, error) {
			return race.Config[int]{Dispose: y.dispose, After: every(0)}.Hedge(ctx, "q", f)
		}},
		{"inline hedge", func(ctx context.Context, y *tally, f func(context.Context) (int, error)) (int, error) {
			return race.Config[int]{Dispose: y.dispose, After: every(0), Inline: true}.Hedge(ctx, "q", f)
		}},
	}
	for _, k := range kinds {
		for _, owned := range []bool{true, false} {
			name := k.name + " in a scope"
			if !owned {
				name = k.name + " without one"
			}
			t.Run(name, func(t *testing.T) {
				base := runtime.NumGoroutine()
				n := stress.Rounds(3334)
				y := newTally(2 * n)
				var wonBy [2]int
				var live atomic.Int64
				round := func(ctx context.Context, i int) {
					meet := startLine(2)
					v, err := k.race(ctx, y, func(ctx context.Context) (int, error) {
						live.Add(1)
						defer live.Add(-1)
						meet()
						v := 2*i + race.Attempt(ctx)
						y.made[v].Add(1)
						return v, nil
					})
					require.NoError(t, err)
					y.returned[v].Add(1)
					wonBy[v%2]++
				}
				alone := scope.WithTrace(context.Background(), &scope.Trace{
					Straggler: func(scope.Straggler) {}, // on a busy machine nobody obeys in time
				})
				for i := 0; i < n; {
					if !owned {
						ctx, cancel := context.WithTimeout(alone, time.Minute)
						round(ctx, i)
						require.Zero(t, live.Load(), "both ended before the call returned")
						cancel()
						i++
						continue
					}
					inScope(t, func(ctx context.Context, s *scope.Scope) {
						s.SetStragglers(-1, scope.Wait)
						for last := min(i+100, n); i < last; i++ {
							round(ctx, i)
						}
					})
					require.Zero(t, live.Load(), "all ended before Run returned")
				}
				made, returned, disposed := y.check(t)
				assert.Equal(t, []int{2 * n, n, n}, []int{made, returned, disposed})
				assert.Positive(t, wonBy[0])
				assert.Positive(t, wonBy[1])
				backToBase(t, base)
				t.Logf("%d races, won by the first %d, by the second %d", n, wonBy[0], wonBy[1])
			})
		}
	}
}

// The caller's context ends in the instant in which the attempts come back.
func TestCase25_AValueThatMeetsTheEndOfItsContextIsReturnedOrDisposed(t *testing.T) {
	base := runtime.NumGoroutine()
	n := stress.Rounds(2000)
	for _, need := range []int{1, 2} {
		y := newTally(2 * n)
		got, ended := 0, 0
		for i := range n {
			meet := startLine(3)
			_ = scope.Run(context.Background(), "request", budget.Within(time.Minute), func(ctx context.Context, s *scope.Scope) error {
				s.SetStragglers(-1, scope.Wait)
				s.Service().Go("canceller", func(context.Context) error { meet(); s.Cancel(nil); return nil })
				attempt := func(ctx context.Context) (int, error) {
					meet()
					v := 2*i + race.Attempt(ctx)
					y.made[v].Add(1)
					return v, nil
				}
				vs, err := race.Config[int]{Dispose: y.dispose}.Quorum(ctx, "q", need, attempt, attempt)
				if err != nil {
					ended++
					require.Equal(t, budget.Cancelled, budget.KindOf(err))
					require.Empty(t, vs)
					return nil
				}
				got++
				require.Len(t, vs, need)
				for _, v := range vs {
					y.returned[v].Add(1)
				}
				return nil
			})
		}
		made, returned, disposed := y.check(t)
		assert.Equal(t, 2*n, made)
		assert.Equal(t, need*got, returned)
		assert.Equal(t, made-returned, disposed)
		assert.Positive(t, got)
		assert.Positive(t, ended)
		t.Logf("need %d: %d values returned, %d races ended", need, got, ended)
	}
	backToBase(t, base)
}

// A permit is had as the time runs out: it is not lost.
func TestCase28_APermitThatIsHadAsTimeRunsOutComesBack(t *testing.T) {
	const permits = 4
	pool := make(chan int, permits)
	for i := range permits {
		pool <- i
	}
	n := stress.Rounds(1500)
	got := 0
	cfg := race.Config[int]{
		Limit:   budget.Within(50 * time.Microsecond),
		Dispose: func(p int) { pool <- p },
		After:   every(0),
	}
	acquire := func(ctx context.Context) (int, error) {
		for ctx.Err() == nil { // it may notice late that its context has ended
			runtime.Gosched()
		}
		select {
		case p := <-pool:
			return p, nil
		default:
			return 0, context.Cause(ctx)
		}
	}
	eager := func(ctx context.Context) (int, error) {
		select {
		case p := <-pool:
			return p, nil
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
	inScope(t, func(ctx context.Context, s *scope.Scope) {
		s.SetStragglers(-1, scope.Wait)
		for i := range n {
			f := acquire
			if i%2 == 0 {
				f = eager
			}
			p, err := cfg.Hedge(ctx, "permit", f)
			if err == nil {
				got++
				pool <- p
			} else {
				require.ErrorIs(t, err, context.DeadlineExceeded)
			}
		}
	})
	assert.Len(t, pool, permits)
	assert.Positive(t, got)
	assert.Less(t, got, n)
	t.Logf("%d of %d permits were returned in time", got, n)
}
