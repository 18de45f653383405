package scope_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/stress"
	"github.com/curfew-go/curfew/scope"
)

// watched is a context whose scopes keep their reports in the returned function.
func watched(ctx context.Context) (context.Context, func() []scope.Straggler) {
	var mu sync.Mutex
	var seen []scope.Straggler
	ctx = scope.WithTrace(ctx, &scope.Trace{Straggler: func(g scope.Straggler) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, g)
	}})
	return ctx, func() []scope.Straggler {
		mu.Lock()
		defer mu.Unlock()
		return seen
	}
}

// deafFor ignores its context.
func deafFor(d time.Duration) func(context.Context) error {
	return func(context.Context) error {
		blockingLine(d)
		return nil
	}
}

// deafTask is deaf for ten seconds, at a line that is known.
//
//go:noinline
func deafTask(context.Context) error {
	_, _, line, _ := runtime.Caller(0)
	deafTaskLine = line - 1

	time.Sleep(10 * time.Second)
	return nil
}

var deafTaskLine int

//go:noinline
func blockingLine(d time.Duration) { time.Sleep(d) }

func TestCase21_AStragglerIsReportedAGraceAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		ctx, seen := watched(t.Context())
		require.NoError(t, scope.Run(ctx, "shop", budget.Within(50*time.Millisecond), func(_ context.Context, s *scope.Scope) error {
			s.Go("deaf", deafTask)
			s.Go("obeys", func(ctx context.Context) error { <-ctx.Done(); return nil })
			time.Sleep(149 * time.Millisecond)
			assert.Empty(t, seen())
			time.Sleep(2 * time.Millisecond)
			require.Len(t, seen(), 2, "the body is one, too")
			assert.Equal(t, 1, s.Stats().Live)
			return nil
		}))
		assert.Equal(t, 10*time.Second, time.Since(start), "by default Run waits")
		g := seen()[0]
		assert.Equal(t, "shop", g.Scope)
		assert.Equal(t, "deaf", g.Task)
		assert.Regexp(t, `scope_test\.deafTask \S+/straggler_test\.go:`+strconv.Itoa(deafTaskLine)+`$`, g.Function)
		assert.Equal(t, 100*time.Millisecond, g.Overdue)
		assert.Contains(t, g.Stack, fmt.Sprintf("straggler_test.go:%d ", deafTaskLine+4), "the line that blocks")
		assert.Contains(t, g.String(), "task shop/deaf")
		assert.Empty(t, seen()[1].Task)
		assert.Contains(t, seen()[1].String(), "body of scope shop")
		assert.Len(t, seen(), 2, "each is reported once")
	})
}

func TestCase21_AnAbandonedTaskIsCountedUntilItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var ended []string
		ctx, _ := watched(t.Context())
		ctx = scope.WithTrace(ctx, &scope.Trace{OrphanEnded: func(_, task string, err error, overrun time.Duration) {
			ended = append(ended, fmt.Sprint(task, " ", err, " ", overrun))
		}})
		var s1 *scope.Scope
		var value *scope.Task[string]
		err := scope.Run(ctx, "shop", budget.Within(50*time.Millisecond), func(_ context.Context, s *scope.Scope) error {
			s1 = s
			s.SetStragglers(100*time.Millisecond, scope.Abandon)
			value = scope.Fork(s, "deaf", func(ctx context.Context) (string, error) {
				blockingLine(10 * time.Second)
				return "too late", nil
			})
			return nil
		})
		assert.Equal(t, 150*time.Millisecond, time.Since(start))
		assert.ErrorIs(t, err, scope.ErrAbandoned)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err))
		assert.Equal(t, "fallback", value.Or("fallback"))
		assert.Equal(t, scope.Stats{Started: 1, Orphans: 1, Stragglers: 1}, s1.Stats())
		time.Sleep(10 * time.Second)
		synctest.Wait()
		assert.Equal(t, scope.Stats{Started: 1, Stragglers: 1, Overrun: 9950 * time.Millisecond}, s1.Stats())
		assert.Equal(t, []string{"deaf <nil> 9.95s"}, ended)
		assert.Equal(t, "fallback", value.Or("fallback"), "and its value stays lost")
	})
}

