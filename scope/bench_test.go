package scope_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
)

// BenchmarkRun is a scope around nothing: what the block itself costs.
func BenchmarkRun(b *testing.B) {
	bounded, cancel, _ := budget.Enter(context.Background(), budget.Within(time.Hour))
	defer cancel()
	nothing := func(context.Context, *scope.Scope) error { return nil }
	for _, c := range []struct {
		name  string
		ctx   context.Context
		limit budget.Limit
	}{
		{"inherited", bounded, budget.Inherited()},
		{"within", bounded, budget.Within(time.Minute)},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				scope.Run(c.ctx, "bench", c.limit, nothing)
			}
		})
	}
	b.Run("asked for Done", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			scope.Run(bounded, "bench", budget.Inherited(), func(ctx context.Context, _ *scope.Scope) error {
				ctx.Done()
				return nil
			})
		}
	})
}

// BenchmarkGo is a scope with n tasks that do nothing.
func BenchmarkGo(b *testing.B) {
	for _, n := range []int{1, 4, 16, 256, 10_000} {
		b.Run(fmt.Sprint("tasks=", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				scope.Run(context.Background(), "bench", budget.Within(time.Minute), func(_ context.Context, s *scope.Scope) error {
					for range n {
						s.Go("task", func(context.Context) error { return nil })
					}
					return nil
				})
			}
		})
	}
}

// BenchmarkContended spawns into one scope from every processor.
func BenchmarkContended(b *testing.B) {
	b.ReportAllocs()
	scope.Run(context.Background(), "bench", budget.Within(time.Hour), func(_ context.Context, s *scope.Scope) error {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				s.Go("task", func(context.Context) error { return nil })
			}
		})
		return nil
	})
}

// BenchmarkCancel is one failure in a scope of n tasks that wait for the end.
func BenchmarkCancel(b *testing.B) {
	boom := errors.New("boom")
	for _, n := range []int{10, 1000} {
		b.Run(fmt.Sprint("tasks=", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				scope.Run(context.Background(), "bench", budget.Within(time.Minute), func(ctx context.Context, s *scope.Scope) error {
					for range n {
						s.Go("waits", func(ctx context.Context) error {
							<-ctx.Done()
							return ctx.Err()
						})
					}
					return boom
				})
			}
		})
	}
}
