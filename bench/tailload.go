package bench

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/failsafe-go/failsafe-go"
	failsafebudget "github.com/failsafe-go/failsafe-go/budget"
	"github.com/failsafe-go/failsafe-go/hedgepolicy"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/budget/latency"
	"github.com/curfew-go/curfew/retrybudget"
	"github.com/curfew-go/curfew/scope"
	"github.com/curfew-go/curfew/scope/race"
)

// lognormal is the latency of a call in the README of bhope/hedge: mean 5 ms,
// standard deviation 2 ms, and one in twenty takes ten times as long.
func lognormal(r *rand.Rand) time.Duration {
	const mean, deviation = 5.0, 2.0
	sigma2 := math.Log(1 + deviation*deviation/mean/mean)
	ms := math.Exp(math.Log(mean) - sigma2/2 + math.Sqrt(sigma2)*r.NormFloat64())
	if r.IntN(20) == 0 {
		ms *= 10
	}
	return time.Duration(ms * float64(time.Millisecond))
}

// A callers is 20 callers at once of one backend, until all calls are made or time is over.
type callers struct {
	System string // one of hedgers
	Calls  int    // zero: until For is over
	For    time.Duration
	// From Step on, where it is not zero, the backend is four times as slow.
	Step time.Duration
	Seed uint64
}

// A hedger makes one call over an attempt at the backend.
type hedger func(ctx context.Context, attempt func(context.Context) error) error

// hedgeShare is the budget of the systems that have one: hedges are at most this share
// of the calls that succeed. They have no other allowance.
const hedgeShare = .1

// hedgeWindow is how long a success is worth something to curfew's budget, so that the
// hedges of a second are at most hedgeShare of its calls and those of the window before:
// of-budget-% is how much of that was used.
const hedgeWindow = time.Second

// hedgers are the systems. All but "curfew" and "unhedged" hedge after 10 ms, which is
// near the 93rd percentile; "curfew" after the percentile that it observes.
var hedgers = map[string]func() hedger{
	"unhedged": func() hedger {
		return func(ctx context.Context, attempt func(context.Context) error) error { return attempt(ctx) }
	},
	"curfew":        func() hedger { return observing(nil) },
	"curfew/budget": func() hedger { return observing(hedgeBudget()) },
	"curfew/10 ms": func() hedger {
		return hedging(race.Config[int]{After: func() time.Duration { return 10 * time.Millisecond }}, nil, nil)
	},
	"curfew/10 ms, budget": func() hedger {
		return hedging(race.Config[int]{After: func() time.Duration { return 10 * time.Millisecond }}, hedgeBudget(), nil)
	},
	"failsafe/10 ms": func() hedger { return failsafeHedging(hedgepolicy.NewBuilderWithDelay[any](10 * time.Millisecond)) },
	"failsafe/10 ms, budget": func() hedger {
		return failsafeHedging(hedgepolicy.NewBuilderWithDelay[any](10 * time.Millisecond).
			WithBudget(failsafebudget.NewBuilder().WithMaxRate(hedgeShare).Build()))
	},
}

func hedgeBudget() *retrybudget.Budget {
	return retrybudget.New("backend", retrybudget.Config{Ratio: hedgeShare, PerSecond: -1, Burst: -1, Window: hedgeWindow})
}

func observing(b *retrybudget.Budget) hedger {
	seen := latency.New(latency.Config{Window: 10 * time.Second, HedgeAt: .915})
	return hedging(race.Config[int]{After: seen.HedgeDelay}, b, seen)
}

func hedging(c race.Config[int], b *retrybudget.Budget, seen *latency.Observed) hedger {
	if b != nil {
		c.Gate = b.Hedges()
	}
	return func(ctx context.Context, attempt func(context.Context) error) error {
		_, err := c.Hedge(ctx, "call", func(ctx context.Context) (int, error) {
			began := time.Now()
			err := attempt(ctx)
			if seen != nil {
				seen.Record(time.Since(began), err)
			}
			return 0, err
		})
		if err == nil && b != nil {
			b.Success()
		}
		return err
	}
}

func failsafeHedging(b hedgepolicy.Builder[any]) hedger {
	executor := failsafe.With(b.Build())
	return func(ctx context.Context, attempt func(context.Context) error) error {
		return executor.WithContext(ctx).RunWithExecution(func(e failsafe.Execution[any]) error { return attempt(e.Context()) })
	}
}

var simulateCallers = simulation("callers", func(t *testing.T, in callers) (out []Metric) {
	synctest.Test(t, func(*testing.T) { out = in.run() })
	return out
})

