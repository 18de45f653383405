package curfewhttp

import (
	"container/heap"
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
	due     dues
	timer   *time.Timer // for the first of due; nil when nobody waits
	rings   time.Time   // when
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

// enter takes a turn, for which w is nil then, or a place among those who wait for one,
// until deadline at most.
func (q *Queue) enter(deadline time.Time) (w *waiter, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.running < q.width {
		q.running++
		return nil, nil
	}
	if q.waiting.n >= q.room {
		return nil, &budget.Cause{Kind: budget.Overloaded, Phase: "queued"}
	}
	w = q.waiting.push(deadline)
	heap.Push(&q.due, w)
	q.setTimer()
	return w, nil
}

// remove takes w from those who wait, and reports whether it did wait. The caller
// holds mu.
func (q *Queue) remove(w *waiter) bool {
	if w == nil || !q.waiting.remove(w) {
		return false
	}
	heap.Remove(&q.due, w.place)
	if len(q.due) == 0 {
		q.timer.Stop()
		q.timer = nil // the next one may be made in another synctest bubble
	}
	return true
}

// setTimer makes the timer ring no later than the first is due. The caller holds mu.
func (q *Queue) setTimer() {
	first := q.due[0].deadline
	switch {
	case q.timer == nil:
		q.timer = time.AfterFunc(time.Until(first), q.expire)
	case first.Before(q.rings):
		q.timer.Reset(time.Until(first))
	default:
		return
	}
	q.rings = first
}

// expire wakes all whose time is over, from one timer: one for each would make a
// goroutine for each in the instant in which a full queue expires, which is when there
// is no time for it (BenchmarkExpiredQueue).
func (q *Queue) expire() {
	var late *waiter
	q.mu.Lock()
	for now := time.Now(); len(q.due) > 0 && !q.due[0].deadline.After(now); {
		w := q.due[0]
		q.remove(w)
		w.lost = true
		w.next, late = late, w
	}
	if len(q.due) > 0 {
		q.rings = q.due[0].deadline
		q.timer.Reset(time.Until(q.rings))
	}
	q.mu.Unlock()
	for late != nil {
		w := late
		late, w.next = w.next, nil
		close(w.turn)
	}
}

// giveUp wakes w, which gets no turn any more unless it has it already.
func (q *Queue) giveUp(w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.remove(w) {
		w.lost = true
		close(w.turn)
	}
}

// queue waits until it is g's turn in q. It does not wait for the Done of ctx, which
// would be most of what it costs (BenchmarkExpiredQueue). After an error, which says
// why h must not run, g has no turn.
func (g *guard) queue(q *Queue, ctx context.Context) error {
	deadline, _ := g.node.Deadline()
	w, err := q.enter(deadline)
	if err != nil || w == nil {
		return err
	}
	began := time.Now()
	g.fence.Lock()
	g.waiter = w
	g.fence.Unlock()
	g.node.Disarm()                // q has a timer for all
	if g.node.Flag().Load() != 0 { // and from here on the end of the client is told
		q.giveUp(w)
	}
	<-w.turn
	if w.lost {
		g.node.ExpireIfDue()
	} else {
		g.node.Rearm()
	}
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
	if w := q.waiting.first; q.remove(w) {
		close(w.turn)
		return
	}
	q.running--
}
