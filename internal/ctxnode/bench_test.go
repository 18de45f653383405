package ctxnode_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/ctxnode"
)

var sink context.Context

// liveHeap is what a service holds at least. With an empty heap the garbage
// collector runs every 4 MiB, and a benchmark measures that.
func liveHeap(b *testing.B) {
	held := make([]byte, 32<<20)
	b.Cleanup(func() { runtime.KeepAlive(held) })
}

// BenchmarkEnter is what it costs to open a context of ours and to cancel it,
// and what std takes for the same.
func BenchmarkEnter(b *testing.B) {
	liveHeap(b)
	outer := enter(b, context.Background(), budget.Within(time.Hour))
	std := timed(b, context.Background(), time.Hour)
	for _, bb := range []struct {
		name string
		f    func()
	}{
		{"inherited", func() { ctx, cancel, _ := budget.Enter(outer, budget.Inherited()); sink = ctx; cancel() }},
		{"inherited/Done", func() { ctx, cancel, _ := budget.Enter(outer, budget.Inherited()); ctx.Done(); cancel() }},
		{"within", func() {
			ctx, cancel, _ := budget.Enter(outer, budget.Within(time.Minute))
			sink = ctx
			cancel()
		}},
		{"within/Done", func() {
			ctx, cancel, _ := budget.Enter(outer, budget.Within(time.Minute))
			ctx.Done()
			cancel()
		}},
		{"within/std parent", func() {
			ctx, cancel, _ := budget.Enter(std, budget.Within(time.Minute))
			sink = ctx
			cancel()
		}},
		{"std WithCancel/Done", func() { ctx, cancel := context.WithCancel(std); ctx.Done(); cancel() }},
		{"std WithTimeout", func() { ctx, cancel := context.WithTimeout(std, time.Minute); sink = ctx; cancel() }},
		{"std WithTimeout/Done", func() { ctx, cancel := context.WithTimeout(std, time.Minute); ctx.Done(); cancel() }},
	} {
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				bb.f()
			}
		})
	}
}

// BenchmarkDerive is what a std child costs below a context of ours, below one
// wrapped by tracing, and below a std context.
func BenchmarkDerive(b *testing.B) {
	liveHeap(b)
	ours := enter(b, context.Background(), budget.Within(time.Hour))
	std := timed(b, context.Background(), time.Hour)
	for _, parent := range []struct {
		name string
		ctx  context.Context
	}{
		{"ours", ours},
		{"ours behind WithValue", context.WithValue(ours, key("span"), 1)},
		{"std", std},
		{"std behind WithValue", context.WithValue(std, key("span"), 1)},
	} {
		b.Run(parent.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				ctx, cancel := context.WithCancel(parent.ctx)
				sink = ctx
				cancel()
			}
		})
	}
}

// BenchmarkErr is the cost of asking, of a context that nobody has asked for
// Done, of one that somebody has, and of a std one.
func BenchmarkErr(b *testing.B) {
	quiet := enter(b, context.Background(), budget.Within(time.Hour))
	asked := enter(b, context.Background(), budget.Within(time.Hour))
	asked.Done()
	for name, ctx := range map[string]context.Context{
		"ours": quiet, "ours/Done": asked, "std": timed(b, context.Background(), time.Hour),
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if ctx.Err() != nil {
					b.Fatal("ended")
				}
			}
		})
	}
}

// What a context costs is a promise: DESIGN.md counts on one allocation for a
// context whose Done nobody asks for. The other is the CancelFunc.
func TestAllocationsOfAContext(t *testing.T) {
	outer := enter(t, context.Background(), budget.Within(time.Hour))
	for _, tt := range []struct {
		name string
		most float64
		f    func()
	}{
		{"node alone", 1, func() {
			n := new(ctxnode.Node)
			d, _ := outer.Deadline()
			n.Start(outer, d, false)
			n.Close(ended)
			sink = &n.View
		}},
		{"Enter inherited", 2, func() {
			ctx, cancel, _ := budget.Enter(outer, budget.Inherited())
			sink = ctx
			cancel()
		}},
		{"Enter inherited, Err and Deadline asked", 2, func() {
			ctx, cancel, _ := budget.Enter(outer, budget.Inherited())
			_ = ctx.Err()
			_, _ = ctx.Deadline()
			_ = ctx.Value(key("none"))
			sink = ctx
			cancel()
			_ = ctx.Err()
		}},
		{"Enter with a timer", 4, func() {
			ctx, cancel, _ := budget.Enter(outer, budget.Within(time.Minute))
			sink = ctx
			cancel()
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if raceEnabled {
				t.Skip("the race detector allocates")
			}
			assert.LessOrEqual(t, testing.AllocsPerRun(200, tt.f), tt.most)
		})
	}
}

var ended = &ctxnode.Ending{Cause: context.Canceled, Err: context.Canceled}
