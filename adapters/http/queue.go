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

// enter takes a turn, for which w is nil then, or a place among those who wait for one.
func (q *Queue) enter() (w *waiter, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.running < q.width {
		q.running++
		return nil, nil
	}
	if q.waiting.n >= q.room {
		return nil, &budget.Cause{Kind: budget.Overloaded, Phase: "queued"}
	}
	return q.waiting.push(), nil
}

// giveUp wakes w, which gets no turn any more unless it has it already.
func (q *Queue) giveUp(w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting.remove(w) {
		w.lost = true
		close(w.turn)
	}
}

// queue waits until it is g's turn in q. It does not wait for the Done of ctx, which
// would be most of what it costs (BenchmarkExpiredQueue). After an error, which says
// why h must not run, g has no turn.
func (g *guard) queue(q *Queue, ctx context.Context) error {
	w, err := q.enter()
	if err != nil || w == nil {
		return err
	}
	began := time.Now()
	g.fence.Lock()
	g.waiter = w
	g.fence.Unlock()
	if g.node.Flag().Load() != 0 { // and from here on the end of the client is told
		q.giveUp(w)
	}
	<-w.turn
	ledger.From(ctx).Stage(ledger.Queue, time.Since(began))
	g.fence.Lock()
	g.waiter = nil
	late := g.refusing.Load()
	g.fence.Unlock()
	if w.lost {
		return g.why()
	}
	err = budget.Require(ctx, g.h.useful())
	if err == nil && late {
		err = g.why()
	}
	if err != nil {
		q.leave()
	}
	return err
}

// wakeQueued ends g's wait for its turn.
func (g *guard) wakeQueued() {
	q := g.h.config.Queue
	if q == nil {
		return
	}
	g.fence.Lock()
	w := g.waiter
	g.fence.Unlock()
	if w != nil {
		q.giveUp(w)
	}
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
	turn       chan struct{} // closed when it waits no more
	lost       bool          // it got no turn
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
