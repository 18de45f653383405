package checkpoint_test

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/checkpoint"
)

// These tests are about real time, on machines that may be busy with something else.
// What the operating system took from a loop is not what its Point is late by, so it
// is left out; the log has the figures as a clock on the wall sees them, which on a
// machine of its own are those that count: within 10 ms.

func logLate(t *testing.T, late []time.Duration) {
	slices.Sort(late)
	t.Logf("late by %v in half of %d, by %v in nine of ten, by %v at most",
		late[len(late)/2], len(late), late[len(late)*9/10], late[len(late)-1])
	assert.GreaterOrEqual(t, late[0], time.Duration(0), "seen before the deadline")
}

// Every processor computes, so that no timer comes in time: the clock tells. By the
// timer alone, these deadlines are seen once the scheduler has preempted a loop, which
// it does after 10 ms.
func TestADeadlineIsSeenWithEveryProcessorBusy(t *testing.T) {
	const (
		most = 2 * time.Millisecond
		lost = 100 * time.Microsecond // a turn that took longer was not running
	)
	var late []time.Duration
	for range 20 {
		ctx, cancel := enter(t, context.Background(), budget.Within(25*time.Millisecond))
		deadline, _ := ctx.Deadline()
		seen := make([]time.Duration, runtime.GOMAXPROCS(0))
		ran := make([]time.Duration, len(seen)) // past the deadline
		var loops sync.WaitGroup
		for i := range seen {
			loops.Go(func() {
				p := checkpoint.New(ctx)
				for last := time.Until(deadline); p.Err() == nil; {
					left := time.Until(deadline)
					if took := last - left; left < 0 && took < lost {
						ran[i] += took
					}
					last = left
				}
				seen[i] = time.Since(deadline)
			})
		}
		loops.Wait()
		cancel()
		late = append(late, seen...)
		assert.LessOrEqual(t, slices.Max(ran), most, "a loop ran on past its deadline")
	}
	logLate(t, late)
}

var spent int // keeps spin from being optimized away

// spin computes for about d.
func spin(d time.Duration) {
	for start := time.Now(); time.Since(start) < d; {
		spent++
	}
}

// A loop that becomes slow has its next look at the clock a thousand turns ahead:
// there the word that the timer sets tells. The clock alone would be a second late.
func TestADeadlineIsSeenInALoopThatBecomesSlow(t *testing.T) {
	if runtime.GOMAXPROCS(0) < 2 {
		t.Skip("no processor is free for the timer")
	}
	const within = 40 * time.Millisecond
	for name, begin := range map[string]func() (context.Context, context.CancelFunc){
		"ours": func() (context.Context, context.CancelFunc) {
			return enter(t, context.Background(), budget.Within(within))
		},
		"std": func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(context.Background(), within)
		},
	} {
		t.Run(name, func(t *testing.T) {
			var late []time.Duration
			for range 10 {
				ctx, cancel := begin()
				deadline, _ := ctx.Deadline()
				// Another timer of the same instant says when a timer could tell at all.
				var told atomic.Bool
				timer := time.AfterFunc(time.Until(deadline), func() { told.Store(true) })
				p := checkpoint.New(ctx)
				for i := 0; p.Err() == nil; i++ { // a nanosecond a turn, for half of the time
					if i%1024 == 0 && time.Until(deadline) < within/2 {
						break
					}
				}
				turns := 0 // of a millisecond, since a timer could tell
				for ; p.Err() == nil; spin(time.Millisecond) {
					if told.Load() {
						turns++
					}
				}
				late = append(late, time.Since(deadline))
				assert.LessOrEqual(t, turns, 10)
				timer.Stop()
				cancel()
			}
			logLate(t, late)
		})
	}
}
