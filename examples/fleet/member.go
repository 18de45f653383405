package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	curfewredis "github.com/curfew-go/curfew/adapters/redis"
	"github.com/curfew-go/curfew/retrybudget"
)

// memberEnv makes a process a member; it holds an order.
const memberEnv = "CURFEW_EXAMPLE_FLEET_MEMBER"

// An order is what a member is to do.
type order struct {
	Service, Redis string
	Rate           float64 // calls a second of this member, for each kind
}

// The kinds, as they stand in paths and tables.
var kinds = []string{"three retries", "budget per process", "budget of the fleet"}

// budgets returns a member's budget of each kind: the only difference between them.
func budgets(pool retrybudget.Pool) []*retrybudget.Budget {
	return []*retrybudget.Budget{
		retrybudget.Unlimited(),
		retrybudget.New("service", retrybudget.Config{}),
		retrybudget.New("service", retrybudget.Config{Pool: pool}),
	}
}

// beMember calls the service until its standard input ends.
func beMember(ctx context.Context, text string) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	client := redis.NewClient(&redis.Options{
		Addr: o.Redis, ContextTimeoutEnabled: true, MaxRetries: -1,
		DialTimeout: 250 * time.Millisecond, DialerRetries: 1, PoolSize: 2,
	})
	defer client.Close()
	pool, err := curfewredis.New(client, curfewredis.Config{})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // until the parent has enough, or is gone
		cancel()
	}()
	defer cancel()
	var calls sync.WaitGroup
	all := budgets(pool)
	for kind, b := range all {
		calls.Go(func() { callAll(ctx, &calls, o, kind, b) })
	}
	calls.Wait()
	for _, b := range all {
		bye, stop := context.WithTimeout(context.Background(), time.Second)
		_ = b.Close(bye) // what could not be given back is lost, and that is all
		stop()
	}
	return nil
}

// callAll makes calls at random instants, none of which waits for another.
func callAll(ctx context.Context, calls *sync.WaitGroup, o order, kind int, b *retrybudget.Budget) {
	policy := retrybudget.Policy{Idempotent: true, Attempts: 4}
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(rand.ExpFloat64() / o.Rate * float64(time.Second))):
		}
		calls.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
			defer cancel()
			_ = retrybudget.Do(ctx, b, policy, func(ctx context.Context) error { return call(ctx, o.Service, kind) })
		})
	}
}

// attemptHeader tells the service which attempt of a call it sees.
const attemptHeader = "X-Attempt"

func call(ctx context.Context, service string, kind int) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s/%d", service, kind), nil)
	if err != nil {
		return err
	}
	request.Header.Set(attemptHeader, strconv.Itoa(retrybudget.Attempt(ctx)))
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, answer.Body)
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return errors.New(answer.Status)
	}
	return nil
}
