package curfewhttp

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/budget/ledger"
)

// A Queue lets a number of requests be handled at once and others wait for their
// turn, the first first. Several routes may share one. A request whose time runs out
// while it waits, or that has less than is useful left when its turn comes, is refused
// with 503 and never handled. One that would have to wait behind too many is refused at
// once, as Overloaded.
type Queue struct {
	width, room int

	mu      sync.Mutex
	running int
	waiting fifo
}

// NewQueue returns a Queue that handles width requests at once and lets room others
// wait. A width below 1 and a negative room panic.
func NewQueue(width, room int) *Queue {
	if width < 1 {
		panic(fmt.Sprintf("curfewhttp: NewQueue: width %d is below 1", width))
	}
	if room < 0 {
		panic(fmt.Sprintf("curfewhttp: NewQueue: negative room %d", room))
	}
	return &Queue{width: width, room: room}
}

// Waiting returns how many requests wait for their turn.
func (q *Queue) Waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting.n
}

// enter waits for a turn until ctx ends; need must be left then. The error says why
// there was none.
func (q *Queue) enter(ctx context.Context, need time.Duration) (leave func(), err error) {
	q.mu.Lock()
	if q.running < q.width {
		q.running++
		q.mu.Unlock()
		return q.leave, nil
	}
	if q.waiting.n >= q.room {
		q.mu.Unlock()
		return nil, &budget.Cause{Kind: budget.Overloaded, Phase: "queued"}
	}
	w := q.waiting.push()
	q.mu.Unlock()

	began := time.Now()
	select {
	case <-w.turn:
	case <-ctx.Done():
		if q.giveUp(w) {
			return nil, context.Cause(ctx)
		}
		<-w.turn // it came at the same time
	}
	ledger.From(ctx).Stage(ledger.Queue, time.Since(began))
	if err := budget.Require(ctx, need); err != nil {
		q.leave()
		return nil, err
	}
	return q.leave, nil
}

// giveUp takes w from the queue, and reports false when its turn has come.
func (q *Queue) giveUp(w *waiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting.remove(w)
}

// leave hands a turn on.
func (q *Queue) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w := q.waiting.pop(); w != nil {
		close(w.turn)
		return
	}
	q.running--
}

// A fifo is a list of those who wait.
type fifo struct {
	first, last *waiter
	n           int
}

type waiter struct {
	turn       chan struct{}
	prev, next *waiter
	waits      bool
}

func (f *fifo) push() *waiter {
	w := &waiter{turn: make(chan struct{}), prev: f.last, waits: true}
	if f.last != nil {
		f.last.next = w
	} else {
		f.first = w
	}
	f.last = w
	f.n++
	return w
}

func (f *fifo) pop() *waiter {
	w := f.first
	if w != nil {
		f.remove(w)
	}
	return w
}

func (f *fifo) remove(w *waiter) bool {
	if !w.waits {
		return false
	}
	w.waits = false
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		f.first = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	} else {
		f.last = w.prev
	}
	f.n--
	return true
}
