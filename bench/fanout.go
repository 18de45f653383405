package bench

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/sourcegraph/conc/pool"
	"golang.org/x/sync/errgroup"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
)

var _ = register(Suite{
	Name: "fanout",
	About: "n tasks under a deadline of a minute, started and joined. The work of one op is all n tasks. " +
		"curfew/all is scope.All, one call that is handed all tasks; waitgroup is the limit: it starts and joins, and neither collects errors nor cancels.",
	Cases: fanoutCases,
})

func nothing(context.Context) error { return nil }

// spin keeps a processor busy for about 10 µs, by the clock: what a task of real
// work leaves of the cost of starting it.
func spin(context.Context) error {
	for start := time.Now(); time.Since(start) < 10*time.Microsecond; {
	}
	return nil
}

type task = func(context.Context) error

// op makes a system whose every operation is f, under the parent.
func op(name string, f func()) System {
	return System{name, func() Work {
		return Work{Op: func(n int) {
			for range n {
				f()
			}
		}}
	}}
}

func runGo(parent context.Context, n int, f task) System {
	return op("curfew", func() {
		must(scope.Run(parent, "bench", budget.Within(time.Minute), func(_ context.Context, s *scope.Scope) error {
			for range n {
				s.Go("task", f)
			}
			return nil
		}))
	})
}

func errGroup(parent context.Context, n, width int, f task) System {
	return op("errgroup", func() {
		ctx, cancel := context.WithTimeout(parent, time.Minute)
		defer cancel()
		g, ctx := errgroup.WithContext(ctx)
		if width > 0 {
			g.SetLimit(width)
		}
		for range n {
			g.Go(func() error { return f(ctx) })
		}
		must(g.Wait())
	})
}

func concPool(parent context.Context, n int, f task) System {
	return op("conc", func() {
		ctx, cancel := context.WithTimeout(parent, time.Minute)
		defer cancel()
		p := pool.New().WithContext(ctx).WithCancelOnError()
		for range n {
			p.Go(f)
		}
		must(p.Wait())
	})
}

func waitGroup(parent context.Context, n int, f task) System {
	return op("waitgroup", func() {
		ctx, cancel := context.WithTimeout(parent, time.Minute)
		defer cancel()
		var wg sync.WaitGroup
		for range n {
			wg.Go(func() { _ = f(ctx) })
		}
		wg.Wait()
	})
}

// all hands the tasks over at once. The one-call forms inherit their deadline, so
// the limit is entered around them: the price is part of the figure.
func all(parent context.Context, n int) System {
	fs := make([]func(context.Context) (int, error), n)
	for i := range fs {
		fs[i] = func(context.Context) (int, error) { return i, nil }
	}
	return op("curfew/all", func() {
		ctx, cancel, err := budget.Enter(parent, budget.Within(time.Minute))
		must(err)
		_, err = scope.All(ctx, "bench", fs...)
		cancel()
		must(err)
	})
}

// must stops the program: a system that fails its work has no figure.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

func fanoutCases(s Scale) []Case {
	bg := context.Background()
	std := kept(context.WithCancel(bg))
	var cases []Case
	for _, n := range []int{1, 4, 16, 256, 10_000} {
		k := s.size(n)
		cases = append(cases, Case{
			Name: fmt.Sprintf("%d tasks", n), Parent: "background", Limit: "waitgroup",
			Systems: []System{runGo(bg, k, nothing), all(bg, k), errGroup(bg, k, 0, nothing), concPool(bg, k, nothing), waitGroup(bg, k, nothing)},
		}, Case{
			Name: fmt.Sprintf("%d tasks of 10 µs", n), Parent: "background", Limit: "waitgroup",
			Systems: []System{runGo(bg, k, spin), errGroup(bg, k, 0, spin), concPool(bg, k, spin), waitGroup(bg, k, spin)},
		})
	}
	items := make([]int, s.size(10_000))
	each := op("curfew", func() {
		ctx, cancel, err := budget.Enter(bg, budget.Within(time.Minute))
		must(err)
		defer cancel()
		must(scope.Each(ctx, "bench", 16, items, func(context.Context, int) error { return nil }))
	})
	return append(cases, Case{
		Name: "4 tasks, std parent", Parent: "std", Limit: "waitgroup",
		Systems: []System{runGo(std, 4, nothing), errGroup(std, 4, 0, nothing), concPool(std, 4, nothing), waitGroup(std, 4, nothing)},
	}, Case{
		Name: "each of 10000, width 16", Parent: "background",
		Systems: []System{each, errGroup(bg, len(items), 16, nothing)},
	})
}

// kept drops the cancel of a context that lives as long as the process.
func kept(ctx context.Context, _ context.CancelFunc) context.Context { return ctx }
