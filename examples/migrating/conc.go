package migrating

import (
	"context"
	"slices"
	"time"

	"github.com/sourcegraph/conc"
	"github.com/sourcegraph/conc/pool"
	"github.com/sourcegraph/conc/stream"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
)

func (shop *Shop) pricesPool(ctx context.Context, items []string) ([]int, error) {
	p := pool.NewWithResults[int]().WithContext(ctx).WithCancelOnError().WithMaxGoroutines(8)
	for _, item := range items {
		p.Go(func(ctx context.Context) (int, error) { return shop.Price(ctx, item) })
	}
	return p.Wait()
}

func (shop *Shop) pricesMap(ctx context.Context, items []string) ([]int, error) {
	return scope.Map(ctx, "prices", 8, items, shop.Price)
}

func (shop *Shop) refreshPool(ctx context.Context, items []string) error {
	p := pool.New().WithErrors().WithMaxGoroutines(8)
	for _, item := range items {
		p.Go(func() error { return shop.Refresh(ctx, item) })
	}
	return p.Wait() // all errors, joined
}

func (shop *Shop) refreshKeepGoing(ctx context.Context, items []string) error {
	return scope.Run(ctx, "refresh", budget.Within(time.Minute), func(_ context.Context, s *scope.Scope) error {
		s.SetSlots(8)
		s.SetKeepGoing()
		for _, item := range items {
			s.Go("refresh", func(ctx context.Context) error { return shop.Refresh(ctx, item) })
		}
		return nil
	})
}

func (shop *Shop) printStream(ctx context.Context, items []string, show func(int)) (failed error) {
	st := stream.New().WithMaxGoroutines(8)
	for _, item := range items {
		st.Go(func() stream.Callback {
			price, err := shop.Price(ctx, item)
			return func() {
				if err != nil {
					failed = err
				} else if failed == nil {
					show(price)
				}
			}
		})
	}
	st.Wait()
	return failed
}

func (shop *Shop) printMapSeq(ctx context.Context, items []string, show func(int)) error {
	for price, err := range scope.MapSeq(ctx, "prices", 8, slices.Values(items), shop.Price) {
		if err != nil {
			return err
		}
		show(price)
	}
	return nil
}

func (shop *Shop) bothWaitGroup(ctx context.Context, item string) {
	var wg conc.WaitGroup
	wg.Go(func() { _ = shop.Refresh(ctx, item) })
	wg.Go(func() { _ = shop.Mail(ctx, item) })
	wg.Wait() // panics with the first task's panic
}

func (shop *Shop) bothScope(ctx context.Context, item string) error {
	return scope.Run(ctx, "both", budget.Within(time.Second), func(_ context.Context, s *scope.Scope) error {
		s.Go("refresh", func(ctx context.Context) error { return shop.Refresh(ctx, item) })
		s.Go("mail", func(ctx context.Context) error { return shop.Mail(ctx, item) })
		return nil // Run waits, and panics with the first task's panic
	})
}
