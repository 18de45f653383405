package scope_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
)

// An item of a Map stands in no list while nobody looks on. It is found all the same.

func TestAnItemThatNobodyWatchesIsReportedAsAStragglerByItsIndex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		old := slog.Default()
		slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
		defer slog.SetDefault(old)
		ctx, cancel, err := budget.Enter(context.Background(), budget.Within(time.Second))
		require.NoError(t, err)
		defer cancel()
		err = scope.Each(ctx, "each", 2, make([]int, 300), func(ctx context.Context, _ int) error {
			switch name := ctx.(interface{ Task() string }).Task(); name {
			case "127", "128":
				time.Sleep(3 * time.Second)
			}
			return nil
		})
		assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err), "the others were not begun")
		assert.Contains(t, err.Error(), "not begun: 171")
		assert.Contains(t, out.String(), "task=127")
		assert.Contains(t, out.String(), "task=128")
		assert.Contains(t, out.String(), "unlisted_test.go")
		assert.NotContains(t, out.String(), "task=126", "it had ended")
	})
}

func TestAFailedItemIsNamedByItsIndex(t *testing.T) {
	ctx, cancel, err := budget.Enter(context.Background(), budget.Within(time.Minute))
	require.NoError(t, err)
	defer cancel()
	boom := errors.New("boom")
	in := make([]int, 1000)
	in[700] = 1
	err = scope.Each(ctx, "each", 4, in, func(_ context.Context, bad int) error {
		if bad == 1 {
			return boom
		}
		return nil
	})
	var te *scope.TaskError
	require.ErrorAs(t, err, &te)
	assert.Equal(t, "700", te.Task)
	assert.Same(t, boom, te.Err)
}

// TestItemsAreMadeTogether: the cost that BenchmarkFanout of package bench shows.
func TestItemsAreMadeTogether(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	ctx, cancel, err := budget.Enter(context.Background(), budget.Within(time.Hour))
	require.NoError(t, err)
	defer cancel()
	in := make([]int, 1000)
	allocs := testing.AllocsPerRun(20, func() {
		_ = scope.Each(ctx, "each", 4, in, func(context.Context, int) error { return nil })
	})
	assert.Less(t, allocs, 250.0)
}
