// Package migrating shows the same work written with errgroup, conc, oklog/run or
// plain goroutines, and with curfew. docs/migrating.md quotes it: a test keeps the
// two equal, and others hold what the page says.
package migrating

import "context"

// A Shop is what the examples work on: calls to other services.
type Shop struct {
	Stock   func(ctx context.Context, item string) (int, error)
	Price   func(ctx context.Context, item string) (int, error)
	Reviews func(ctx context.Context, item string) ([]string, error)
	Refresh func(ctx context.Context, item string) error
	Mail    func(ctx context.Context, to string) error
	Poll    func(ctx context.Context) error // looks once for new orders
}

// A Page is what a customer sees.
type Page struct {
	Stock, Price int
	Reviews      []string
}
