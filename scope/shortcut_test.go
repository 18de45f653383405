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
	"github.com/curfew-go/curfew/scope/race"
)

// What the short ways to an end must not leave out.

func lateOf(t *testing.T, err error) map[string]*scope.TaskError {
	var e *scope.Error
	require.ErrorAs(t, err, &e)
	late := map[string]*scope.TaskError{}
	for _, l := range e.Late {
		te, ok := l.(*scope.TaskError)
		require.True(t, ok)
		late[te.Task] = te
	}
	assert.Len(t, e.Late, len(late))
	return late
}

func TestABodyThatWasCutDoesNotHideTasksThatWere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		err := scope.Run(t.Context(), "shop", budget.Within(time.Second), func(ctx context.Context, s *scope.Scope) error {
			s.Go("a", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
			<-ctx.Done()
			synctest.Wait()
			return ctx.Err()
		})
		late := lateOf(t, err)
		assert.Contains(t, late, "a")
		assert.Contains(t, late, "")
	})
}

func TestAVerdictOfAnEndOfItsOwnIsNotCutByAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		err := scope.Run(t.Context(), "shop", budget.Within(time.Hour), func(_ context.Context, s *scope.Scope) error {
			over := make(chan struct{})
			s.Go("a", func(ctx context.Context) error {
				err := scope.Run(ctx, "inner", budget.Within(time.Second), func(ctx context.Context, _ *scope.Scope) error {
					<-ctx.Done()
					return ctx.Err()
				})
				<-over
				return err
			})
			time.Sleep(2 * time.Second)
			s.Cancel(nil)
			close(over)
			return s.Wait()
		})
		late := lateOf(t, err)
		require.Contains(t, late, "a")
		assert.False(t, late["a"].Induced)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

// TestAFailedItemHidesNobody: neither a deaf item from the report, nor the loser of a
// race from its scope, which waits for it.
func TestAFailedItemHidesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		old := slog.Default()
		slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
		defer slog.SetDefault(old)
		ctx, cancel, err := budget.Enter(t.Context(), budget.Within(time.Hour))
		require.NoError(t, err)
		defer cancel()
		loserEnded := false
		began := time.Now()
		err = scope.Each(ctx, "each", 3, []int{0, 1, 2}, func(ctx context.Context, i int) error {
			switch i {
			case 0:
				_, err := race.Hedge(ctx, "price", 0, func(ctx context.Context) (int, error) {
					if race.Attempt(ctx) == 0 {
						time.Sleep(10 * time.Second)
						loserEnded = true
					}
					return 1, nil
				})
				return err
			case 1:
				time.Sleep(time.Second)
				return errors.New("down")
			}
			time.Sleep(5 * time.Second)
			return nil
		})
		assert.ErrorContains(t, err, "down")
		assert.Contains(t, out.String(), "task=2 ")
		assert.True(t, loserEnded)
		assert.Equal(t, 10*time.Second, time.Since(began))
	})
}
