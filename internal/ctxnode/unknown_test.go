package ctxnode_test

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/ctxnode"
)

// A node that nobody knows yet gets its alarm without a lock. The alarm may ring while
// whoever started the node is still about it.
func TestAnAlarmThatRingsAtOnceFindsItsNodeReady(t *testing.T) {
	var rang, stopped atomic.Int64
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range 4000 {
				n := &ctxnode.Node{Name: "n"}
				after := time.Duration(i%40) * time.Microsecond
				if i%40 == 39 {
					after = time.Hour
				}
				deadline := time.Now().Add(after)
				if i%2 == 0 {
					n.Start(context.Background(), deadline, true)
				} else {
					n.StartDetached(context.Background(), deadline)
				}
				for range i % 32 {
					runtime.Gosched()
				}
				if i%40 == 20 {
					<-n.View.Done()
				}
				n.Close(ended) // hangs when the callbacks are not counted right
				if n.View.Err() == context.DeadlineExceeded {
					rang.Add(1)
				} else {
					stopped.Add(1)
				}
			}
		})
	}
	all.Wait()
	assert.NotZero(t, stopped.Load(), "those that had an hour")
	assert.NotZero(t, rang.Load(), "those that waited for it")
	t.Logf("rang: %d, stopped: %d", rang.Load(), stopped.Load())

	// The alarms serve again, each at its own time.
	ctx, cancel, err := budget.Enter(context.Background(), budget.Within(20*time.Millisecond))
	assert.NoError(t, err)
	defer cancel()
	select {
	case <-ctx.Done():
	case <-time.After(patience):
		t.Fatal("it did not end")
	}
	d, _ := ctx.Deadline()
	assert.LessOrEqual(t, time.Until(d), time.Duration(0))
}
