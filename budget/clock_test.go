package budget_test

import (
	"context"
	"reflect"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
)

// Adjusting the wall clock moves no deadline. A time as time.Now gives it after
// a jump differs in its wall part alone.
func TestAJumpOfTheWallClockHasNoEffect(t *testing.T) {
	for _, jump := range []time.Duration{time.Hour, -time.Hour} {
		now := time.Now()
		moved := jumped(t, now, jump)
		require.Equal(t, 10*time.Minute, moved.Add(10*time.Minute).Sub(now), "what counts is the monotonic part")

		ctx := enter(t, context.Background(), budget.Until(moved.Add(10*time.Minute)))
		inMinutes(t, 10, ctx)

		std, cancel := context.WithDeadline(context.Background(), moved.Add(10*time.Minute))
		defer cancel()
		inMinutes(t, 10, enter(t, std, budget.Inherited()))
		inMinutes(t, 10, enter(t, std, budget.Within(20*time.Minute)))
		inMinutes(t, 5, enter(t, std, budget.Within(5*time.Minute)))
		inMinutes(t, 8, enter(t, std, budget.Inherited().Reserve(2*time.Minute)))

		_, _, err := budget.Enter(context.Background(), budget.Until(moved.Add(-time.Minute)))
		assert.Equal(t, budget.ExpiredOnArrival, budget.KindOf(err))
	}
}

// Whatever the limit was made of, from here on the deadline is monotonic: a
// later jump of the clock does not move it.
func TestEveryDeadlineIsMonotonic(t *testing.T) {
	wall := time.Now().Round(0).Add(10 * time.Minute) // as parsed from text
	require.False(t, isMonotonic(wall))
	std, cancel := context.WithDeadline(context.Background(), wall)
	defer cancel()
	for name, ctx := range map[string]context.Context{
		"within":                          enter(t, context.Background(), budget.Within(10*time.Minute)),
		"until a wall time":               enter(t, context.Background(), budget.Until(wall)),
		"until a wall time under ours":    enter(t, enter(t, context.Background(), budget.Within(time.Hour)), budget.Until(wall)),
		"inherited from a wall time":      enter(t, std, budget.Inherited()),
		"wider than a parent's wall time": enter(t, std, budget.Within(time.Hour)),
		"reserve from a wall time":        enter(t, std, budget.Inherited().Reserve(1)),
		"detached":                        detached(t, 10*time.Minute),
	} {
		d, ok := ctx.Deadline()
		assert.True(t, ok, name)
		assert.True(t, isMonotonic(d), "%s: %v", name, d)
		inMinutes(t, 10, ctx)
	}
}

func detached(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := budget.Detached(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func isMonotonic(t time.Time) bool { return t != t.Round(0) }

// inMinutes checks that the deadline of ctx is that far away, give or take what
// a busy machine takes to run a test.
func inMinutes(t *testing.T, minutes float64, ctx context.Context) {
	t.Helper()
	left, ok := budget.Remaining(ctx)
	assert.True(t, ok)
	assert.InDelta(t, minutes, left.Minutes(), 0.75)
}

// jumped returns what time.Now would have said instead of t, had the wall clock
// been moved by d: the monotonic part is the same.
func jumped(t *testing.T, at time.Time, d time.Duration) time.Time {
	require.True(t, isMonotonic(at))
	field, ok := reflect.TypeFor[time.Time]().FieldByName("wall")
	require.True(t, ok && field.Type.Kind() == reflect.Uint64, "time.Time has changed")
	wall := (*uint64)(unsafe.Add(unsafe.Pointer(&at), field.Offset))
	*wall += uint64(d/time.Second) << 30 // seconds stand above 30 bits of nanoseconds
	return at
}

// TestADeadlineOfTheOutsideIsInherited: the clock of a bubble starts years before it.
func TestADeadlineOfTheOutsideIsInherited(t *testing.T) {
	outside, cancel, err := budget.Enter(context.Background(), budget.Within(time.Hour))
	require.NoError(t, err)
	defer cancel()
	synctest.Test(t, func(t *testing.T) {
		ran := false
		require.NoError(t, scope.Run(context.WithoutCancel(outside), "x", budget.Within(time.Second), func(context.Context, *scope.Scope) error {
			ran = true
			return nil
		}))
		assert.True(t, ran)
		ctx, cancel, err := budget.Enter(outside, budget.Inherited())
		require.NoError(t, err)
		defer cancel()
		deadline, _ := ctx.Deadline()
		want, _ := outside.Deadline()
		assert.True(t, want.Equal(deadline))
	})
}
