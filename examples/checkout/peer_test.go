package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	curfewhttp "github.com/curfew-go/curfew/adapters/http"
	"github.com/curfew-go/curfew/budget"
)

// script is a service, and the way to it: it answers one request after the other with these statuses,
// each after took. A 504 says that the time which the request brought was over.
type script struct {
	statuses []int
	took     time.Duration
	calls    int
}

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	status := s.statuses[s.calls]
	s.calls++
	select {
	case <-time.After(s.took):
	case <-r.Context().Done():
		return nil, context.Cause(r.Context())
	}
	header := http.Header{}
	if status == http.StatusGatewayTimeout {
		header.Set(curfewhttp.ResultHeader, curfewhttp.Result{Kind: budget.DeadlineExceeded}.String())
	}
	return &http.Response{
		StatusCode: status, Header: header, Request: r,
		Body: io.NopCloser(strings.NewReader(`{"sku":"lamp","on_hand":3}`)),
	}, nil
}

func TestRetryNeedsAKindTimeAndCredit(t *testing.T) {
	const full, late, ok = http.StatusServiceUnavailable, http.StatusGatewayTimeout, http.StatusOK
	for _, c := range []struct {
		name     string
		statuses []int
		credit   int // retries that it pays for
		typical  time.Duration
		attempts int
		kind     budget.Kind
	}{
		{"first attempt", []int{ok}, 5, time.Second, 1, budget.None},
		{"second attempt", []int{full, ok}, 5, time.Second, 2, budget.None},
		{"third attempt", []int{full, full, ok}, 5, time.Second, 3, budget.None},
		{"never a fourth", []int{full, full, full, ok}, 5, time.Second, 3, budget.Overloaded},
		{"no credit", []int{full, ok}, 0, time.Second, 1, budget.Overloaded},
		{"credit for one", []int{full, full, ok}, 1, time.Second, 2, budget.Overloaded},
		{"a typical attempt would not fit", []int{full, ok}, 5, 2500 * time.Millisecond, 1, budget.Overloaded},
		{"the peer ran out of our time", []int{late, ok}, 5, time.Second, 1, budget.DeadlineExceeded},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{statuses: c.statuses, took: 600 * time.Millisecond}
				p := newPeer("warehouse", "http://warehouse", s, callAttempts, 1, nil)
				for range 30 { // enough for a median
					p.seen.Record(c.typical, nil)
				}
				for range 10 * c.credit {
					p.credit.Success()
				}
				ctx, cancel, err := budget.Enter(t.Context(), budget.Within(3*time.Second))
				defer cancel()
				if err != nil {
					t.Fatal(err)
				}
				got, err := call[stock](ctx, p, "GET", "/stock/lamp")
				if budget.KindOf(err) != c.kind || s.calls != c.attempts {
					t.Errorf("%d attempts and %v, want %d and kind %v", s.calls, err, c.attempts, c.kind)
				}
				if err == nil && got.OnHand != 3 {
					t.Errorf("got %+v", got)
				}
			})
		})
	}
}

func TestABreakerThatIsOpenIsAnOverload(t *testing.T) {
	s := &script{statuses: slices.Repeat([]int{http.StatusInternalServerError}, 20)}
	p := newPeer("warehouse", "http://warehouse", s, 1, 1, nil)
	ctx, cancel, _ := budget.Enter(t.Context(), budget.Within(time.Minute))
	defer cancel()
	for i := range 20 {
		_, err := call[stock](ctx, p, "GET", "/stock/lamp")
		want := budget.Failed
		if i > 5 {
			want = budget.Overloaded
		}
		if got := budget.KindOf(err); got != want {
			t.Fatalf("call %d: %v, want kind %v", i, err, want)
		}
	}
	if s.calls != 6 {
		t.Errorf("%d calls got through", s.calls)
	}
}

func TestWhatTheCallerGaveUpTripsNoBreaker(t *testing.T) {
	s := &script{statuses: slices.Repeat([]int{http.StatusOK}, 20), took: time.Minute}
	p := newPeer("warehouse", "http://warehouse", s, 1, 1, nil)
	for range 10 {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(&budget.Cause{Kind: budget.SiblingFailed})
		if _, err := call[stock](ctx, p, "GET", "/stock/lamp"); budget.KindOf(err) == budget.Overloaded {
			t.Fatal(err)
		}
		ctx, cancel = context.WithCancelCause(t.Context())
		stop := time.AfterFunc(time.Millisecond, func() { cancel(&budget.Cause{Kind: budget.SiblingFailed}) })
		if _, err := call[stock](ctx, p, "GET", "/stock/lamp"); budget.KindOf(err) == budget.Overloaded {
			t.Fatal(err)
		}
		stop.Stop()
	}
}

// What a service says about its failure decides what the services above may still do about it.
func TestWhyAServiceFailedIsKnownToItsCaller(t *testing.T) {
	for _, c := range []struct {
		failure *budget.Cause
		want    budget.Kind
	}{
		{&budget.Cause{Kind: budget.Failed}, budget.Failed},
		{&budget.Cause{Kind: budget.Overloaded}, budget.Overloaded},
		{&budget.Cause{Kind: budget.Shutdown}, budget.Shutdown},
		{&budget.Cause{Kind: budget.ExpiredOnArrival}, budget.ExpiredOnArrival},
		{&budget.Cause{Kind: budget.LocalBudgetRejected}, budget.LocalBudgetRejected},
		{&budget.Cause{Kind: budget.DeadlineExceeded}, budget.DeadlineExceeded},
		{&budget.Cause{Kind: budget.DependencyTimeout}, budget.DependencyTimeout},
		{&budget.Cause{Kind: budget.SiblingFailed}, budget.Failed}, // which was not a sibling of ours
		{&budget.Cause{Kind: budget.ClientCancelled}, budget.Failed},
	} {
		service := httptest.NewServer(curfewhttp.Handler(answer(func(context.Context, *http.Request) (stock, error) {
			return stock{}, c.failure
		}), curfewhttp.Config{Max: time.Minute}))
		p := newPeer("warehouse", service.URL, http.DefaultTransport, 1, 1, nil)
		ctx, cancel, err := budget.Enter(t.Context(), budget.Within(30*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := call[stock](ctx, p, "GET", "/stock/lamp"); budget.KindOf(err) != c.want {
			t.Errorf("%v arrived as %v", c.failure, err)
		}
		cancel()
		service.Close()
	}
}
