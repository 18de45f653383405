package ledger_test

import (
	"context"
	"testing"
	"time"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/budget/ledger"
)

// BenchmarkRequest is what one request pays for its account.
func BenchmarkRequest(b *testing.B) {
	ctx := enter(b, context.Background(), budget.Within(time.Hour))
	request := func(calls int) *ledger.Ledger {
		ctx, l := ledger.New(ctx, "checkout")
		l.Stage(ledger.Queue, ms)
		for range calls {
			c := ledger.From(ctx).Call("inventory", 40*ms)
			c.Stage(ledger.PoolWait, ms)
			c.Stage(ledger.Work, ms)
			c.Done(nil)
		}
		l.Close(nil)
		return l
	}
	for name, calls := range map[string]int{"no call": 0, "two calls": 2, "ten calls": 10} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				request(calls)
			}
		})
	}
	b.Run("without a ledger", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			c := ledger.From(ctx).Call("inventory", 40*ms)
			c.Stage(ledger.Work, ms)
			c.Done(nil)
		}
	})
	l := request(2)
	for name, form := range map[string]func() string{"line": l.String, "Server-Timing": l.ServerTiming} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_ = form()
			}
		})
	}
	b.Run("attributes", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = l.LogValue()
		}
	})
}

// BenchmarkParallelCalls is the contention of calls of one request.
func BenchmarkParallelCalls(b *testing.B) {
	_, l := ledger.New(context.Background(), "fan-out")
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			l.Call("inventory", ms).Done(nil)
		}
	})
}
