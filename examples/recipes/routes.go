package recipes

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"

	curfewhttp "github.com/curfew-go/curfew/adapters/http"
	"github.com/curfew-go/curfew/budget/meter"
	"github.com/curfew-go/curfew/scope"
)

// A Shop is the service of which the recipes are: what it asks, and who is told how
// requests went.
type Shop struct {
	Order    func(ctx context.Context, id string) (string, error)
	Ads      func(ctx context.Context) (string, error)
	Report   func(ctx context.Context, progress func(percent int)) (string, error)
	Prices   func(ctx context.Context) <-chan string
	Recorder meter.Recorder
	Root     *scope.Root // of what goes on when a request is over

	reports reports
}

// Mux gives each route of a http.ServeMux its own limit.
func (shop *Shop) Mux() http.Handler {
	mux := http.NewServeMux()
	route := func(pattern string, limit time.Duration, h http.HandlerFunc) {
		mux.Handle(pattern, curfewhttp.Handler(h, curfewhttp.Config{Max: limit, Route: pattern, Recorder: shop.Recorder}))
	}
	route("GET /order/{id}", 800*time.Millisecond, shop.order)
	route("GET /page/{id}", 2*time.Second, shop.page)
	route("POST /report", 500*time.Millisecond, shop.startReport)
	route("GET /report/{job}", 500*time.Millisecond, shop.pollReport)
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {}) // asks nobody
	return mux
}

// Chi does the same with chi, whose middleware may stand on both sides.
func (shop *Shop) Chi(logger func(http.Handler) http.Handler) http.Handler {
	within := func(route string, limit time.Duration) func(http.Handler) http.Handler {
		c := curfewhttp.Config{Max: limit, Route: route, Recorder: shop.Recorder}
		return func(h http.Handler) http.Handler { return curfewhttp.Handler(h, c) }
	}
	r := chi.NewRouter()
	r.Use(logger) // outside: it sees the 504, and the 499 of a client that left
	r.With(within("/order", 800*time.Millisecond)).Get("/order/{id}", func(w http.ResponseWriter, r *http.Request) {
		r.SetPathValue("id", chi.URLParam(r, "id"))
		shop.order(w, r)
	})
	return r
}

func (shop *Shop) order(w http.ResponseWriter, r *http.Request) {
	text, err := shop.Order(r.Context(), r.PathValue("id"))
	if err != nil {
		curfewhttp.Error(w, r, err)
		return
	}
	fmt.Fprintln(w, text)
}
