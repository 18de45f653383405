package race_test

import (
	"bytes"
	"context"
	"runtime/pprof"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/ctxnode"
	"github.com/curfew-go/curfew/scope"
	"github.com/curfew-go/curfew/scope/race"
)

// A context that lives as long as a service must not remember each race.
func TestRacesLeaveNothingBehindInTheContextOnceAllIsReleased(t *testing.T) {
	below := func(ctx context.Context) int { return len(ctxnode.Find(ctx).Node().Children()) }
	inScope(t, func(ctx context.Context, s *scope.Scope) {
		keeps := func(ctx context.Context) (func(), error) { return race.Keep(ctx), nil }
		cfg := race.Config[func()]{
			Limit: budget.Within(30 * time.Second), Dispose: func(release func()) { release() }, After: every(0),
		}
		var kept []func()
		for range 200 {
			release, err := cfg.Hedge(ctx, "q", keeps)
			require.NoError(t, err)
			kept = append(kept, release)
			_, err = cfg.First(ctx, "q", func(context.Context) (func(), error) { return func() {}, nil })
			require.NoError(t, err)
		}
		require.NoError(t, s.Wait())
		assert.Equal(t, len(kept), below(ctx), "those that are kept")
		for _, release := range kept {
			release()
		}
		assert.Zero(t, below(ctx))
		assert.NoError(t, ctx.Err())
	})
}

func TestAKeptContextEndsAtTheRacesLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inScope(t, func(ctx context.Context, s *scope.Scope) {
			began := time.Now()
			kept, err := race.Config[context.Context]{Limit: budget.Within(100 * time.Millisecond).Named("read")}.First(ctx, "q", func(ctx context.Context) (context.Context, error) {
				race.Keep(ctx)
				return ctx, nil
			})
			assert.NoError(t, err)
			assert.NoError(t, s.Wait())
			<-kept.Done()
			assert.Equal(t, 100*time.Millisecond, time.Since(began))
			assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(context.Cause(kept)))
			assert.Equal(t, "read 100ms < within 1m0s", context.Cause(kept).(*budget.Cause).Limit)
		})
	})
}

func TestALosersContextEndsThoughItWasKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inScope(t, func(ctx context.Context, s *scope.Scope) {
			var lost context.Context
			_, err := race.First(ctx, "q", after(time.Millisecond, 1), func(ctx context.Context) (int, error) {
				defer race.Keep(ctx)()
				lost = ctx
				<-ctx.Done()
				return 0, context.Cause(ctx)
			})
			assert.NoError(t, err)
			assert.NoError(t, s.Wait())
			assert.Equal(t, budget.RaceLost, budget.KindOf(context.Cause(lost)))
		})
	})
}

// What runs inline cannot be left behind, so a scope that abandons runs it aside.
func TestInlineDoesNothingInAScopeThatAbandons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ctx := scope.WithTrace(context.Background(), &scope.Trace{Straggler: func(scope.Straggler) {}})
		err := scope.Run(ctx, "request", budget.Within(50*time.Millisecond), func(ctx context.Context, s *scope.Scope) error {
			s.SetStragglers(100*time.Millisecond, scope.Abandon)
			_, err := race.Config[int]{Inline: true, After: every(time.Hour)}.Hedge(ctx, "q", deaf(time.Second, 1))
			assert.Equal(t, 50*time.Millisecond, time.Since(began))
			return err
		})
		assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err))
		assert.Equal(t, 150*time.Millisecond, time.Since(began))
		time.Sleep(time.Second) // until the orphan has ended
	})
}

func TestAnInlineAttemptGivesTheGoroutineItsLabelsBack(t *testing.T) {
	root := scope.NewRoot("root")
	labels := func() string {
		var b bytes.Buffer
		require.NoError(t, pprof.Lookup("goroutine").WriteTo(&b, 1))
		return b.String()
	}
	err := scope.Run(root.Context(), "request", budget.Within(time.Minute), func(ctx context.Context, s *scope.Scope) error {
		s.Go("caller", func(ctx context.Context) error {
			_, err := race.Config[int]{Inline: true, After: every(time.Minute)}.Hedge(ctx, "call", func(context.Context) (int, error) {
				assert.Contains(t, labels(), `labels: {"scope":"request", "task":"call"}`)
				return 1, nil
			})
			assert.Contains(t, labels(), `labels: {"scope":"request", "task":"caller"}`)
			return err
		})
		return s.Wait()
	})
	assert.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	assert.NoError(t, root.Drain(ctx))
}
