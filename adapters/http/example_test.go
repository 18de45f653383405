package curfewhttp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	curfewhttp "github.com/curfew-go/curfew/adapters/http"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
)

// Two services and one deadline: what is left of the caller's arrives at the
// inventory, and a request for which too little is left costs it nothing.
func Example() {
	inventory := httptest.NewServer(curfewhttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := scope.Run(r.Context(), "reserve", budget.Inherited(), func(ctx context.Context, s *scope.Scope) error {
			s.Go("stock", func(ctx context.Context) error { return nil })
			s.Go("price", func(ctx context.Context) error { return nil })
			return nil
		})
		if err != nil {
			http.Error(w, "not reserved", budget.KindOf(err).HTTPStatus())
			return
		}
		left, _ := budget.Remaining(r.Context())
		fmt.Fprintln(w, "reserved, with time left:", left > 0 && left <= 10*time.Second-50*time.Millisecond)
	}), curfewhttp.Config{Max: time.Minute, Useful: 100 * time.Millisecond}))
	defer inventory.Close()

	client := &http.Client{Transport: &curfewhttp.Transport{}}
	for _, limit := range []time.Duration{10 * time.Second, 90 * time.Millisecond} {
		ctx, cancel, err := budget.Enter(context.Background(), budget.Within(limit).Named("checkout"))
		if err != nil {
			fmt.Println(err)
			return
		}
		r, _ := http.NewRequestWithContext(ctx, http.MethodPost, inventory.URL, nil)
		resp, err := client.Do(r)
		if err != nil {
			fmt.Println(err)
			cancel()
			continue
		}
		text, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		result, _ := curfewhttp.ResultOf(resp.Header)
		if result.Kind == budget.None {
			fmt.Print(resp.StatusCode, " ", string(text))
		} else {
			fmt.Println(resp.StatusCode, result)
		}
		cancel()
	}
	// Output:
	// 200 reserved, with time left: true
	// 503 local_budget_rejected;not-started
}

// An expired request is refused before the handler sees it.
func ExampleHandler() {
	order := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "ordered") })
	h := curfewhttp.Handler(order, curfewhttp.Config{
		Max:     3 * time.Second,
		Refused: func(r *http.Request, why error) { fmt.Println("refused:", budget.KindOf(why)) },
	})

	for _, left := range []string{"800", "0"} {
		r := httptest.NewRequest(http.MethodPost, "/order", nil)
		r.Header.Set(curfewhttp.Header, left)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Header().Get(curfewhttp.ResultHeader))
	}
	// Output:
	// 200 ok
	// refused: expired_on_arrival
	// 503 expired_on_arrival;not-started
}

// With less than a millisecond to pass on nothing is sent.
func ExampleTransport() {
	client := &http.Client{Transport: &curfewhttp.Transport{}}
	ctx, cancel, _ := budget.Enter(context.Background(), budget.Within(time.Minute).Named("checkout"))
	cancel() // as when the user closes the page

	r, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://inventory.example/stock", nil)
	_, err := client.Do(r)
	fmt.Println(err)
	fmt.Println(budget.KindOf(err))
	// Output:
	// Get "http://inventory.example/stock": budget: cancelled
	// cancelled
}
