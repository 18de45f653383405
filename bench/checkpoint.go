package bench

import (
	"context"
	"time"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/checkpoint"
)

var _ = register(Suite{
	Name:  "checkpoint",
	About: "a turn of a loop that does nothing but ask whether to go on.",
	Cases: checkpointCases,
})

func checkpointCases(Scale) []Case {
	ours, _, err := budget.Enter(context.Background(), budget.Within(24*time.Hour))
	must(err)
	std := kept(context.WithTimeout(context.Background(), 24*time.Hour))
	loop := func(name string, f func(n int)) System {
		return System{name, func() Work { return Work{Op: f} }}
	}
	return []Case{{
		Name: "turn", Parent: "budget, std", Limit: "empty",
		Systems: []System{
			loop("curfew", func(n int) { turnPoint(checkpoint.New(ours), n) }),
			loop("curfew/std ctx", func(n int) { turnPoint(checkpoint.New(std), n) }),
			loop("std/Err", func(n int) { turnErr(std, n) }),
			loop("std/select", func(n int) { turnSelect(std, n) }),
			loop("empty", turnEmpty),
		},
	}}
}

// The loops are functions of their own so that the compiler makes each of them
// what it would be in a program.
//
//go:noinline
func turnEmpty(n int) {
	for range n {
	}
}

//go:noinline
func turnPoint(p *checkpoint.Point, n int) {
	for range n {
		if p.Err() != nil {
			panic("bench: ended")
		}
	}
}

//go:noinline
func turnErr(ctx context.Context, n int) {
	for range n {
		if ctx.Err() != nil {
			panic("bench: ended")
		}
	}
}

//go:noinline
func turnSelect(ctx context.Context, n int) {
	for range n {
		select {
		case <-ctx.Done():
			panic("bench: ended")
		default:
		}
	}
}
