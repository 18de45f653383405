package curfewredis_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	curfewredis "github.com/curfew-go/curfew/adapters/redis"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/checkpoint"
	"github.com/curfew-go/curfew/retrybudget"
)

// nobody is an address at which no server is.
const nobody = "127.0.0.1:1"

func newClient(addr string) *redis.Client {
	// Quiet, and quick to give up, for the examples.
	return redis.NewClient(&redis.Options{
		Addr: addr, ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1,
	})
}

// A fleet's budget without its Redis: it goes on with what the process earns.
func ExampleNew() {
	client := newClient(nobody)
	defer client.Close()
	pool, err := curfewredis.New(client, curfewredis.Config{})
	if err != nil {
		log.Fatal(err)
	}
	payments := retrybudget.New("payments", retrybudget.Config{Pool: pool})
	defer payments.Close(context.Background())

	for range 10 {
		payments.Success()
	}
	fmt.Println(payments.TryTake(), payments.TryTake())
	// Output: true false
}

// A client as it is made in many places waits longer than its caller has.
func ExampleClientError() {
	client := redis.NewClient(&redis.Options{Addr: nobody})
	defer client.Close()
	_, err := curfewredis.New(client, curfewredis.Config{})
	fmt.Println(err)
	// Output: curfewredis: client refused: it does not obey contexts: set ContextTimeoutEnabled
}

// A job is cancelled from anywhere. While Redis cannot be reached the job goes on.
func ExampleCancels() {
	client := newClient(nobody)
	defer client.Close()
	cancels, err := curfewredis.NewCancels(client, curfewredis.Config{})
	if err != nil {
		log.Fatal(err)
	}
	ctx, end := checkpoint.Watch(context.Background(), cancels, "export-7", time.Second)
	defer end()
	fmt.Println(ctx.Err())

	err = cancels.Cancel(context.Background(), "export-7", 24*time.Hour)
	fmt.Println(err != nil)
	// Output:
	// <nil>
	// true
}

// A page reads from a cache first. The read gets 20 ms, or what is left of the
// page's budget when that is less, and leaves what the source behind it needs.
// The timeout is the context's: the client has none of its own that is shorter.
func Example_cachedRead() {
	client := newClient(nobody)
	defer client.Close()
	cached := func(ctx context.Context, key string, load func(context.Context) (string, error)) (string, error) {
		ask, cancel, err := budget.Enter(ctx, budget.Within(20*time.Millisecond).Named("cache").Reserve(50*time.Millisecond))
		if err == nil { // otherwise too little is left to ask a cache
			value, err := client.Get(ask, key).Result()
			cancel()
			if err == nil {
				return value, nil
			}
			// Missing, slow or gone: one and the same to the caller.
		} else {
			cancel()
		}
		return load(ctx)
	}

	ctx, cancel, err := budget.Enter(context.Background(), budget.Within(time.Second).Named("page"))
	if err != nil {
		log.Fatal(err)
	}
	defer cancel()
	page, err := cached(ctx, "page:7", func(ctx context.Context) (string, error) {
		if budget.Require(ctx, 50*time.Millisecond) != nil {
			return "", errors.New("too late for the database")
		}
		return "from the database", nil
	})
	fmt.Println(page, err)
	// Output: from the database <nil>
}
