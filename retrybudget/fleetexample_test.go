package retrybudget_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/curfew-go/curfew/retrybudget"
	"github.com/curfew-go/curfew/retrybudget/pooltest"
)

// Three processes share one burst of two. A new pool is empty, and this one's clock
// stands still but for the minute in which it fills. A real one would be in Redis,
// by package curfewredis.
func ExamplePool() {
	clock := time.Unix(0, 0)
	pool := &pooltest.Memory{Now: func() time.Time { return clock }}
	down := errors.New("503 service unavailable")
	for range 4 {
		payments := retrybudget.New("payments", retrybudget.Config{Pool: pool, Burst: 2})
		err := retrybudget.Do(context.Background(), payments, retrybudget.Policy{Idempotent: true, Attempts: 2, Backoff: quick},
			func(context.Context) error { return down })
		fmt.Println(err)
		_ = payments.Close(context.Background()) // gives back what it did not spend
		if clock.Unix() == 0 {
			clock = clock.Add(time.Minute)
		}
	}
	// Output:
	// retrybudget: payments: denied after 1 attempt: no credit left, nor any in the fleet's pool: 503 service unavailable
	// retrybudget: payments: failed after 2 attempts: 503 service unavailable
	// retrybudget: payments: failed after 2 attempts: 503 service unavailable
	// retrybudget: payments: denied after 1 attempt: no credit left, nor any in the fleet's pool: 503 service unavailable
}

// The target says that it is overloaded and no retry helps: a judge tells the
// fleet.
func ExampleBudget_Hold() {
	overloaded := errors.New("529 overloaded, do not retry")
	search := retrybudget.New("search", retrybudget.Config{})
	policy := retrybudget.Policy{Idempotent: true, Backoff: quick, Judge: func(err error) retrybudget.Verdict {
		if errors.Is(err, overloaded) {
			search.Hold(10 * time.Second)
		}
		return retrybudget.DefaultJudge(err)
	}}
	err := retrybudget.Do(context.Background(), search, policy, func(context.Context) error { return overloaded })
	fmt.Println(errors.Is(err, retrybudget.ErrDenied), search.Stats().DeniedHeld)
	// Output: true 1
}

// Targets of a fleet whose names come from outside.
func ExampleSet_Close() {
	shards := retrybudget.NewSet(retrybudget.Config{Pool: &pooltest.Memory{}}, 100)
	for range 10 {
		shards.For("shard-7").Success()
	}
	fmt.Println(shards.Close(context.Background()), shards.For("shard-7").Stats().Fleet.Mode)
	// Output: <nil> left
}

// What a log says of a fleet.
func ExampleFleetStats() {
	payments := retrybudget.New("payments", retrybudget.Config{Pool: &pooltest.Memory{}})
	fmt.Println(payments.Stats().Fleet)
	_ = payments.Close(context.Background())
	fmt.Println(payments.Stats().Fleet.Mode)
	fmt.Println(retrybudget.New("payments", retrybudget.Config{}).Stats().Fleet)
	// Output:
	// joining; 0 leased, 0 stranded; denied: 0 empty, 0 local
	// left
	// no fleet
}

// What a Pool refuses.
func ExamplePoolRequest_Check() {
	ask := retrybudget.PoolRequest{Target: "payments", Member: "a", Seq: 4, Want: 2_000_000}
	fmt.Println(ask.Check())
	fmt.Println(retrybudget.PoolGrant{Seq: 4, Granted: 9_000_000}.Check(ask)) // so a Budget checks answers
	ask.Want = -1
	fmt.Println(ask.Check())
	// Output:
	// <nil>
	// retrybudget: pool of payments: granted 9000000, 0 of it of the floor, of the 2000000 wanted
	// retrybudget: pool of payments: Want -1 is not within 0 and 1000000000000
}
