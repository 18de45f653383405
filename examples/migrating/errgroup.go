package migrating

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
)

func (shop *Shop) pageErrgroup(ctx context.Context, item string) (Page, error) {
	ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	var page Page
	g.Go(func() (err error) { page.Stock, err = shop.Stock(ctx, item); return })
	g.Go(func() (err error) { page.Price, err = shop.Price(ctx, item); return })
	if err := g.Wait(); err != nil {
		return Page{}, err
	}
	return page, nil
}

func (shop *Shop) pageScope(ctx context.Context, item string) (Page, error) {
	return scope.RunValue(ctx, "page", budget.Within(300*time.Millisecond),
		func(_ context.Context, s *scope.Scope) (Page, error) {
			stock := scope.Fork(s, "stock", func(ctx context.Context) (int, error) { return shop.Stock(ctx, item) })
			price := scope.Fork(s, "price", func(ctx context.Context) (int, error) { return shop.Price(ctx, item) })
			if err := s.Wait(); err != nil {
				return Page{}, err
			}
			return Page{Stock: stock.Value(), Price: price.Value()}, nil
		})
}

func (shop *Shop) refreshErrgroup(ctx context.Context, items []string) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	for _, item := range items {
		g.Go(func() error { return shop.Refresh(ctx, item) })
	}
	return g.Wait()
}

func (shop *Shop) refreshEach(ctx context.Context, items []string) error {
	return scope.Each(ctx, "refresh", 8, items, shop.Refresh)
}

func (shop *Shop) refreshSlots(ctx context.Context, shelves [][]string) error {
	return scope.Run(ctx, "refresh", budget.Within(time.Minute), func(_ context.Context, s *scope.Scope) error {
		s.SetSlots(8)
		for _, items := range shelves {
			s.Go("shelf", func(ctx context.Context) error {
				return scope.Each(ctx, "items", 8, items, shop.Refresh)
			})
		}
		return nil
	})
}

func (shop *Shop) warmErrgroup(ctx context.Context, items []string) (shed int, err error) {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	for _, item := range items {
		if !g.TryGo(func() error { return shop.Refresh(ctx, item) }) {
			shed++
		}
	}
	return shed, g.Wait()
}

func (shop *Shop) warmScope(ctx context.Context, items []string) (shed int, err error) {
	err = scope.Run(ctx, "warm", budget.Within(time.Second), func(_ context.Context, s *scope.Scope) error {
		taken := make(chan struct{}, 8)
		for _, item := range items {
			select {
			case taken <- struct{}{}:
				s.Go("refresh", func(ctx context.Context) error {
					defer func() { <-taken }()
					return shop.Refresh(ctx, item)
				})
			default:
				shed++
			}
		}
		return nil
	})
	return shed, err
}
