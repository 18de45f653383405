package checkpoint_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/curfew-go/curfew/checkpoint"
)

// counting is a context that counts who is registered for its end.
type counting struct {
	context.Context
	registered atomic.Int64
	released   chan struct{}
}

func (c *counting) Value(any) any { return nil } // else std would find the context inside

func (c *counting) AfterFunc(f func()) func() bool {
	c.registered.Add(1)
	stop := context.AfterFunc(c.Context, f)
	return func() bool {
		c.registered.Add(-1)
		c.released <- struct{}{}
		return stop()
	}
}

// A long-lived foreign context does not collect what short loops under it leave.
func TestAPointThatIsDroppedIsForgottenByItsContext(t *testing.T) {
	const points = 1000
	parent, cancel := context.WithCancel(context.Background())
	defer cancel()
	ctx := &counting{Context: parent, released: make(chan struct{}, points)}
	for range points {
		if checkpoint.New(ctx).Err() != nil {
			t.Fatal("ended")
		}
	}
	timeout := time.After(30 * time.Second)
	for range points - 10 { // what the collector takes for alive on a stack may stay
		select {
		case <-ctx.released:
			continue
		default:
		}
		runtime.GC()
		select {
		case <-ctx.released:
		case <-timeout:
			t.Fatalf("%d points are still registered", ctx.registered.Load())
		}
	}
	assert.LessOrEqual(t, ctx.registered.Load(), int64(10))
}

// While a Point is in use it stays registered, whatever the collector does.
func TestAPointInUseSurvivesTheCollector(t *testing.T) {
	parent, cancel := context.WithCancel(context.Background())
	ctx := &counting{Context: parent, released: make(chan struct{}, 1)}
	p := checkpoint.New(ctx)
	for range 3 {
		runtime.GC()
	}
	assert.Equal(t, int64(1), ctx.registered.Load())
	cancel()
	for deadline := time.Now().Add(30 * time.Second); p.Err() == nil; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal("not told")
		}
	}
}
