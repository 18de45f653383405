package bench

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
)

var _ = register(Suite{
	Name:  "nested",
	About: "scopes in scopes under a deadline that is there already; an op is all levels. Inline: the next level is opened by the body itself; task: by a task of it.",
	Cases: nestedCases,
})

func nestedCases(Scale) []Case {
	outer, _, err := budget.Enter(context.Background(), budget.Within(24*time.Hour))
	must(err)
	std := kept(context.WithTimeout(context.Background(), 24*time.Hour))
	var inline, tasks func(ctx context.Context, depth int) error
	inline = func(ctx context.Context, depth int) error {
		if depth == 0 {
			return nil
		}
		return scope.Run(ctx, "level", budget.Inherited(), func(ctx context.Context, _ *scope.Scope) error {
			return inline(ctx, depth-1)
		})
	}
	tasks = func(ctx context.Context, depth int) error {
		if depth == 0 {
			return nil
		}
		return scope.Run(ctx, "level", budget.Inherited(), func(_ context.Context, s *scope.Scope) error {
			s.Go("task", func(ctx context.Context) error { return tasks(ctx, depth-1) })
			return nil
		})
	}
	var group func(ctx context.Context, depth int) error
	group = func(ctx context.Context, depth int) error {
		if depth == 0 {
			return nil
		}
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		g, ctx := errgroup.WithContext(ctx)
		g.Go(func() error { return group(ctx, depth-1) })
		return g.Wait()
	}
	var cases []Case
	for _, depth := range []int{1, 4, 16} {
		cases = append(cases, Case{
			Name: fmt.Sprintf("%d deep", depth), Parent: "budget, std for errgroup",
			Systems: []System{
				op("curfew/inline", func() { must(inline(outer, depth)) }),
				op("curfew/task", func() { must(tasks(outer, depth)) }),
				op("errgroup", func() { must(group(std, depth)) }),
			},
		})
	}
	return cases
}
