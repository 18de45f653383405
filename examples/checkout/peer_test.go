package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/curfew-go/curfew/budget"
)

// script answers one request after the other with these statuses, 503 as overloaded, each after took.
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
	body := `{"sku":"lamp","on_hand":3}`
	switch status {
	case http.StatusServiceUnavailable:
		body = budget.Overloaded.String()
	case http.StatusGatewayTimeout:
		body = budget.DeadlineExceeded.String()
	}
	return &http.Response{
		StatusCode: status, Status: fmt.Sprint(status), Header: http.Header{},
		Body: io.NopCloser(strings.NewReader(body)), Request: r,
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
				p := newPeer("warehouse", "http://warehouse", &http.Client{Transport: s}, callAttempts, 1, nil)
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
	p := newPeer("warehouse", "http://warehouse", &http.Client{Transport: s}, 1, 1, nil)
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
	p := newPeer("warehouse", "http://warehouse", &http.Client{Transport: s}, 1, 1, nil)
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

func TestEveryKindSurvivesTheTripOverHTTP(t *testing.T) {
	for kind := budget.Failed; kind <= budget.Closed; kind++ {
		if got := kindFrom(kind.HTTPStatus(), kind.String()+"\n"); got != kind {
			t.Errorf("%v arrived as %v", kind, got)
		}
	}
	if got := kindFrom(http.StatusServiceUnavailable, `{"title":"Service Unavailable","status":503,"kind":"local_budget_rejected","not_started":true}`); got != budget.LocalBudgetRejected {
		t.Errorf("a refusal arrived as %v", got)
	}
}
