package ctxnode_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/curfew-go/curfew/internal/ctxnode"
)

// The cause is there for who asks after the end, though nobody had asked before.
func TestAnEndNobodyDerivedFromMakesItsCauseOnDemand(t *testing.T) {
	why := errors.New("why")
	made := 0
	e := &ctxnode.Ending{Err: context.Canceled, For: func(*ctxnode.Node) error { made++; return why }}
	n := &ctxnode.Node{Name: "n"}
	n.Start(context.Background(), time.Time{}, false)
	done := n.Done()
	n.Close(e)
	<-done
	assert.Zero(t, made)
	assert.Same(t, why, context.Cause(context.WithValue(n, key("a"), 1)))
	assert.Same(t, why, context.Cause(n))
	assert.Equal(t, 1, made)
	child, cancel := context.WithCancel(n)
	defer cancel()
	assert.Same(t, why, context.Cause(child))
}

// A std child made while the node ends has the node's cause, whoever was faster.
func TestAStdChildMadeDuringTheEndHasTheCause(t *testing.T) {
	why := errors.New("why")
	for range 2000 {
		n := &ctxnode.Node{Name: "n"}
		n.Start(context.Background(), time.Time{}, false)
		done := n.Done()
		var wg sync.WaitGroup
		wg.Go(func() { n.Close(&ctxnode.Ending{Err: context.DeadlineExceeded, Cause: why}) })
		child, cancel := context.WithCancel(context.WithValue(n, key("a"), 1))
		<-done
		<-child.Done()
		assert.Equal(t, context.DeadlineExceeded, child.Err())
		assert.Same(t, why, context.Cause(child))
		cancel()
		wg.Wait()
	}
}
