package bench

import (
	"container/heap"
	"context"
	"runtime"
	"sync"
	"time"
)

// A passing lets some time pass, or less when ctx ends, whose cause it then returns.
type passing func(ctx context.Context, d time.Duration) error

// byTimer passes time by a timer.
func byTimer(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// awake returns what passes real time to within microseconds, and what ends it. Until then no
// processor of this process sleeps: on each a goroutine looks at the clock all the time, and
// gives way to all others each time it has looked. In a process that mostly waits a timer is
// late by up to a millisecond, in which its poller counts, and by up to three where others are
// busy, since a processor that sleeps does not look at its own. A backend that is timed
// so is slower than is said of it, and a hedge of it later.
func awake() (pass passing, end func()) {
	var mu sync.Mutex
	var waits waitHeap // under mu
	over := make(chan struct{})
	var clocks sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		clocks.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				mu.Lock()
				for now := time.Now(); len(waits) > 0 && !now.Before(waits[0].until); {
					close(heap.Pop(&waits).(wait).over)
				}
				mu.Unlock()
				runtime.Gosched()
			}
		})
	}
	pass = func(ctx context.Context, d time.Duration) error {
		w := wait{time.Now().Add(d), make(chan struct{})}
		mu.Lock()
		heap.Push(&waits, w)
		mu.Unlock()
		select {
		case <-w.over:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return pass, func() {
		close(over)
		clocks.Wait()
	}
}

// A wait is for an instant, of which a channel that is closed tells.
type wait struct {
	until time.Time
	over  chan struct{}
}

// A waitHeap is a heap of waits, for package heap.
type waitHeap []wait

func (h waitHeap) Len() int           { return len(h) }
func (h waitHeap) Less(i, j int) bool { return h[i].until.Before(h[j].until) }
func (h waitHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *waitHeap) Push(w any)        { *h = append(*h, w.(wait)) }
func (h *waitHeap) Pop() any {
	last := len(*h) - 1
	w := (*h)[last]
	*h = (*h)[:last]
	return w
}