func (in callers) run() []Metric {
	call := hedgers[in.System]()
	var mu sync.Mutex // of what follows
	random := rand.New(rand.NewPCG(in.Seed, 0))
	var took []float64
	var ended, hedged []time.Duration // since the beginning
	var attempts, next atomic.Int64
	began := time.Now()
	backend := func(ctx context.Context) error {
		attempts.Add(1)
		mu.Lock()
		takes := lognormal(random)
		mu.Unlock()
		if in.Step > 0 && time.Since(began) >= in.Step {
			takes *= 4
		}
		timer := time.NewTimer(takes)
		defer timer.Stop()
		select {
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	one := func(ctx context.Context) error {
		var tries atomic.Int64
		start := time.Now()
		err := call(ctx, func(ctx context.Context) error {
			if tries.Add(1) > 1 {
				mu.Lock()
				hedged = append(hedged, time.Since(began))
				mu.Unlock()
			}
			return backend(ctx)
		})
		mu.Lock()
		defer mu.Unlock()
		ended = append(ended, time.Since(began))
		took = append(took, ms(time.Since(start)))
		return err
	}
	must(scope.Run(context.Background(), "callers", budget.Within(10*time.Minute), func(_ context.Context, s *scope.Scope) error {
		for range 20 {
			s.Go("caller", func(ctx context.Context) error {
				for in.Calls > 0 && next.Add(1) <= int64(in.Calls) || in.Calls == 0 && time.Since(began) < in.For {
					if err := one(ctx); err != nil {
						return err
					}
				}
				return nil
			})
		}
		return nil
	}))
	out := []Metric{
		{"p50-ms", Quantile(took, .5)}, {"p99-ms", Quantile(took, .99)}, {"p99.9-ms", Quantile(took, .999)},
		{"extra-%", 100 * (float64(attempts.Load())/float64(len(took)) - 1)},
	}
	if in.Step > 0 {
		out = append(out,
			Metric{"most-extra-%", most(ended, hedged, in.Step, in.For, time.Second)},
			Metric{"of-budget-%", most(ended, hedged, in.Step, in.For, time.Second+hedgeWindow) / hedgeShare})
	}
	return out
}

// most is the greatest share, in percent, that the hedges of a second are of the calls that
// ended in it and before it, a span in all. It looks at all seconds from one instant
// until another that begin at a tenth of one.
func most(ended, hedged []time.Duration, from, to, span time.Duration) float64 {
	slices.Sort(ended)
	slices.Sort(hedged)
	count := func(sorted []time.Duration, begin, end time.Duration) float64 {
		i, _ := slices.BinarySearch(sorted, begin)
		j, _ := slices.BinarySearch(sorted, end)
		return float64(j - i)
	}
	greatest := 0.0
	for end := from + time.Second; end <= to; end += time.Second / 10 {
		greatest = max(greatest, 100*count(hedged, end-time.Second, end)/count(ended, end-span, end))
	}
	return greatest
}

func calling(name string, simulated bool, in callers) System {
	in.System = name
	see := callers.run
	if simulated {
		see = simulateCallers
	}
	return System{name, func() Work {
		return Work{Sample: func() []Metric {
			in.Seed++
			return see(in)
		}}
	}}
}

func tailCases(s Scale) []Case {
	requests, calls, inScope := pick(s, 20_000, 10_000), pick(s, 50_000, 20_000), pick(s, 4000, 1000)
	if s.Tiny {
		requests, calls, inScope = 100, 400, 20
	}
	cases := []Case{{
		Name: "100 servers", Parent: "none", Main: "p99.9-ms", Limit: "unhedged", Alone: true, Rounds: 3, Takes: pick(s, 10*time.Second, 3*time.Second),
		Systems: []System{curfew100(inScope), servers100("model", true, requests), servers100("unhedged", false, requests)},
	}}
	of := func(name string, simulated bool, in callers, rounds int, takes time.Duration, systems ...string) {
		c := Case{Name: name, Parent: "scope", Main: "p99-ms", Limit: "unhedged", Rounds: rounds, Takes: takes}
		if in.Step > 0 {
			c.Main, c.Limit, c.Alone = "most-extra-%", "", true
		}
		for _, system := range systems {
			c.Systems = append(c.Systems, calling(system, simulated, in))
		}
		cases = append(cases, c)
	}
	lasts, step := pick(s, 12*time.Second, 8*time.Second), pick(s, 4*time.Second, 3*time.Second)
	if s.Tiny {
		lasts, step = 3*time.Second, time.Second
	}
	plain := []string{"curfew", "curfew/10 ms", "failsafe/10 ms", "unhedged"}
	budgeted := []string{"curfew/budget", "curfew/10 ms, budget", "curfew", "curfew/10 ms", "failsafe/10 ms, budget", "failsafe/10 ms"}
	of("lognormal (simulated)", true, callers{Calls: calls}, 3, pick(s, 6*time.Second, 2500*time.Millisecond), plain...)
	of("lognormal, then four times as slow (simulated)", true, callers{For: lasts, Step: step}, 3, pick(s, 9*time.Second, 4*time.Second), budgeted...)
	if !s.Tiny {
		of("lognormal (run)", false, callers{Calls: pick(s, 10_000, 3000)}, pick(s, 3, 1), pick(s, 36*time.Second, 4500*time.Millisecond), plain...)
	}
	return cases
}
