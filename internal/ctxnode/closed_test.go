package ctxnode_test

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/ctxnode"
)

// What hangs below a node that has ended goes by being closed: nobody comes for the
// node's lock.

// hung enters a context below ctx, and returns it with its node.
func hung(ctx context.Context) (*ctxnode.Node, context.CancelFunc) {
	in, cancel, _ := budget.Enter(ctx, budget.Inherited())
	return ctxnode.EndOf(in), cancel
}

func TestWhatIsOpenBelowAnEndedNodeIsFoundUntilItIsClosed(t *testing.T) {
	up := ctxnode.Node{View: ctxnode.View{Owner: "somebody"}}
	up.Start(context.Background(), time.Now().Add(time.Hour), true)
	a, closeA := hung(&up.View)
	b, closeB := hung(&up.View)
	c, closeC := hung(&up.View)
	closeA()
	assert.ElementsMatch(t, []*ctxnode.Node{b, c}, up.Children(), "before the end")

	up.Mu.Lock()
	up.EndLocked(&ctxnode.Ending{Cause: context.Canceled, Err: context.Canceled})
	up.Mu.Unlock()
	closeB()
	assert.Equal(t, []*ctxnode.Node{c}, up.Children(), "ended, and none below has been told")
	up.Release()
	assert.NotNil(t, c.Ending())
	assert.Equal(t, []*ctxnode.Node{c}, up.Children(), "and told")
	_, closeD := hung(&up.View)
	defer closeD()
	assert.Equal(t, []*ctxnode.Node{c}, up.Children(), "nobody comes to hang below it")

	up.Close(&ctxnode.Ending{Err: context.Canceled})
	assert.Equal(t, []*ctxnode.Node{c}, up.Children(), "also once the node itself, which somebody owns, is closed")
	closeC()
	assert.Empty(t, up.Children())
	assert.NotNil(t, a.Ending())
}

func TestAnExpiredContextBelowAnEndedNodeNeedsNoCancelToBeForgotten(t *testing.T) {
	var up ctxnode.Node
	up.Start(context.Background(), time.Now().Add(time.Hour), true)
	n, cancel := hung(&up.View)
	defer cancel()
	up.End(&ctxnode.Ending{Cause: context.Canceled, Err: context.Canceled})
	assert.Equal(t, []*ctxnode.Node{n}, up.Children())
	n.Stop()
	assert.Empty(t, up.Children())
}

// TestWhoeverKeepsOneContextDoesNotKeepThoseBesideIt: an http transport may keep that of
// a request that is long over.
func TestWhoeverKeepsOneContextDoesNotKeepThoseBesideIt(t *testing.T) {
	var others []weak.Pointer[ctxnode.Node]
	kept := func() *ctxnode.Node {
		up := &ctxnode.Node{}
		up.Start(context.Background(), time.Now().Add(time.Hour), true)
		var cancels []context.CancelFunc
		var kept *ctxnode.Node
		for i := range 200 {
			n, cancel := hung(&up.View)
			cancels = append(cancels, cancel)
			if i == 100 {
				kept = n
			} else {
				others = append(others, weak.Make(n))
			}
		}
		up.Mu.Lock()
		up.EndLocked(&ctxnode.Ending{Cause: context.Canceled, Err: context.Canceled})
		up.Mu.Unlock()
		for _, cancel := range cancels[:50] {
			cancel()
		}
		up.Release()
		for _, cancel := range cancels[50:] {
			cancel()
		}
		up.Close(&ctxnode.Ending{Err: context.Canceled})
		return kept
	}()
	assert.Eventually(t, func() bool {
		runtime.GC()
		for _, o := range others {
			if o.Value() != nil {
				return false
			}
		}
		return true
	}, 10*time.Second, time.Millisecond)
	runtime.KeepAlive(kept)
}

// TestWhoeverKeepsOneContextDoesNotKeepThoseThatWereOpenWhenTheirParentWasCancelled, or
// when it expired.
func TestWhoeverKeepsOneContextDoesNotKeepThoseThatWereOpenWhenTheirParentWasCancelled(t *testing.T) {
	for _, expires := range []bool{false, true} {
		var others []weak.Pointer[ctxnode.Node]
		kept := func() *ctxnode.Node {
			limit := time.Hour
			if expires {
				limit = 50 * time.Millisecond
			}
			ctx, cancelAll, _ := budget.Enter(context.Background(), budget.Within(limit))
			var cancels []context.CancelFunc
			var kept *ctxnode.Node
			for i := range 200 {
				n, cancel := hung(ctx)
				cancels = append(cancels, cancel)
				if i == 100 {
					kept = n
				} else {
					others = append(others, weak.Make(n))
				}
			}
			if expires {
				<-ctx.Done()
			}
			cancelAll()
			for _, cancel := range cancels {
				cancel()
			}
			return kept
		}()
		assert.Eventually(t, func() bool {
			runtime.GC()
			for _, o := range others {
				if o.Value() != nil {
					return false
				}
			}
			return true
		}, 10*time.Second, time.Millisecond, "expires %t", expires)
		runtime.KeepAlive(kept)
	}
}

// TestVeryManyLeaveANodeWhileItEnds: some by its lock, some without; all who stay are
// told, and nobody is found afterwards.
func TestVeryManyLeaveANodeWhileItEnds(t *testing.T) {
	var before, after atomic.Int64
	for range 300 {
		var up ctxnode.Node
		up.Start(context.Background(), time.Now().Add(time.Hour), true)
		const each = 16
		var there atomic.Int64
		var all sync.WaitGroup
		for range 4 {
			var nodes []*ctxnode.Node
			var cancels []context.CancelFunc
			for range each {
				n, cancel := hung(&up.View)
				nodes, cancels = append(nodes, n), append(cancels, cancel)
			}
			all.Go(func() {
				for there.Add(1); there.Load() < 5; {
					runtime.Gosched()
				}
				for i, cancel := range cancels[:each-1] {
					if up.Ending() == nil {
						before.Add(1)
					} else {
						after.Add(1)
					}
					cancel()
					assert.NotNil(t, nodes[i].Ending())
				}
				last := nodes[each-1]
				<-last.Done() // told, though those beside it have gone
				cancels[each-1]()
			})
		}
		for there.Add(1); there.Load() < 5; {
			runtime.Gosched()
		}
		for range 4 {
			up.Children()
		}
		up.Close(&ctxnode.Ending{Cause: context.Canceled, Err: context.Canceled})
		all.Wait()
		assert.Empty(t, up.Children())
	}
	assert.NotZero(t, before.Load())
	assert.NotZero(t, after.Load())
}
