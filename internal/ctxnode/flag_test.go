package ctxnode_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/ctxnode"
)

func TestTheFlagIsSetOnceTheCancelReturned(t *testing.T) {
	var seen atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 200 {
				outer, cancel, _ := budget.Enter(context.Background(), budget.Within(time.Hour))
				inner, stop, _ := budget.Enter(outer, budget.Within(time.Minute))
				flags := []*atomic.Uint32{ctxnode.EndOf(outer).Flag(), ctxnode.EndOf(inner).Flag()}
				for _, f := range flags {
					if f.Load() != 0 {
						t.Error("set while alive")
					}
				}
				cancel()
				for _, f := range flags {
					if f.Load() >= ctxnode.Flagged {
						seen.Add(1)
					}
				}
				stop()
			}
		})
	}
	all.Wait()
	assert.Equal(t, int64(8*200*2), seen.Load())
}

func TestTheFlagOfARefusedContextIsSet(t *testing.T) {
	ctx, cancel, err := budget.Enter(context.Background(), budget.Within(0))
	defer cancel()
	assert.Error(t, err)
	assert.Equal(t, uint32(ctxnode.Flagged), ctxnode.EndOf(ctx).Flag().Load())
}

func TestEndOfIsTheNodeWhoseEndItIs(t *testing.T) {
	ctx, cancel, _ := budget.Enter(context.Background(), budget.Within(time.Hour))
	defer cancel()
	node := ctx.(*ctxnode.View).Node()
	child, stop := context.WithCancel(ctx)
	defer stop()
	assert.Same(t, node, ctxnode.EndOf(ctx))
	assert.Same(t, node, ctxnode.EndOf(context.WithValue(ctx, key("a"), 1)))
	assert.Nil(t, ctxnode.EndOf(child), "it may end before the node")
	assert.Nil(t, ctxnode.EndOf(context.WithoutCancel(ctx)), "it never ends")
	assert.Nil(t, ctxnode.EndOf(context.Background()))
}

// silent is a context that ends by itself and tells nobody.
type silent struct {
	context.Context
	done chan struct{}
}

func (s silent) Done() <-chan struct{} { return s.done }

func TestAContextWithADoneOfItsOwnTellsNobody(t *testing.T) {
	std, cancel := context.WithCancel(context.Background())
	defer cancel()
	ours, stop, _ := budget.Enter(context.Background(), budget.Within(time.Hour))
	defer stop()
	child, end := context.WithTimeout(ours, time.Minute)
	defer end()
	type wrapped struct{ context.Context }
	for name, ctx := range map[string]context.Context{
		"std": std, "a value": context.WithValue(std, key("a"), 1), "wrapped": wrapped{std},
		"ours": ours, "std under ours": child, "wrapped ours": wrapped{ours},
	} {
		assert.True(t, ctxnode.Tells(ctx), name)
	}
	for name, under := range map[string]context.Context{"background": context.Background(), "std": std, "ours": ours} {
		ctx := silent{under, make(chan struct{})}
		assert.False(t, ctxnode.Tells(ctx), name)
		assert.False(t, ctxnode.Tells(context.WithValue(ctx, key("a"), 1)), name)
	}
}
