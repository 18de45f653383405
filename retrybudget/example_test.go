package retrybudget_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/retrybudget"
)

// quick keeps the examples short; the default waits suit real targets.
var quick = retrybudget.Backoff{Base: time.Millisecond}

// A client repeats what failed, within the caller's deadline and the budget of
// its target.
func ExampleDoValue() {
	prices := retrybudget.New("prices", retrybudget.Config{})
	ctx, cancel, err := budget.Enter(context.Background(), budget.Within(3*time.Second))
	if err != nil {
		return
	}
	defer cancel()

	policy := retrybudget.Policy{
		Idempotent: true,
		PerAttempt: 500 * time.Millisecond,
		Typical:    func() time.Duration { return 40 * time.Millisecond },
		Backoff:    quick,
	}
	price, err := retrybudget.DoValue(ctx, prices, policy, func(ctx context.Context) (int, error) {
		if retrybudget.Attempt(ctx) == 1 {
			return 0, errors.New("connection reset")
		}
		return 42, nil
	})
	fmt.Println(price, err)
	fmt.Println("retries made:", prices.Stats().Retries)
	// Output:
	// 42 <nil>
	// retries made: 1
}

// What was refused matches the refusal and what the target said last.
func ExampleDo() {
	mails := retrybudget.New("mails", retrybudget.Config{Ratio: 0.2, Burst: 1, PerSecond: -1})
	down := errors.New("421 service not available")
	send := func(context.Context) error { return down }

	policy := retrybudget.Policy{Idempotent: true, Backoff: quick}
	err := retrybudget.Do(context.Background(), mails, policy, send)
	fmt.Println(err)
	fmt.Println(errors.Is(err, retrybudget.ErrDenied), errors.Is(err, down))
	fmt.Println(mails)
	// Output:
	// retrybudget: mails: denied after 2 attempts: no credit left, floor used up: 421 service not available
	// true true
	// retrybudget: mails: 1 retries + 0 hedges / 0 successes in 10s; cap 20% of successes + 0/s, burst 1; denies now: no credit left, floor used up
}

// An HTTP client judges by status: the target asked for a wait, an answer such
// as 404 is a success of the target, and what failed otherwise is judged as
// ever.
func ExampleVerdict() {
	judge := func(err error) retrybudget.Verdict {
		var status *statusError
		if !errors.As(err, &status) {
			return retrybudget.DefaultJudge(err)
		}
		switch {
		case status.code == http.StatusTooManyRequests || status.code == http.StatusServiceUnavailable:
			wait, _ := retrybudget.RetryAfter(status.header.Values("Retry-After"), time.Now())
			return retrybudget.Verdict{Retry: true, After: wait}
		case status.code < 500:
			return retrybudget.Verdict{Answered: true}
		}
		return retrybudget.Verdict{Retry: true, Ran: true}
	}
	fmt.Printf("%+v\n", judge(&statusError{code: 404}))
	fmt.Printf("%+v\n", judge(&statusError{code: 503, header: http.Header{"Retry-After": {"2"}}}))
	fmt.Printf("%+v\n", judge(errors.New("connection reset")))
	// Output:
	// {Retry:false Ran:false Answered:true After:0s}
	// {Retry:true Ran:false Answered:false After:2s}
	// {Retry:true Ran:true Answered:false After:0s}
}

type statusError struct {
	code   int
	header http.Header
}

func (e *statusError) Error() string { return http.StatusText(e.code) }

// Hedges and the retries of one fan-out have views of their own. All spend the
// credit of the one budget.
func ExampleBudget_views() {
	search := retrybudget.New("search", retrybudget.Config{Burst: 4})
	hedges := search.Hedges()
	fmt.Println("hedges:", hedges.TryTake(), hedges.TryTake(), hedges.TryTake())
	fanOut := search.AtMost(1)
	fmt.Println("retries of a fan-out:", fanOut.TryTake(), fanOut.TryTake())
	fmt.Println("retries:", search.TryTake(), search.TryTake())
	// Output:
	// hedges: true true false
	// retries of a fan-out: true false
	// retries: true false
}

// Whoever makes the attempts by other means counts by hand.
func ExampleBudget_TryTake() {
	b := retrybudget.New("index", retrybudget.Config{Ratio: 0.5, Burst: -1})
	for range 4 {
		b.Success()
	}
	fmt.Println(b.TryTake(), b.TryTake(), b.TryTake())
	// Output: true true false
}

// Targets whose names come from outside share one Set: one that is down does
// not take the retries of the others.
func ExampleSet() {
	hosts := retrybudget.NewSet(retrybudget.Config{Ratio: 1, Burst: -1}, 1000)
	hosts.For("a.example").Success()
	fmt.Println(hosts.For("a.example").TryTake(), hosts.For("b.example").TryTake())
	// Output: true false
}

// A worker that never ends waits out what it was denied.
func ExamplePause() {
	queue := retrybudget.New("queue", retrybudget.Config{Burst: -1})
	policy := retrybudget.Policy{Idempotent: true, Backoff: quick}
	ctx := context.Background()
	for range 2 {
		err := retrybudget.Do(ctx, queue, policy, func(context.Context) error { return errors.New("down") })
		fmt.Println(errors.Is(err, retrybudget.ErrDenied))
		if retrybudget.Pause(ctx, err) != nil {
			return
		}
	}
	// Output:
	// true
	// true
}

func ExampleUnlimited() {
	fmt.Println(retrybudget.Unlimited())
	// Output: retrybudget: unlimited: 0 retries + 0 hedges / 0 successes in 10s; unlimited: denies nothing
}

func ExampleSafeToRetry() {
	fmt.Println(retrybudget.SafeToRetry(&budget.Cause{Kind: budget.Overloaded}))
	fmt.Println(retrybudget.SafeToRetry(errors.New("connection reset")))
	// Output:
	// true
	// false
}

func ExampleRetryAfter() {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	fmt.Println(retrybudget.RetryAfter([]string{"120"}, now))
	fmt.Println(retrybudget.RetryAfter([]string{"Fri, 02 Jan 2026 03:04:35 GMT"}, now))
	fmt.Println(retrybudget.RetryAfter([]string{"-1"}, now))
	// Output:
	// 2m0s true
	// 30s true
	// 0s false
}

func ExampleGRPCPushback() {
	fmt.Println(retrybudget.GRPCPushback([]string{"250"}))
	fmt.Println(retrybudget.GRPCPushback([]string{"-1"}))
	// Output:
	// 250ms true
	// -1ns true
}
