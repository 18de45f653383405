package bench

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/failsafe-go/failsafe-go"
	failsafebudget "github.com/failsafe-go/failsafe-go/budget"
	"github.com/failsafe-go/failsafe-go/hedgepolicy"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/retrybudget"
	"github.com/curfew-go/curfew/scope"
	"github.com/curfew-go/curfew/scope/race"
)

var _ = register(Suite{
	Name: "tail",
	About: "what hedging does to the slowest answers. The table of 100 servers is computed from its distribution, no library runs; " +
		"the lognormal cases run in real time, 20 callers at once.",
	Cases: tailCases,
})

// leaf is the latency in ms of one of a request's 100 servers: points of its
// distribution, by the share of calls that take longer, joined by straight lines
// over the logarithm of that share. It is made so that the unhedged p99.9 over 100
// servers is near the 1800 ms of "The Tail at Scale" (Dean, Barroso, 2013), which
// does not publish the distribution itself.
var leaf = []struct{ share, ms float64 }{{1, 1}, {.5, 4}, {.0175, 10}, {.0024, 60}, {1e-3, 200}, {1e-5, 1800}, {1e-6, 2500}}

func leafLatency(r *rand.Rand) float64 {
	u := math.Max(1-r.Float64(), 1e-6)
	for i := 1; ; i++ {
		if a, b := leaf[i-1], leaf[i]; u >= b.share {
			return a.ms + (b.ms-a.ms)*math.Log(u/a.share)/math.Log(b.share/a.share)
		}
	}
}

// servers100 computes requests that wait for all of 100 servers, with a second
// attempt after 10 ms at each that has not answered by then.
func servers100(name string, hedge bool, requests int) System {
	return System{name, func() Work {
		seed := uint64(0)
		return Work{Sample: func() []Metric {
			seed++
			r := rand.New(rand.NewPCG(seed, 1))
			worst := make([]float64, requests)
			extra := 0
			for i := range worst {
				for range 100 {
					ms := leafLatency(r)
					if hedge && ms > 10 {
						extra++
						ms = min(ms, 10+leafLatency(r))
					}
					worst[i] = max(worst[i], ms)
				}
			}
			return []Metric{{"p50-ms", Quantile(worst, .5)}, {"p99-ms", Quantile(worst, .99)}, {"p99.9-ms", Quantile(worst, .999)},
				{"extra-%", float64(extra) / float64(requests)}}
		}}
	}}
}

// lognormal is the latency of a call in the README of bhope/hedge: mean 5 ms,
// standard deviation 2 ms, and one in twenty takes ten times as long.
func lognormal() time.Duration {
	const mean, deviation = 5.0, 2.0
	sigma2 := math.Log(1 + deviation*deviation/mean/mean)
	ms := math.Exp(math.Log(mean) - sigma2/2 + math.Sqrt(sigma2)*rand.NormFloat64())
	if rand.IntN(20) == 0 {
		ms *= 10
	}
	return time.Duration(ms * float64(time.Millisecond))
}

// A caller makes one call over the backend, within a group of callers.
type caller func(ctx context.Context, backend func(context.Context) error) error

