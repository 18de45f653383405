package ctxnode_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/ctxnode"
	"github.com/curfew-go/curfew/internal/stress"
)

// Trap: std runs an AfterFunc callback that finds a nil Err, and panics. Here
// the end is decided and Done still open, for as long as the test likes.
func TestAnEndThatIsNotToldYetIsNotSeen(t *testing.T) {
	for _, asked := range []bool{true, false} {
		t.Run(fmt.Sprintf("asked=%v", asked), func(t *testing.T) {
			n := new(ctxnode.Node)
			n.Start(context.Background(), time.Time{}, false)
			ctx := context.Context(&n.View)
			if asked {
				ctx.Done()
			}
			n.Mu.Lock()
			require.True(t, n.EndLocked(ended))
			assert.False(t, n.EndLocked(&ctxnode.Ending{}), "only the first end counts")
			n.Mu.Unlock()

			assert.Same(t, ended, n.Ending(), "the owner knows at once")
			assert.Equal(t, asked, ctx.Err() == nil, "others know when Done is closed")
			assert.Equal(t, asked, context.Cause(ctx) == nil)
			std := child(t, context.WithValue(ctx, key("a"), 1))
			called := make(chan struct{})
			context.AfterFunc(ctx, func() { close(called) })
			below, cancel, err := budget.Enter(ctx, budget.Within(time.Hour))
			defer cancel()
			assert.Equal(t, asked, err == nil)
			assert.Equal(t, asked, std.Err() == nil)
			n.Release()

			<-called
			for _, c := range []context.Context{ctx, std, below} {
				<-c.Done()
				assert.Equal(t, context.Canceled, c.Err())
			}
			assert.False(t, n.End(&ctxnode.Ending{}), "it had ended")
			n.Close(ended)
		})
	}
}

// Trap: a timer whose Stop said false has a goroutine that runs into the node.
// Close waits for it; here the goroutine is held by the parent's Deadline.
func TestCloseWaitsForACallbackThatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			name string
			arm  bool
			fire func(cancelParent func())
		}{
			{"timer", true, func(func()) { time.Sleep(time.Second) }},
			{"bridge", false, func(cancelParent func()) { cancelParent() }},
		} {
			std, cancel := context.WithCancel(context.Background())
			defer cancel()
			parent := &slowParent{Context: std, hold: make(chan struct{})}
			n := new(ctxnode.Node)
			n.Limit = new(budget.Within(time.Second))
			n.Start(parent, time.Now().Add(time.Second), tt.arm)
			armed := n.Callbacks()
			parent.slow.Store(true)
			tt.fire(cancel)
			synctest.Wait() // the callback asks the parent, and does not get an answer

			closed := make(chan struct{})
			go func() { n.Close(ended); close(closed) }()
			synctest.Wait()
			select {
			case <-closed:
				t.Errorf("%s: Close did not wait", tt.name)
			default:
			}
			assert.Equal(t, 1, n.Callbacks(), "%s: of %d", tt.name, armed)
			close(parent.hold)
			<-closed
			assert.Zero(t, n.Callbacks(), tt.name)
			assert.Same(t, ended, n.Ending(), "%s: Close was first", tt.name)
		}
	})
}

// slowParent does not answer while it is slow. Its Done is that of a std
// context, so the bridge hangs there directly.
type slowParent struct {
	context.Context
	hold chan struct{}
	slow atomic.Bool
}

func (p *slowParent) Deadline() (time.Time, bool) {
	if p.slow.Load() {
		<-p.hold
	}
	return time.Time{}, false
}

func (p *slowParent) Err() error {
	if p.slow.Load() {
		<-p.hold
	}
	return p.Context.Err()
}

// Close and the callbacks, racing: afterwards none may run, and none is left.
func TestCloseRacesTheTimer(t *testing.T) {
	for range stress.Rounds(3000) {
		n := new(ctxnode.Node)
		n.Limit = new(budget.Within(0))
		n.Start(context.Background(), time.Now().Add(moment()/4), true)
		n.Done()
		n.Close(ended)
		if n.Callbacks() != 0 || n.Err() == nil {
			t.Fatal("a callback is left, or the node lives")
		}
	}
}

// Stop by several at once, and the end by several at once, unlinks a node once.
func TestEndsByManyAtOnceAreOne(t *testing.T) {
	for i := range stress.Rounds(2000) {
		parent, cancelParent := context.WithCancel(context.Background())
		outer, cancelOuter, err := budget.Enter(parent, budget.Within(time.Hour))
		require.NoError(t, err)
		ctx, cancel, err := budget.Enter(outer, budget.Within(time.Minute))
		require.NoError(t, err)
		if i%2 == 0 {
			ctx.Done()
		}
		var wg sync.WaitGroup
		start := make(chan struct{})
		causes := make([]error, 5)
		for k, f := range []func(){cancel, cancel, cancelOuter, cancelParent, func() {}} {
			wg.Go(func() {
				<-start
				f()
				<-ctx.Done()
				causes[k] = context.Cause(ctx)
			})
		}
		close(start)
		wg.Wait()
		for _, c := range causes {
			require.Same(t, causes[0], c)
		}
		<-outer.Done()
		require.Zero(t, ctxnode.Find(outer).Node().Linked())
	}
}
