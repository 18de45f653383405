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

const stockURL, priceURL = "http://inventory.internal/stock", "http://pricing.internal/price"

func order(w http.ResponseWriter, r *http.Request) {
	page, err := scope.RunValue(r.Context(), "order", budget.Inherited(),
		func(ctx context.Context, s *scope.Scope) (string, error) {
			stock := scope.Fork(s, "stock", get(stockURL))
			price := scope.Fork(s.Limit(budget.Within(200*time.Millisecond)), "price", get(priceURL))
			if err := s.Wait(); err != nil {
				return "", err
			}
			return stock.Value() + " in stock at " + price.Value(), nil
		})
	if err != nil {
		curfewhttp.Error(w, r, err)
		return
	}
	fmt.Fprintln(w, page)
}

func main() {
	limits := curfewhttp.Config{Max: time.Second, Useful: 50 * time.Millisecond}
	log.Fatal(http.ListenAndServe("localhost:8080", curfewhttp.Handler(http.HandlerFunc(order), limits)))
}

// get returns a function that fetches url, as a task of a scope.
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
		if err := curfewhttp.CheckResponse(resp); err != nil {
			return "", err
		}
		body, err := io.ReadAll(resp.Body)
		return string(body), err
	}
}