// load has 20 callers call a backend that is slow times as slow as usual, until all
// calls are made. It is one sample.
func load(name string, calls int, slow float64, make func() caller) System {
	return System{name, func() Work {
		call := make()
		return Work{Sample: func() []Metric {
			var attempts, next atomic.Int64
			var mu sync.Mutex
			var took []float64
			start := time.Now()
			windows := map[int]*[2]int64{} // by second: calls that ended, attempts that began
			window := func(i int) {
				mu.Lock()
				defer mu.Unlock()
				second := int(time.Since(start) / time.Second)
				if windows[second] == nil {
					windows[second] = new([2]int64)
				}
				windows[second][i]++
			}
			backend := func(ctx context.Context) error {
				attempts.Add(1)
				window(1)
				timer := time.NewTimer(time.Duration(slow * float64(lognormal())))
				defer timer.Stop()
				select {
				case <-timer.C:
					return nil
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			}
			must(scope.Run(context.Background(), "callers", budget.Within(10*time.Minute), func(_ context.Context, s *scope.Scope) error {
				for range 20 {
					s.Go("caller", func(ctx context.Context) error {
						for next.Add(1) <= int64(calls) {
							began := time.Now()
							if err := call(ctx, backend); err != nil {
								return err
							}
							ms := float64(time.Since(began)) / float64(time.Millisecond)
							window(0)
							mu.Lock()
							took = append(took, ms)
							mu.Unlock()
						}
						return nil
					})
				}
				return nil
			}))
			most := 0.0
			for _, w := range windows {
				if w[0] >= 100 { // a second that has only begun says nothing
					most = max(most, 100*float64(w[1]-w[0])/float64(w[0]))
				}
			}
			return []Metric{{"p50-ms", Quantile(took, .5)}, {"p99-ms", Quantile(took, .99)}, {"p99.9-ms", Quantile(took, .999)},
				{"extra-%", 100 * (float64(attempts.Load())/float64(calls) - 1)}, {"most-extra-%", most}}
		}}
	}}
}

func plainCaller() caller {
	return func(ctx context.Context, backend func(context.Context) error) error { return backend(ctx) }
}

// hedgingCaller hedges after a fixed delay. With a share it also has a budget, of
// that share of the successes and nothing besides.
func hedgingCaller(share float64) func() caller {
	return func() caller {
		c := race.Config[int]{After: func() time.Duration { return 10 * time.Millisecond }}
		target := retrybudget.New("backend", retrybudget.Config{Ratio: share, PerSecond: -1, Burst: -1})
		if share > 0 {
			c.Gate = target.Hedges()
		}
		return func(ctx context.Context, backend func(context.Context) error) error {
			_, err := c.Hedge(ctx, "call", func(ctx context.Context) (int, error) { return 0, backend(ctx) })
			if err == nil {
				target.Success()
			}
			return err
		}
	}
}

func failsafeCaller(share float64) func() caller {
	return func() caller {
		b := hedgepolicy.NewBuilderWithDelay[any](10 * time.Millisecond)
		if share > 0 {
			b = b.WithBudget(failsafebudget.NewBuilder().WithMaxRate(share).Build())
		}
		executor := failsafe.With(b.Build())
		return func(ctx context.Context, backend func(context.Context) error) error {
			return executor.WithContext(ctx).RunWithExecution(func(e failsafe.Execution[any]) error { return backend(e.Context()) })
		}
	}
}

func tailCases(s Scale) []Case {
	requests, calls := 20_000, 5000
	if s.Quick {
		requests, calls = 10_000, 1000
	}
	if s.Tiny {
		requests, calls = 100, 40
	}
	atMost := func(metric string, limit float64) Bound {
		return Bound{System: "curfew", Metric: metric, Kind: AtMost, Max: limit}
	}
	return []Case{{
		Name: "100 servers (model)", Parent: "none", Main: "p99.9-ms", Limit: "unhedged",
		Bounds:  []Bound{{System: "model/hedged", Metric: "p99.9-ms", Kind: AtMost, Max: 74}, {System: "model/hedged", Metric: "extra-%", Kind: AtMost, Max: 2}},
		Systems: []System{servers100("unhedged", false, requests), servers100("model/hedged", true, requests)},
	}, {
		Name: "lognormal", Parent: "scope", Main: "p99-ms", Limit: "unhedged",
		Bounds:  []Bound{atMost("p99-ms", 17), atMost("extra-%", 8.9)},
		Systems: []System{load("unhedged", calls, 1, plainCaller), load("curfew", calls, 1, hedgingCaller(0)), load("failsafe", calls, 1, failsafeCaller(0))},
	}, {
		Name: "lognormal, four times as slow", Parent: "scope", Main: "most-extra-%",
		Bounds: []Bound{atMost("most-extra-%", 10)},
		Systems: []System{load("unhedged", calls/2, 4, plainCaller), load("curfew", calls/2, 4, hedgingCaller(.1)),
			load("failsafe", calls/2, 4, failsafeCaller(.1))},
	}}
}
