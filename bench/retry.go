package bench

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/avast/retry-go/v4"
	"github.com/cenkalti/backoff/v5"
	"github.com/failsafe-go/failsafe-go"
	failsafebudget "github.com/failsafe-go/failsafe-go/budget"
	"github.com/failsafe-go/failsafe-go/retrypolicy"

	"github.com/curfew-go/curfew/retrybudget"
)

var _ = register(Suite{
	Name: "retry",
	About: "a call that succeeds at once, under up to three attempts and, where the library has one, a retry budget; and the budget alone, " +
		"used by all processors at once: ns/op is then the time until every worker has done one.",
	Cases: retryCases,
})

// contended makes an operation of one that every processor does at the same time.
func contended(name string, before func(n int), f func(i int)) System {
	return System{name, func() Work {
		workers := runtime.GOMAXPROCS(0)
		return Work{
			Before: func(n int) {
				if before != nil {
					before(n * workers)
				}
			},
			Op: func(n int) {
				var wg sync.WaitGroup
				for range workers {
					wg.Go(func() {
						for i := range n {
							f(i)
						}
					})
				}
				wg.Wait()
			},
		}
	}}
}

func retryCases(Scale) []Case {
	bg := context.Background()
	target := retrybudget.New("target", retrybudget.Config{})
	policy := retrybudget.Policy{Idempotent: true}
	fb := failsafebudget.NewBuilder().WithMaxRate(.1).Build()
	executor := failsafe.With(retrypolicy.NewBuilder[any]().WithMaxAttempts(3).WithBudget(fb).Build()).WithContext(bg)
	success := []System{
		op("curfew", func() { must(retrybudget.Do(bg, target, policy, nothing)) }),
		op("curfew/budget", target.Success),
		op("failsafe", func() { must(executor.Run(func() error { return nil })) }),
		op("avast", func() {
			must(retry.Do(func() error { return nil }, retry.Context(bg), retry.Attempts(3)))
		}),
		op("cenkalti", func() {
			_, err := backoff.Retry(bg, func() (int, error) { return 1, nil }, backoff.WithMaxTries(3))
			must(err)
		}),
		op("std", func() { must(nothing(bg)) }),
	}
	full := retrybudget.New("target", retrybudget.Config{Ratio: 1, Burst: -1, Window: time.Minute})
	var bare atomic.Int64
	deposit := func(n int) {
		for range n {
			full.Success()
		}
	}
	return []Case{{
		Name: "success", Parent: "background", Limit: "std", Systems: success,
	}, {
		Name: "contended budget", Parent: "none", Limit: "atomic",
		Systems: []System{
			contended("atomic", nil, func(int) { bare.Add(1) }),
			contended("curfew/deposit", nil, func(int) { full.Success() }),
			contended("curfew/take", deposit, func(int) {
				if !full.TryTake() {
					panic("bench: denied a take that was deposited")
				}
			}),
			contended("curfew/mix", nil, func(i int) {
				if i%11 == 10 {
					full.TryTake()
				} else {
					full.Success()
				}
			}),
		},
	}}
}
