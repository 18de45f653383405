package race_test

import (
	"context"
	"testing"
	"time"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
	"github.com/curfew-go/curfew/scope/race"
)

// BenchmarkHedge is a hedge that is armed and not fired, because its first attempt
// answers at once: what a call pays for being hedged.
func BenchmarkHedge(b *testing.B) {
	later := every(time.Hour - time.Second)
	quick := func(context.Context) (int, error) { return 1, nil }
	asks := func(ctx context.Context) (int, error) { ctx.Done(); return 1, nil }
	for _, c := range []struct {
		name string
		cfg  race.Config[int]
		f    func(context.Context) (int, error)
	}{
		{"own goroutine", race.Config[int]{After: later}, quick},
		{"own goroutine, asked for Done", race.Config[int]{After: later}, asks},
		{"inline", race.Config[int]{After: later, Inline: true}, quick},
		{"inline, asked for Done", race.Config[int]{After: later, Inline: true}, asks},
	} {
		b.Run("in a scope/"+c.name, func(b *testing.B) {
			b.ReportAllocs()
			scope.Run(context.Background(), "bench", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
				s.SetStragglers(-1, scope.Wait)
				for b.Loop() {
					c.cfg.Hedge(ctx, "bench", c.f)
				}
				return nil
			})
		})
		b.Run("std parent/"+c.name, func(b *testing.B) {
			b.ReportAllocs()
			ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
			defer cancel()
			for b.Loop() {
				c.cfg.Hedge(ctx, "bench", c.f)
			}
		})
	}
}

// BenchmarkHedgeLaunched is one whose second attempt starts at once and whose first
// one waits until it has lost.
func BenchmarkHedgeLaunched(b *testing.B) {
	b.ReportAllocs()
	cfg := race.Config[int]{After: every(0)}
	scope.Run(context.Background(), "bench", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
		s.SetStragglers(-1, scope.Wait)
		for b.Loop() {
			cfg.Hedge(ctx, "bench", func(ctx context.Context) (int, error) {
				if race.Attempt(ctx) == 0 {
					<-ctx.Done()
				}
				return 1, nil
			})
		}
		return nil
	})
}

// BenchmarkFirst is a race of attempts that answer at once.
func BenchmarkFirst(b *testing.B) {
	quick := func(context.Context) (int, error) { return 1, nil }
	b.ReportAllocs()
	scope.Run(context.Background(), "bench", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
		s.SetStragglers(-1, scope.Wait)
		for b.Loop() {
			race.First(ctx, "bench", quick, quick, quick)
		}
		return nil
	})
}