func TestATaskWithALimitOfItsOwnIsAStragglerOfItsOwn(t *testing.T) {
	boom := errors.New("boom")
	for name, c := range map[string]struct {
		then  scope.Then
		after time.Duration
	}{
		"wait":    {scope.Wait, 10 * time.Second},
		"abandon": {scope.Abandon, 1100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				ctx, seen := watched(t.Context())
				err := scope.Run(ctx, "shop", budget.Within(time.Hour), func(_ context.Context, s *scope.Scope) error {
					s.SetStragglers(100*time.Millisecond, c.then)
					s.Limit(budget.Within(time.Second).Named("short")).Go("deaf", func(context.Context) error {
						blockingLine(10 * time.Second)
						return boom
					})
					s.Go("healthy", func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) })
					return nil
				})
				require.Len(t, seen(), 1)
				assert.Equal(t, "deaf", seen()[0].Task)
				assert.Equal(t, 100*time.Millisecond, seen()[0].Overdue)
				assert.Equal(t, c.after, time.Since(start))
				if c.then == scope.Abandon {
					assert.ErrorIs(t, err, scope.ErrAbandoned)
					assert.ErrorIs(t, err, context.DeadlineExceeded)
					assert.ErrorContains(t, err, "short", "the limit it ran into")
					time.Sleep(10 * time.Second) // the orphan must not outlive the bubble
				} else {
					assert.ErrorIs(t, err, boom)
				}
			})
		})
	}
}

// TestOnlyTheInnermostStragglerIsReported: those around it only wait for it.
func TestOnlyTheInnermostStragglerIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, seen := watched(t.Context())
		require.NoError(t, scope.Run(ctx, "a", budget.Within(time.Second), func(ctx context.Context, s *scope.Scope) error {
			s.Go("outer", func(ctx context.Context) error {
				return scope.Run(ctx, "b", budget.Inherited(), func(ctx context.Context, s *scope.Scope) error {
					s.Go("middle", func(ctx context.Context) error {
						return scope.Run(ctx, "c", budget.Within(time.Minute), func(_ context.Context, s *scope.Scope) error {
							s.Go("deaf", deafFor(time.Hour))
							return s.Wait()
						})
					})
					return nil
				})
			})
			return nil
		}))
		require.Len(t, seen(), 1)
		assert.Equal(t, "a/outer/b/middle/c", seen()[0].Scope)
		assert.Equal(t, "deaf", seen()[0].Task)
	})
}

func TestBoundedBlocksAreNoStragglers(t *testing.T) {
	for name, block := range map[string]func(ctx context.Context, s *scope.Scope){
		"Detached": func(ctx context.Context, _ *scope.Scope) {
			ctx, cancel := budget.Detached(ctx, time.Minute)
			defer cancel()
			time.Sleep(10 * time.Second)
			assert.NoError(t, ctx.Err())
		},
		"a cleanup": func(ctx context.Context, _ *scope.Scope) {
			scope.Run(context.WithoutCancel(ctx), "inner", budget.Within(time.Hour), func(_ context.Context, s *scope.Scope) error {
				s.Cleanup("slow", func(context.Context) error { time.Sleep(900 * time.Millisecond); return nil })
				return nil
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, seen := watched(t.Context())
				scope.Run(ctx, "shop", budget.Within(time.Second), func(_ context.Context, s *scope.Scope) error {
					s.Go("shielded", func(ctx context.Context) error {
						<-ctx.Done()
						block(ctx, s)
						return nil
					})
					return nil
				})
				assert.Empty(t, seen())
			})
		})
	}
}

func TestSettingsForStragglers(t *testing.T) {
	t.Run("a negative grace reports nobody", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, seen := watched(t.Context())
			scope.Run(ctx, "shop", budget.Within(time.Second), func(_ context.Context, s *scope.Scope) error {
				s.SetStragglers(-1, scope.Wait)
				s.Go("deaf", deafFor(time.Hour))
				return nil
			})
			assert.Empty(t, seen())
		})
	})
	t.Run("an inner scope keeps its own", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, seen := watched(t.Context())
			start := time.Now()
			scope.Run(ctx, "shop", budget.Within(time.Second), func(ctx context.Context, s *scope.Scope) error {
				return scope.Run(ctx, "inner", budget.Inherited(), func(_ context.Context, s *scope.Scope) error {
					s.SetStragglers(5*time.Second, scope.Abandon)
					s.Go("deaf", deafFor(time.Minute))
					return nil
				})
			})
			assert.Equal(t, 6*time.Second, time.Since(start))
			time.Sleep(time.Minute)
			require.Len(t, seen(), 1, "%v", seen())
			assert.Equal(t, "deaf", seen()[0].Task)
		})
	})
	t.Run("nonsense is refused", func(t *testing.T) {
		scope.Run(t.Context(), "shop", budget.Within(time.Hour), func(_ context.Context, s *scope.Scope) error {
			assert.Contains(t, recovered(func() { s.SetStragglers(0, 17) }), "unknown Then 17")
			return nil
		})
	})
}

