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
	"github.com/curfew-go/curfew/budget/latency"
	"github.com/curfew-go/curfew/retrybudget"
)

// A client that retries, hedges slow requests, and bounds its connections, all
// within a budget for each target.
func ExampleTransport_retries() {
	inventory := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if attempt, _ := curfewhttp.AttemptOf(r.Header); attempt == 1 {
			w.Header().Set(curfewhttp.ResultHeader, curfewhttp.Result{Kind: budget.Overloaded, NotStarted: true}.String())
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, "reserved")
	}))
	defer inventory.Close()

	base := http.DefaultTransport.(*http.Transport).Clone()
	base.DialContext = (&curfewhttp.Dialer{Share: 0.3, Cap: time.Second}).DialContext
	defer base.CloseIdleConnections()
	observed := latency.New(latency.Config{})
	client := &http.Client{Transport: &curfewhttp.Transport{
		Base:     base,
		Budget:   retrybudget.NewSet(retrybudget.Config{}, 100).For,
		Observed: observed,
		Hedge:    observed.HedgeDelay,
	}}

	// A POST is repeated, since the inventory says that it did nothing.
	r, _ := http.NewRequest(http.MethodPost, inventory.URL, nil)
	resp, err := curfewhttp.Do(context.Background(), budget.Within(5*time.Second).Named("reserve"), client, r)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	fmt.Println(resp.StatusCode, string(text))
	// Output: 200 reserved
}

// The limit of Do holds until the body was read.
func ExampleDo() {
	export := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "the beginning")
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer export.Close()

	r, _ := http.NewRequest(http.MethodGet, export.URL, nil)
	resp, err := curfewhttp.Do(context.Background(), budget.Within(300*time.Millisecond).Named("export"), nil, r)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	fmt.Println(string(text))
	fmt.Println(err)
	// Output:
	// the beginning
	// budget: deadline exceeded: phase body, limit export 300ms
}

// Whose time ran out decides what a caller does next.
func ExampleCheckResponse() {
	for _, result := range []string{"deadline_exceeded", "deadline_exceeded;own-limit", "deadline_exceeded;own-limit;retried"} {
		resp := &http.Response{StatusCode: http.StatusGatewayTimeout, Header: http.Header{curfewhttp.ResultHeader: {result}}, Body: http.NoBody}
		err := curfewhttp.CheckResponse(resp)
		fmt.Println(budget.KindOf(err), curfewhttp.Judge(err).Retry)
	}
	fmt.Println(curfewhttp.CheckResponse(&http.Response{StatusCode: http.StatusOK, Body: http.NoBody}))
	// Output:
	// deadline_exceeded false
	// dependency_timeout true
	// dependency_timeout false
	// <nil>
}

// A server under load refuses hedges first.
func ExampleAttemptOf() {
	for _, said := range []string{"", "2", "2;hedge"} {
		h := http.Header{}
		if said != "" {
			h.Set(curfewhttp.AttemptHeader, said)
		}
		fmt.Println(curfewhttp.AttemptOf(h))
	}
	// Output:
	// 1 false
	// 2 false
	// 2 true
}

func ExampleDialer() {
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.DialContext = (&curfewhttp.Dialer{Share: 0.3, Cap: time.Second}).DialContext
	client := &http.Client{Transport: &curfewhttp.Transport{Base: base}}

	ctx, cancel, _ := budget.Enter(context.Background(), budget.Within(time.Minute))
	defer cancel()
	r, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:1/", nil)
	_, err := client.Do(r)
	fmt.Println(retrybudget.SafeToRetry(err)) // nobody listens, so nothing was sent
	// Output: true
}
