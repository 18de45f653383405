package scope_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/ctxnode"
	"github.com/curfew-go/curfew/scope"
	"github.com/curfew-go/curfew/scope/internal/owner"
)

// A raceWork is an attempt as package race hands it over.
type raceWork struct {
	call     func(context.Context) error
	finished chan error
}

func (w *raceWork) Call(ctx context.Context) error { return w.call(ctx) }
func (w *raceWork) Finished(err error)             { w.finished <- err }
func (w *raceWork) ContextEnded(*ctxnode.Node)     {}
func (w *raceWork) Origin() any                    { return w.call }
func (w *raceWork) WonAlone() bool                 { return false }

// The first attempt of a hedge has its context before it has a claim to a slot.
func TestAnAttemptWhoseContextEndedBeforeItBeganHoldsNoSlot(t *testing.T) {
	err := scope.Run(t.Context(), "s", budget.Within(time.Minute), func(ctx context.Context, s *scope.Scope) error {
		s.SetSlots(1)
		inner, cancel, err := budget.Enter(ctx, budget.Within(time.Minute))
		require.NoError(t, err)
		defer cancel()
		began, leave := make(chan struct{}), make(chan struct{})
		w := &raceWork{finished: make(chan error, 1)}
		w.call = func(context.Context) error { close(began); <-leave; return nil }
		inherited := budget.Inherited()
		a, err := owner.Of(inner).Enter(inner, "deaf", w, &inherited, time.Now())
		require.NoError(t, err)
		cancel()
		a.Go()
		select {
		case <-began:
		case <-w.finished: // it was not called
		}
		assert.Empty(t, s.Stats().Holding)
		close(leave)
		return nil
	})
	require.NoError(t, err)
}
