package checkpoint_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/curfew-go/curfew/checkpoint"
)

// own is a context of another library, with a Done of its own.
type own struct {
	context.Context
	done chan struct{}
}

func (o *own) Done() <-chan struct{} { return o.done }
func (o *own) Err() error {
	select {
	case <-o.done:
		return context.Canceled
	default:
		return nil
	}
}

// Nothing waits for the end of such a context, so nothing must be let go when a Point
// is collected: that happens outside of the bubble in which the Point was made.
func TestAPointUnderAnotherLibrarysContextIsCollectedInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := &own{context.Background(), make(chan struct{})}
		for range 100 {
			assert.NoError(t, checkpoint.New(ctx).Err())
		}
		for range 3 {
			runtime.GC()
			time.Sleep(time.Second)
		}
	}) // and no goroutine is left that waits for ctx, which never ends
}

func TestTheEndOfAnotherLibrarysContextIsSeenWithinEightTurns(t *testing.T) {
	for before := range 100 {
		ctx := &own{context.Background(), make(chan struct{})}
		p := checkpoint.New(ctx)
		for range before {
			assert.NoError(t, p.Err())
		}
		close(ctx.done)
		turns := 1
		for ; p.Err() == nil; turns++ {
		}
		assert.LessOrEqual(t, turns, 8)
		assert.ErrorIs(t, p.Err(), context.Canceled)
	}
}
