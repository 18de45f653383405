package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sourcegraph/conc/pool"
	"golang.org/x/sync/errgroup"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
)

// An expirer starts n tasks under a deadline, and returns when they have ended.
type expirer func(at time.Time, n int, task func(context.Context) error)

func expireScope(at time.Time, n int, task func(context.Context) error) {
	_ = scope.Run(context.Background(), "bench", budget.Until(at), func(_ context.Context, s *scope.Scope) error {
		for range n {
			s.Go("task", task)
		}
		return nil
	})
}

func expireErrgroup(at time.Time, n int, task func(context.Context) error) {
	ctx, cancel := context.WithDeadline(context.Background(), at)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	for range n {
		g.Go(func() error { return task(ctx) })
	}
	_ = g.Wait()
}

func expireConc(at time.Time, n int, task func(context.Context) error) {
	ctx, cancel := context.WithDeadline(context.Background(), at)
	defer cancel()
	p := pool.New().WithContext(ctx).WithCancelOnError()
	for range n {
		p.Go(task)
	}
	_ = p.Wait()
}

// expireChannel is the least that can be done: a timer closes a channel.
func expireChannel(at time.Time, n int, task func(context.Context) error) {
	ctx := bareCtx{context.Background(), make(chan struct{})}
	timer := time.AfterFunc(time.Until(at), func() { close(ctx.done) })
	defer timer.Stop()
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() { _ = task(ctx) })
	}
	wg.Wait()
}

// expire lets a deadline end n tasks, room from now: late-ns is from the instant of the
// deadline until the last of them has observed it, returned-ns until the group returned.
// It returns nothing where not all were parked a millisecond before. The processors do
// not sleep meanwhile, since a timer is late by up to a millisecond where all do: by how
// much depends on the instant at which the last task parked, not on who set the timer.
func expire(n int, room time.Duration, start expirer) []Metric {
	_, sleep := awake()
	defer sleep()
	var parked, left atomic.Int64
	left.Store(int64(n))
	var late atomic.Bool
	var seen time.Time
	at := time.Now().Add(room)
	start(at, n, func(ctx context.Context) error {
		if parked.Add(1); time.Until(at) < time.Millisecond {
			late.Store(true)
		}
		<-ctx.Done()
		if left.Add(-1) == 0 {
			seen = time.Now()
		}
		return ctx.Err()
	})
	if late.Load() || parked.Load() < int64(n) {
		return nil
	}
	return []Metric{{"late-ns", float64(seen.Sub(at))}, {"returned-ns", float64(time.Since(at))}}
}

// parksIn is the time that n tasks are first given to park.
func parksIn(n int) time.Duration { return 20*time.Millisecond + time.Duration(n)*2*time.Microsecond }

// expires measures one system. Where its tasks were not parked in time the sample is not
// counted, and room is twice as long from then on, up to eight times what it was at first.
// The systems of a case share it, since none is to have had longer to settle.
func expires(name string, n int, room *time.Duration, start expirer) System {
	return System{name, func() Work {
		return Work{Sample: func() []Metric {
			for {
				if got := expire(n, *room, start); got != nil || *room > 4*parksIn(n) {
					return got
				}
				*room *= 2
			}
		}}
	}}
}

func deadlineCase(s Scale, n, named int) Case {
	room := parksIn(n)
	c := Case{
		Name: fmt.Sprintf("%d until the deadline", named), Parent: "background", Limit: "channel",
		Main: "returned-ns", Spread: []string{"late-ns"},
		Systems: []System{
			expires("curfew", n, &room, expireScope), expires("errgroup", n, &room, expireErrgroup),
			expires("conc", n, &room, expireConc), expires("channel", n, &room, expireChannel),
		},
	}
	if !s.Quick && named > 1000 { // a sample takes a second, of which most is the wait
		c.Takes = 22 * time.Second
	}
	return c
}
