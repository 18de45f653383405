package migrating

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
)

func (shop *Shop) pricesWaitGroup(ctx context.Context, items []string) ([]int, error) {
	prices := make([]int, len(items))
	errs := make([]error, len(items))
	var wg sync.WaitGroup
	for i, item := range items {
		wg.Go(func() { prices[i], errs[i] = shop.Price(ctx, item) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return prices, nil
}

func (shop *Shop) reviewsTimer(ctx context.Context, item string) []string {
	got := make(chan []string, 1)
	go func() {
		if reviews, err := shop.Reviews(ctx, item); err == nil {
			got <- reviews
		}
	}()
	select {
	case reviews := <-got:
		return reviews
	case <-time.After(100 * time.Millisecond):
		return nil // the goroutine goes on
	}
}

func (shop *Shop) reviewsOptional(ctx context.Context, item string) (Page, []scope.Missing, error) {
	var missing []scope.Missing
	page, err := scope.RunValue(ctx, "page", budget.Within(300*time.Millisecond),
		func(_ context.Context, s *scope.Scope) (Page, error) {
			price := scope.Fork(s, "price", func(ctx context.Context) (int, error) { return shop.Price(ctx, item) })
			reviews := scope.Fork(s.Optional(budget.Within(100*time.Millisecond)), "reviews",
				func(ctx context.Context) ([]string, error) { return shop.Reviews(ctx, item) })
			if err := s.Wait(); err != nil {
				return Page{}, err
			}
			missing = s.Missing()
			return Page{Price: price.Value(), Reviews: reviews.Or(nil)}, nil
		})
	return page, missing, err
}

func (shop *Shop) mailGo(ctx context.Context, to string) {
	ctx = context.WithoutCancel(ctx)
	go func() {
		if err := shop.Mail(ctx, to); err != nil {
			slog.Error("mail", "error", err)
		}
	}()
}

func (shop *Shop) mailRoot(ctx context.Context, root *scope.Root, to string) error {
	return root.Go(ctx, "mail", budget.Within(10*time.Second), func(ctx context.Context) error {
		return shop.Mail(ctx, to)
	})
}