// TestAbandonedInTheInstantOfItsEnd: the task ends as it is abandoned; it is the
// one or the other, and counted right.
func TestAbandonedInTheInstantOfItsEnd(t *testing.T) {
	var finished, abandoned int
	for range stress.Rounds(500) {
		synctest.Test(t, func(t *testing.T) {
			var s1 *scope.Scope
			err := scope.Run(t.Context(), "shop", budget.Within(time.Second), func(_ context.Context, s *scope.Scope) error {
				s1 = s
				s.SetStragglers(time.Second, scope.Abandon)
				s.Go("deaf", deafFor(2*time.Second))
				return nil
			})
			synctest.Wait()
			st := s1.Stats()
			assert.Zero(t, st.Orphans)
			assert.Zero(t, st.Live)
			switch {
			case err == nil:
				finished++
			case errors.Is(err, scope.ErrAbandoned):
				abandoned++
			default:
				t.Error(err)
			}
		})
	}
	t.Logf("%d finished, %d abandoned", finished, abandoned)
	assert.NotZero(t, finished)
	assert.NotZero(t, abandoned)
}

// TestTenThousandStragglersCostOneProfile: in real time, since a bubble profiles
// anew for every report.
func TestTenThousandStragglersCostOneProfile(t *testing.T) {
	const n, scopes = 10_000, 10
	before := scope.ProfilesTaken()
	ctx, seen := watched(t.Context())
	release := make(chan struct{})
	var reported sync.WaitGroup
	var withStack atomic.Int64
	reported.Add(n)
	ctx = scope.WithTrace(ctx, &scope.Trace{Straggler: func(g scope.Straggler) {
		if strings.Contains(g.Stack, "scope_test.waitDeaf") {
			withStack.Add(1)
		}
		reported.Done()
	}})
	var all, begun sync.WaitGroup
	begun.Add(n)
	for i := range scopes {
		all.Go(func() {
			scope.Run(ctx, fmt.Sprint("shop-", i), budget.Within(time.Hour), func(_ context.Context, s *scope.Scope) error {
				for range n / scopes {
					s.Go("deaf", func(context.Context) error { begun.Done(); waitDeaf(release); return nil })
				}
				begun.Wait()
				s.Cancel(nil)
				return s.Wait()
			})
		})
	}
	reported.Wait()
	close(release)
	all.Wait()
	assert.EqualValues(t, before+1, scope.ProfilesTaken())
	assert.EqualValues(t, n, withStack.Load(), "and each has its stack")
	assert.Len(t, seen(), n)
}

//go:noinline
func waitDeaf(release <-chan struct{}) { <-release }

func TestACrashOnStragglersNamesThem(t *testing.T) {
	code, out, _ := runChild(t, "crash on stragglers")
	assert.Equal(t, 2, code)
	_, crash, ok := strings.Cut(out, "panic: ")
	require.True(t, ok, out)
	assert.Contains(t, crash, "task shop/deaf")
	assert.Contains(t, crash, "scope_test.blockingLine")
}

func TestAPanicOfAnOrphanEndsTheProcess(t *testing.T) {
	code, out, _ := runChild(t, "orphan panics")
	assert.Equal(t, 2, code, out)
	assert.Contains(t, out, "ERROR scope: task panicked")
	assert.Contains(t, out, "panic: ouch")
}

// TestOneStragglerOnAGoroutineIsReportedOnce: the task that runs an item of a Map on
// its own goroutine waits for it, as it would for one elsewhere.
func TestOneStragglerOnAGoroutineIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, seen := watched(t.Context())
		scope.Run(ctx, "shop", budget.Within(50*time.Millisecond), func(_ context.Context, s *scope.Scope) error {
			s.Go("task", func(ctx context.Context) error {
				return scope.Each(ctx, "each", 1, []int{1}, func(ctx context.Context, _ int) error { return deafFor(time.Second)(ctx) })
			})
			return nil
		})
		require.Len(t, seen(), 1)
		assert.Equal(t, "shop/task/each", seen()[0].Scope)
		assert.Equal(t, "0", seen()[0].Task)
		assert.Contains(t, seen()[0].Stack, "blockingLine")
	})
}
