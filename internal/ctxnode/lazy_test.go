package ctxnode_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/curfew-go/curfew/internal/ctxnode"
)

// lazy starts a node that listens only when it is asked.
func lazy(parent context.Context) *ctxnode.Node {
	n := &ctxnode.Node{Lazy: true}
	n.Start(parent, time.Now().Add(time.Hour), true)
	return n
}

func TestALazyNodeEndsWithItsParentHoweverItIsAsked(t *testing.T) {
	for name, ask := range map[string]func(n *ctxnode.Node) func() bool{
		"Err": func(n *ctxnode.Node) func() bool { return func() bool { return n.Err() != nil } },
		"Done": func(n *ctxnode.Node) func() bool {
			done := n.Done()
			return func() bool {
				select {
				case <-done:
					return true
				default:
					return false
				}
			}
		},
		"Cause": func(n *ctxnode.Node) func() bool { return func() bool { return context.Cause(n) != nil } },
		"Flag": func(n *ctxnode.Node) func() bool {
			flag := n.Flag()
			return func() bool { return flag.Load() != 0 }
		},
		"a node below": func(n *ctxnode.Node) func() bool {
			c := new(ctxnode.Node)
			c.Start(&n.View, time.Time{}, false)
			return func() bool { return c.Err() != nil }
		},
		"a std context below": func(n *ctxnode.Node) func() bool {
			c, cancel := context.WithCancel(n)
			_ = cancel
			return func() bool { return c.Err() != nil }
		},
		"a std context below values": func(n *ctxnode.Node) func() bool {
			c, cancel := context.WithCancel(context.WithValue(n, key("a"), 1))
			_ = cancel
			return func() bool { return c.Err() != nil }
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				parent, cancel := context.WithCancel(context.Background())
				n := lazy(parent)
				seen := ask(n)
				assert.False(t, seen())
				cancel()
				synctest.Wait()
				assert.True(t, seen())
				assert.ErrorIs(t, n.Err(), context.Canceled)
				n.Close(ended)
			})
		})
	}
}

func TestALazyNodeThatIsNotAskedLeavesNothingWithItsParent(t *testing.T) {
	parent, cancel := context.WithCancel(context.Background())
	defer cancel()
	n := lazy(parent)
	assert.NoError(t, n.Err())
	assert.Equal(t, 1, n.Callbacks(), "the timer")
	n.Done()
	assert.Equal(t, 2, n.Callbacks(), "and the bridge to its parent")
	n.Close(ended)
}

func TestALazyNodeMayBeAskedWhileItsParentEnds(t *testing.T) {
	for range 2000 {
		parent, cancel := context.WithCancel(context.Background())
		n := lazy(parent)
		go cancel()
		var asked sync.WaitGroup
		asked.Go(func() { _ = n.Err() })
		<-n.Done()
		asked.Wait()
		assert.ErrorIs(t, n.Err(), context.Canceled)
		n.Close(ended)
	}
}

// Nobody tells a lazy node of its parent's deadline, so it has an alarm of its own.
func TestALazyNodeEndsAtItsParentsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		deadline, _ := parent.Deadline()
		ended := make(chan *ctxnode.Ending, 1)
		n := &ctxnode.Node{View: ctxnode.View{Owner: listener(ended)}, Lazy: true}
		n.Start(parent, deadline, false)
		e := <-ended
		assert.Equal(t, context.DeadlineExceeded, e.Err)
		assert.Zero(t, time.Until(deadline))
	})
}

type listener chan<- *ctxnode.Ending

func (w listener) Ended(e *ctxnode.Ending, watched bool) bool {
	w <- e
	return watched
}
