package budget_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/curfew-go/curfew/budget"
)

// BenchmarkKindOf is what a classification costs, near the top of an error's
// tree and deep in it.
func BenchmarkKindOf(b *testing.B) {
	cause := &budget.Cause{Kind: budget.DeadlineExceeded}
	for _, bb := range []struct {
		name string
		err  error
	}{
		{"nil", nil},
		{"cause", cause},
		{"wrapped cause", fmt.Errorf("a: %w", fmt.Errorf("b: %w", cause))},
		{"std", context.DeadlineExceeded},
		{"failure", errors.New("boom")},
	} {
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if budget.KindOf(bb.err) > budget.Closed {
					b.Fatal("no kind")
				}
			}
		})
	}
}

// BenchmarkRequire is the check before a side effect. It allocates only when
// it refuses.
func BenchmarkRequire(b *testing.B) {
	ctx := enter(b, context.Background(), budget.Within(time.Hour).Named("route maximum"))
	for name, need := range map[string]time.Duration{"enough": time.Second, "too little": 2 * time.Hour} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if (budget.Require(ctx, need) == nil) != (need == time.Second) {
					b.Fatal("wrong")
				}
			}
		})
	}
}
