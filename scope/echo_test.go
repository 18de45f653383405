package scope_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
)

// What tasks that were cut short have said, put into words by the verdict.

// cutAll runs a scope in which tasks of these names are parked when the body fails. Each
// returns what answer makes of its context.
func cutAll(names []string, answer func(context.Context) error) *scope.Error {
	err := scope.Run(context.Background(), "shop", budget.Within(time.Minute), func(_ context.Context, s *scope.Scope) error {
		for _, name := range names {
			s.Go(name, func(ctx context.Context) error {
				<-ctx.Done()
				return answer(ctx)
			})
		}
		return errNo
	})
	return err.(*scope.Error)
}

func TestEachTaskThatWasCutShortHasAnEntryAlsoWhereSeveralSayTheSame(t *testing.T) {
	names := []string{"a", "a", "b", "b", "a", "c", "c", "c", "c", "c", "c", "c", "c", "a"}
	for _, answer := range []func(context.Context) error{
		context.Context.Err,
		context.Cause,
	} {
		e := cutAll(names, answer)
		require.Len(t, e.Late, len(names))
		var said []string
		for _, late := range e.Late {
			te, ok := late.(*scope.TaskError)
			require.True(t, ok)
			assert.True(t, te.Induced)
			var cause *budget.Cause
			assert.True(t, te.Err == context.Canceled || errors.As(te.Err, &cause), te.Err)
			said = append(said, te.Task)
		}
		assert.ElementsMatch(t, names, said)
		assert.NotErrorIs(t, e, context.Canceled)
	}
}

func TestTasksOfOneNameAndDifferentAnswersKeepThem(t *testing.T) {
	turn := make(chan int, 4)
	for i := range 4 {
		turn <- i
	}
	e := cutAll([]string{"a", "a", "a", "a"}, func(ctx context.Context) error {
		if <-turn%2 == 0 {
			return ctx.Err()
		}
		return context.Cause(ctx)
	})
	require.Len(t, e.Late, 4)
	plain := 0
	for _, late := range e.Late {
		if late.(*scope.TaskError).Err == context.Canceled {
			plain++
		}
	}
	assert.Equal(t, 2, plain)
}

func TestWhatVeryManyOfOneNameSayIsOnePieceOfMemory(t *testing.T) {
	const n = 5000
	names := make([]string, n)
	for i := range names {
		names[i] = "worker"
	}
	e := cutAll(names, context.Context.Err)
	require.Len(t, e.Late, n)
	assert.Same(t, e.Late[0], e.Late[n-1])
	assert.LessOrEqual(t, len(e.Error()), 4<<10+3)
}
