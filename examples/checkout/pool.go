package main

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/curfew-go/curfew/budget"
)

// A pool limits how many requests a service works on at once. Those beyond it wait in a queue that is
// bounded and first in, first out. Handlers work on their own goroutines, a worker is a permission.
type pool struct {
	slots   chan struct{} // one element per busy worker; the runtime wakes blocked senders in order
	waiting atomic.Int64
	queue   int64
}

var errQueueFull = &budget.Cause{Kind: budget.Overloaded, Err: errors.New("queue full")}

func newPool(size poolSize) *pool {
	return &pool{slots: make(chan struct{}, size.workers), queue: int64(size.queue)}
}

// enter waits until a worker is free and returns the call that frees it again. It fails at once when
// the queue is full, and as soon as ctx ends.
func (p *pool) enter(ctx context.Context) (leave func(), err error) {
	if p.waiting.Add(1) > p.queue {
		p.waiting.Add(-1)
		return nil, errQueueFull
	}
	defer p.waiting.Add(-1)
	select {
	case p.slots <- struct{}{}:
		return p.leave, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (p *pool) leave() { <-p.slots }
