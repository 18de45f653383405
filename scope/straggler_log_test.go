package scope_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
)

// overstay runs a hundred stragglers, without a Trace, and returns how many the log
// tells of.
func overstay(t *testing.T) int64 {
	var warnings atomic.Int64
	old := slog.Default()
	slog.SetDefault(slog.New(counting{&warnings}))
	defer slog.SetDefault(old)
	release := make(chan struct{})
	require.NoError(t, scope.Run(context.Background(), "x", budget.Within(time.Hour), func(_ context.Context, s *scope.Scope) error {
		for range 100 {
			s.Go("deaf", func(context.Context) error { <-release; return nil })
		}
		s.Cancel(nil)
		defer close(release)
		assert.Eventually(t, func() bool { return s.Stats().Stragglers >= 100 }, time.Minute, time.Millisecond)
		return nil
	}))
	return warnings.Load()
}

func TestTheLogOfStragglersIsBoundedForTheProcess(t *testing.T) {
	assert.LessOrEqual(t, overstay(t)+overstay(t), int64(5+10), "five at once, then one a second")
}

// TestTheLogOfStragglersIsTheSameInEveryBubble: what other tests have logged before
// does not count.
func TestTheLogOfStragglersIsTheSameInEveryBubble(t *testing.T) {
	for range 3 {
		synctest.Test(t, func(t *testing.T) { assert.GreaterOrEqual(t, overstay(t), int64(100)) })
	}
}

// TestAnOrphanThatStartsATaskIsToldThatItIsSkipped: an abandoned task does not know
// that Run has returned; a panic of it would end the process.
func TestAnOrphanThatStartsATaskIsToldThatItIsSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, _ := watched(t.Context())
		var s1 *scope.Scope
		never := func(context.Context) (int, error) { t.Error("it ran"); return 0, nil }
		start := func() {
			_, err := scope.Fork(s1, "late", never).Wait(context.Background())
			assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err))
		}
		err := scope.Run(ctx, "x", budget.Within(time.Second), func(_ context.Context, s *scope.Scope) error {
			s1 = s
			s.SetStragglers(time.Second, scope.Abandon)
			s.Go("deaf", func(context.Context) error {
				time.Sleep(10 * time.Second)
				start()
				detached, cancel := budget.Detached(context.Background(), time.Minute)
				defer cancel()
				return scope.Each(detached, "each", 1, []int{1}, func(context.Context, int) error { start(); return nil })
			})
			return nil
		})
		assert.ErrorIs(t, err, scope.ErrAbandoned)
		time.Sleep(20 * time.Second)
		assert.Equal(t, 2, s1.Stats().Skipped)
		assert.PanicsWithError(t, `scope: Fork("late") in scope "x", which is over: scope: closed`, start, "others are wrong to")
	})
}
