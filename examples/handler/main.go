// Handler is the README's handler: one deadline, two calls, no goroutine left.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"time"

	curfewhttp "github.com/curfew-go/curfew/adapters/http"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
)

var client = &http.Client{Transport: &curfewhttp.Transport{}}

func order(w http.ResponseWriter, r *http.Request) {
	page, err := scope.RunValue(r.Context(), "order", budget.Inherited(),
		func(ctx context.Context, s *scope.Scope) (string, error) {
			stock := scope.Fork(s, "stock", get("http://inventory.internal/stock"))
			price := scope.Fork(s.Limit(budget.Within(200*time.Millisecond)), "price", get("http://pricing.internal/price"))
			if err := s.Wait(); err != nil {
				return "", err
			}
			return stock.Value() + " in stock at " + price.Value(), nil
		})
	if err != nil {
		http.Error(w, "no order page", budget.KindOf(err).HTTPStatus())
		return
	}
	fmt.Fprintln(w, page)
}

func get(url string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return "", err
		}
		resp, err := client.Do(req)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return string(body), err
	}
}

func main() {
	limits := curfewhttp.Config{Max: time.Second, Useful: 50 * time.Millisecond}
	log.Fatal(http.ListenAndServe("localhost:8080", curfewhttp.Handler(http.HandlerFunc(order), limits)))
}
