package checkpoint_test

import (
	"context"
	"testing"
	"time"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/checkpoint"
)

// turns is how many turns one iteration of a benchmark makes: testing.B.Loop costs
// as much as a turn.
const turns = 1_000_000

// BenchmarkTurn is what it costs to ask, each turn of a loop that does nothing else,
// whether to go on: beside an empty loop, ctx.Err() and a select. ns/turn is what
// to compare; all are within one run.
func BenchmarkTurn(b *testing.B) {
	ours, cancel, err := budget.Enter(context.Background(), budget.Within(time.Hour))
	if err != nil {
		b.Fatal(err)
	}
	defer cancel()
	std, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()

	perTurn := func(name string, f func(b *testing.B)) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				f(b)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/turns, "ns/turn")
		})
	}
	perTurn("empty", func(*testing.B) { empty() })
	for _, c := range []struct {
		name string
		ctx  context.Context
	}{{"ours", ours}, {"std", std}, {"background", context.Background()}, {"own", &own{std, make(chan struct{})}}} {
		perTurn("Point.Err/"+c.name, func(b *testing.B) {
			if withPoint(checkpoint.New(c.ctx)) != nil {
				b.Fatal("ended")
			}
		})
	}
	for _, c := range []struct {
		name string
		ctx  context.Context
	}{{"ours", ours}, {"std", std}} {
		perTurn("ctx.Err/"+c.name, func(b *testing.B) {
			if withErr(c.ctx) != nil {
				b.Fatal("ended")
			}
		})
		perTurn("select/"+c.name, func(b *testing.B) {
			if withSelect(c.ctx) != nil {
				b.Fatal("ended")
			}
		})
	}
}

//go:noinline
func empty() {
	for range turns {
	}
}

//go:noinline
func withPoint(p *checkpoint.Point) error {
	for range turns {
		if err := p.Err(); err != nil {
			return err
		}
	}
	return nil
}

//go:noinline
func withErr(ctx context.Context) error {
	for range turns {
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

//go:noinline
func withSelect(ctx context.Context) error {
	for range turns {
		select {
		case <-ctx.Done():
			return ctx.Err()
		default:
		}
	}
	return nil
}

// BenchmarkNew is what a Point costs to make: for a context of ours, and for another
// one, with which it is registered.
func BenchmarkNew(b *testing.B) {
	ours, cancel, err := budget.Enter(context.Background(), budget.Within(time.Hour))
	if err != nil {
		b.Fatal(err)
	}
	defer cancel()
	for _, c := range []struct {
		name    string
		context func() (context.Context, context.CancelFunc)
	}{
		{"ours", func() (context.Context, context.CancelFunc) { return ours, func() {} }},
		{"std", func() (context.Context, context.CancelFunc) { return context.WithCancel(context.Background()) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			ctx, cancel := c.context()
			defer cancel()
			for b.Loop() {
				if checkpoint.New(ctx).Err() != nil {
					b.Fatal("ended")
				}
			}
		})
	}
}
