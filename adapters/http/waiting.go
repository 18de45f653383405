package curfewhttp

import (
	"container/heap"
	"time"
)

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
	deadline   time.Time
	place      int // in the dues of its Queue
}

func (f *fifo) push(deadline time.Time) *waiter {
	w := &waiter{turn: make(chan struct{}), prev: f.last, waits: true, deadline: deadline}
	if f.last != nil {
		f.last.next = w
	} else {
		f.first = w
	}
	f.last = w
	f.n++
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

// dues is a heap of those who wait, the one whose time is over first at its root.
type dues []*waiter

var _ heap.Interface = (*dues)(nil)

func (d dues) Len() int           { return len(d) }
func (d dues) Less(i, j int) bool { return d[i].deadline.Before(d[j].deadline) }

func (d dues) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].place, d[j].place = i, j
}

func (d *dues) Push(w any) {
	w.(*waiter).place = len(*d)
	*d = append(*d, w.(*waiter))
}

func (d *dues) Pop() any {
	n := len(*d) - 1
	w := (*d)[n]
	(*d)[n] = nil
	*d = (*d)[:n]
	return w
}
