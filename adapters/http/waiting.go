package curfewhttp

import "time"

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

func (d *dues) push(w *waiter) {
	*d = append(*d, w)
	w.place = len(*d) - 1
	d.up(w)
}

func (d *dues) remove(w *waiter) {
	n := len(*d) - 1
	last := (*d)[n]
	(*d)[n] = nil
	*d = (*d)[:n]
	if last != w {
		d.set(last, w.place)
		d.up(last)
		d.down(last)
	}
}

func (d dues) set(w *waiter, place int) {
	d[place] = w
	w.place = place
}

func (d dues) up(w *waiter) {
	for w.place > 0 {
		above := d[(w.place-1)/2]
		if !w.deadline.Before(above.deadline) {
			return
		}
		at := w.place
		d.set(w, above.place)
		d.set(above, at)
	}
}

func (d dues) down(w *waiter) {
	for {
		i := 2*w.place + 1
		if i >= len(d) {
			return
		}
		if i+1 < len(d) && d[i+1].deadline.Before(d[i].deadline) {
			i++
		}
		below := d[i]
		if !below.deadline.Before(w.deadline) {
			return
		}
		at := w.place
		d.set(w, below.place)
		d.set(below, at)
	}
}
