package bench

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/sourcegraph/conc/pool"
	"golang.org/x/sync/errgroup"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/checkpoint"
	"github.com/curfew-go/curfew/scope"
)

var _ = register(Suite{
	Name: "cancel",
	About: "one task fails: from the instant before its return until the last of n parked tasks has observed it (observed-ns), " +
		"and until the group has returned (returned-ns). ignored counts tasks that had not ended when patience was over. " +
		"Client leaves, MariaDB: sessions have a max_statement_time of 1 s, and it is that limit which ends the statement under std. " +
		"Loops are 10 only: one that never parks needs a processor, so that a thousand would begin one after the other, some 10 ms each. " +
		"Network reads end at 1000, since each has two descriptors. " +
		"Until the deadline: late-ns is from its instant until the last task has observed it, with processors that are kept awake, as a timer is late where they sleep.",
	Cases: cancelCases,
})

func cancelScope(n int, task, fail func(context.Context) error) error {
	return scope.Run(context.Background(), "bench", budget.Within(time.Hour), func(_ context.Context, s *scope.Scope) error {
		for range n {
			s.Go("task", task)
		}
		s.Go("fails", fail)
		return nil
	})
}

func cancelErrgroup(n int, task, fail func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	for range n {
		g.Go(func() error { return task(ctx) })
	}
	g.Go(func() error { return fail(ctx) })
	return g.Wait()
}

func cancelConc(n int, task, fail func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	p := pool.New().WithContext(ctx).WithCancelOnError()
	for range n {
		p.Go(task)
	}
	p.Go(fail)
	return p.Wait()
}

// bareCtx is a context that is a channel and nothing else.
type bareCtx struct {
	context.Context
	done chan struct{}
}

func (c bareCtx) Done() <-chan struct{} { return c.done }

// Err is not asked of the channel: that would be part of the limit.
func (c bareCtx) Err() error { return nil }

// cancelChannel is the least that can be done: close a channel, wait for all.
func cancelChannel(n int, task, fail func(context.Context) error) error {
	ctx := bareCtx{context.Background(), make(chan struct{})}
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() { _ = task(ctx) })
	}
	wg.Go(func() {
		_ = fail(ctx)
		close(ctx.done)
	})
	wg.Wait()
	return errBoom
}

// within makes a canceller whose tasks each open something of their own first.
func within(start canceller, open func(context.Context, func(context.Context) error) error) canceller {
	return func(n int, task, fail func(context.Context) error) error {
		return start(n, func(ctx context.Context) error { return open(ctx, task) }, fail)
	}
}

func subScope(ctx context.Context, task func(context.Context) error) error {
	return scope.Run(ctx, "sub", budget.Inherited(), func(ctx context.Context, _ *scope.Scope) error { return task(ctx) })
}

func subTimeout(ctx context.Context, task func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return task(ctx)
}

type waiting = func(context.Context, <-chan struct{}) bool

func cancels(name string, n int, start canceller, wait waiting) System {
	return System{name, func() Work {
		return Work{Sample: func() []Metric { return measure(n, patience, start, wait) }}
	}}
}

// onPoint, onErr and onSelect are loops that never park, and ask each turn.
func onPoint(ctx context.Context, release <-chan struct{}) bool {
	p := checkpoint.New(ctx)
	for p.Err() == nil {
	}
	return true
}

func onErr(ctx context.Context, _ <-chan struct{}) bool {
	for ctx.Err() == nil {
	}
	return true
}

func cancelCases(s Scale) []Case {
	const metric, observed = "returned-ns", "observed-ns"
	var cases []Case
	for _, n := range []int{10, 1000, 100_000} {
		k := s.size(n)
		four := func(wait waiting) []System {
			return []System{cancels("curfew", k, cancelScope, wait), cancels("errgroup", k, cancelErrgroup, wait),
				cancels("conc", k, cancelConc, wait), cancels("channel", k, cancelChannel, wait)}
		}
		add := func(c Case) {
			if k > 1000 { // a sample takes about half a second
				c.Takes = max(c.Takes, pick(s, 14*time.Second, 5*time.Second))
				c.Rounds = pick(s, 0, 1)
			}
			cases = append(cases, c)
		}
		parked := func(what, limit string, systems ...System) {
			add(Case{
				Name: fmt.Sprintf("%d %s", n, what), Parent: "background", Limit: limit,
				Main: metric, Spread: []string{observed}, Systems: systems,
			})
		}
		parked("on their ctx", "channel", four(onDone)...)
		parked("in sub-scopes", "", cancels("curfew", k, within(cancelScope, subScope), onDone),
			cancels("errgroup", k, within(cancelErrgroup, subTimeout), onDone))
		if n <= 1000 || !s.Quick {
			parked("in timers", "channel", four(onTimer)...)
			parked("in derived std contexts", "", four(onDerived)[:3]...)
			add(deadlineCase(s, k, n))
		}
		if n <= 1000 {
			add(netCase(k, n))
		}
	}
	cases = append(cases, leavesCases(s)...)
	return append(cases, Case{
		Name: "10 in loops", Parent: "background", Main: metric, Spread: []string{observed},
		Systems: []System{cancels("curfew", 10, cancelScope, onPoint), cancels("errgroup", 10, cancelErrgroup, onErr)},
	})
}
