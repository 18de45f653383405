package ctxnode_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/curfew-go/curfew/internal/ctxnode"
)

// TestTheCauseIsThereHoweverTheFirstQuestionMeetsTheEnd: somebody derives a std context
// for the first time while the node ends, by two who both tell: the one who ends it and
// the one who closes it.
func TestTheCauseIsThereHoweverTheFirstQuestionMeetsTheEnd(t *testing.T) {
	boom := errors.New("boom")
	for name, sentinel := range map[string]error{"canceled": context.Canceled, "deadline exceeded": context.DeadlineExceeded} {
		t.Run(name, func(t *testing.T) {
			var before, after atomic.Int64
			for range 2000 {
				n := &ctxnode.Node{}
				n.Start(context.Background(), time.Time{}, false)
				_ = n.Done() // so that there is a std context that nobody has asked for
				e := &ctxnode.Ending{Cause: boom, Err: sentinel, At: time.Now()}
				start := make(chan struct{})
				var all sync.WaitGroup
				all.Go(func() { <-start; n.End(e) })
				all.Go(func() { <-start; n.Close(e) })
				for range 2 {
					all.Go(func() {
						<-start
						if n.Ending() == nil {
							before.Add(1)
						} else {
							after.Add(1)
						}
						child, cancel := context.WithCancel(context.WithValue(n, key("a"), 1))
						defer cancel()
						<-child.Done()
						assert.Equal(t, boom, context.Cause(child), "of a std child")
						assert.Equal(t, sentinel, child.Err())
					})
				}
				close(start)
				all.Wait()
				assert.Equal(t, boom, context.Cause(n))
				assert.Equal(t, sentinel, n.Err())
			}
			t.Logf("first asked: %d before the end, %d after it", before.Load(), after.Load())
			assert.NotZero(t, before.Load()+after.Load())
		})
	}
}

// TestDoneOfAnEndedNodeIsClosedAndMakesNothing: the first question comes after the end, as
// that of a loser which begins late. The cause is there when somebody asks for it.
func TestDoneOfAnEndedNodeIsClosedAndMakesNothing(t *testing.T) {
	boom := errors.New("boom")
	for _, sentinel := range []error{context.Canceled, context.DeadlineExceeded} {
		ended := func() *ctxnode.Node {
			n := &ctxnode.Node{}
			n.Start(context.Background(), time.Time{}, false)
			n.End(&ctxnode.Ending{Cause: boom, Err: sentinel, At: time.Now()})
			return n
		}
		var nodes []*ctxnode.Node
		for range 101 { // AllocsPerRun has one run more
			nodes = append(nodes, ended())
		}
		next := 0
		assert.Zero(t, testing.AllocsPerRun(len(nodes)-1, func() { <-nodes[next].Done(); next++ }))
		n := nodes[0]
		assert.Equal(t, sentinel, n.Err())
		assert.Equal(t, boom, context.Cause(n))
		child, cancel := context.WithCancel(context.WithValue(n, key("a"), 1))
		defer cancel()
		assert.Equal(t, boom, context.Cause(child))
		assert.Equal(t, sentinel, child.Err())
		assert.Equal(t, n.Done(), nodes[1].Done())
		n.Close(&ctxnode.Ending{Cause: errors.New("late"), Err: context.Canceled, At: time.Now()})
		assert.Equal(t, boom, context.Cause(n))
	}
}

// TestAStdChildOfAnEndedNodeHasItsCause: of one that was asked before its end, and of
// one that was not.
func TestAStdChildOfAnEndedNodeHasItsCause(t *testing.T) {
	boom := errors.New("boom")
	for _, sentinel := range []error{context.Canceled, context.DeadlineExceeded} {
		for _, asked := range []bool{false, true} {
			n := &ctxnode.Node{}
			n.Start(context.Background(), time.Time{}, false)
			_ = n.Done()
			var old context.Context
			if asked {
				o, cancel := context.WithCancel(n)
				defer cancel()
				old = o
			}
			n.End(&ctxnode.Ending{Cause: boom, Err: sentinel, At: time.Now()})
			young, cancel := context.WithCancel(n)
			defer cancel()
			for _, ctx := range []context.Context{n, young, old} {
				if ctx == nil {
					continue
				}
				assert.Equal(t, boom, context.Cause(ctx), "asked %t", asked)
				assert.Equal(t, sentinel, ctx.Err(), "asked %t", asked)
			}
		}
	}
}
