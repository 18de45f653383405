package race_test

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
	"github.com/curfew-go/curfew/scope/race"
)

// Where a race may be run, and who waits for its losers. In each place the winner
// answers after 10 ms and the loser is deaf until 50 ms.
func TestTheLosersAreWaitedForByTheInnermostScopeOrElseByTheCall(t *testing.T) {
	const fast, slow = 10 * time.Millisecond, 50 * time.Millisecond
	type probe = func(context.Context)
	places := []struct {
		name    string
		returns time.Duration // when the race does
		run     func(ctx context.Context, s *scope.Scope, race probe)
	}{
		{"the body of a scope", fast, func(ctx context.Context, s *scope.Scope, race probe) { race(ctx) }},
		{"a task", fast, func(_ context.Context, s *scope.Scope, race probe) {
			s.Go("task", func(ctx context.Context) error { race(ctx); return nil })
			_ = s.Wait()
		}},
		{"a task with a limit of its own", fast, func(_ context.Context, s *scope.Scope, race probe) {
			s.Limit(budget.Within(time.Second)).Go("task", func(ctx context.Context) error { race(ctx); return nil })
			_ = s.Wait()
		}},
		{"under a value", fast, func(ctx context.Context, s *scope.Scope, race probe) {
			race(context.WithValue(ctx, aKey{}, 1))
		}},
		{"an attempt of another race", fast, func(ctx context.Context, s *scope.Scope, probe probe) {
			_, _ = race.First(ctx, "outer", func(ctx context.Context) (int, error) { probe(ctx); return 0, nil })
			_ = s.Wait()
		}},
		{"a service", slow, func(_ context.Context, s *scope.Scope, race probe) {
			done := make(chan struct{})
			s.Service().Go("service", func(ctx context.Context) error { race(ctx); close(done); return nil })
			<-done
		}},
		{"a cleanup", slow, func(ctx context.Context, s *scope.Scope, race probe) {
			s.Cleanup("cleanup", func(ctx context.Context) error { race(ctx); return nil })
		}},
		{"a context of the standard library with an end of its own", slow, func(ctx context.Context, s *scope.Scope, race probe) {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			race(ctx)
		}},
		{"a budget entered in the scope", fast, func(ctx context.Context, s *scope.Scope, race probe) {
			ctx, cancel, _ := budget.Enter(ctx, budget.Within(time.Second))
			defer cancel()
			race(ctx)
		}},
		{"a detached block", slow, func(ctx context.Context, s *scope.Scope, race probe) {
			ctx, cancel := budget.Detached(ctx, time.Second)
			defer cancel()
			race(ctx)
		}},
		{"the work of a Root", slow, func(ctx context.Context, s *scope.Scope, race probe) {
			root := scope.NewRoot("root")
			assert.NoError(t, root.Go(ctx, "job", budget.Within(time.Second), func(ctx context.Context) error { race(ctx); return nil }))
			assert.NoError(t, root.Drain(ctx))
		}},
		{"a context without a scope", slow, func(_ context.Context, s *scope.Scope, race probe) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			race(ctx)
		}},
	}
	for _, place := range places {
		t.Run(place.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var raced, loserEnded time.Duration
				var lost error
				var late bin
				began := time.Now()
				inScope(t, func(ctx context.Context, s *scope.Scope) {
					place.run(ctx, s, func(ctx context.Context) {
						v, err := race.Config[int]{Dispose: late.put}.First(ctx, "q", after(fast, 1), func(ctx context.Context) (int, error) {
							time.Sleep(slow)
							loserEnded, lost = time.Since(began), context.Cause(ctx)
							return 2, nil
						})
						assert.NoError(t, err)
						assert.Equal(t, 1, v)
						raced = time.Since(began)
					})
				})
				assert.Equal(t, slow, time.Since(began), "the scope waits for the loser")
				assert.Equal(t, place.returns, raced)
				assert.Equal(t, slow, loserEnded)
				assert.Equal(t, budget.RaceLost, budget.KindOf(lost))
				assert.ErrorIs(t, lost, context.Canceled)
				assert.Equal(t, map[int]int{2: 1}, late.contents())
			})
		})
	}
}

// A service that hedges all the time must not keep its scope from ending.
func TestAServiceThatRacesAllTheTimeDoesNotKeepWaitFromReturning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inScope(t, func(ctx context.Context, s *scope.Scope) {
			s.Service().Go("service", func(ctx context.Context) error {
				for ctx.Err() == nil {
					_, _ = race.First(ctx, "q", after(time.Millisecond, 1), after(2*time.Millisecond, 2))
				}
				return context.Cause(ctx)
			})
			s.Go("task", func(context.Context) error { time.Sleep(10 * time.Millisecond); return nil })
			began := time.Now()
			assert.NoError(t, s.Wait())
			assert.Equal(t, 10*time.Millisecond, time.Since(began))
		})
	})
}

func TestAttemptsThatFailDoNotFailTheirScope(t *testing.T) {
	inScope(t, func(ctx context.Context, s *scope.Scope) {
		_, err := race.First(ctx, "q", broken("one"), func(context.Context) (string, error) { return "", io.EOF })
		assert.ErrorIs(t, err, io.EOF)
		assert.NoError(t, s.Wait())
		assert.NoError(t, ctx.Err())
	})
}

func TestWhatIsOpenedInAnAttemptEndsWhenTheAttemptLoses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		inScope(t, func(ctx context.Context, s *scope.Scope) {
			var inner error
			v, err := race.First(ctx, "q", after(10*time.Millisecond, 1), func(ctx context.Context) (int, error) {
				inner = scope.Run(ctx, "inner", budget.Inherited(), func(ctx context.Context, s *scope.Scope) error {
					_, err := race.First(ctx, "deeper", after(time.Second, 2), after(time.Second, 3))
					return err
				})
				return 0, inner
			})
			assert.NoError(t, err)
			assert.Equal(t, 1, v)
			assert.NoError(t, s.Wait())
			assert.Equal(t, budget.RaceLost, budget.KindOf(inner))
		})
		assert.Equal(t, 10*time.Millisecond, time.Since(began))
	})
}

func TestThePathOfAnAttemptNamesItsRace(t *testing.T) {
	inScope(t, func(ctx context.Context, s *scope.Scope) {
		path := func(ctx context.Context) (string, error) {
			err := scope.Run(ctx, "inner", budget.Inherited(), func(ctx context.Context, s *scope.Scope) error { return io.EOF })
			return err.(*scope.Error).Scope, nil
		}
		v, err := race.First(ctx, "q", path)
		assert.NoError(t, err)
		assert.Equal(t, "request/q/0/inner", v)
		v, err = race.Hedge(ctx, "q", time.Hour, path)
		assert.NoError(t, err)
		assert.Equal(t, "request/q/inner", v)
	})
}
