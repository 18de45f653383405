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
	Warm   int    // how many calls are made before those that are counted
	Calls  int    // zero: until For is over
	For    time.Duration
	// From Step on, where it is not zero, the backend is four times as slow.
	Step time.Duration
	Seed uint64
}

// well is how long before Step the calls are looked at, to see what a budget costs while
// the backend is well.
const well = 4 * time.Second

// A hedger makes one call over an attempt at the backend.
type hedger func(ctx context.Context, attempt func(context.Context) error) error

// The systems that have a budget are to hedge at most hedgeShare of a second's calls. For
// curfew that is hedgeRatio of the calls that succeed and hedgeBurst more, as the
// documentation of package retrybudget has it, and nothing else: of-budget-% is how much
// of that the hedges of a second were.
const (
	hedgeShare = .1
	hedgeRatio = .09
	hedgeBurst = 5
)

// hedgers are the systems. All but "curfew" and "unhedged" hedge after 10 ms, which is
// near the 93rd percentile; "curfew" after the percentile that it observes.
var hedgers = map[string]func() hedger{
	"unhedged": func() hedger {
		return func(ctx context.Context, attempt func(context.Context) error) error { return attempt(ctx) }
	},
	"curfew":        func() hedger { return observing(nil) },
	"curfew/budget": func() hedger { return observing(hedgeBudget()) },
	"curfew/default budget": func() hedger {
		return observing(retrybudget.New("backend", retrybudget.Config{Ratio: hedgeShare, PerSecond: -1, Burst: -1}))
	},
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
	return retrybudget.New("backend", retrybudget.Config{Ratio: hedgeRatio, HedgeBurst: hedgeBurst, PerSecond: -1, Burst: -1})
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
	synctest.Test(t, func(*testing.T) { out = in.run(byTimer) })
	return out
})

// inReal is in real time, in a process none of whose processors sleeps.
func (in callers) inReal() []Metric {
	pass, end := awake()
	defer end()
	return in.run(pass)
}

// byTimers is in real time, in a process that mostly waits.
func (in callers) byTimers() []Metric { return in.run(byTimer) }

func (in callers) run(pass passing) []Metric {
	call := hedgers[in.System]()
	var mu sync.Mutex // of what follows
	random := rand.New(rand.NewPCG(in.Seed, 0))
	var took []float64
	var before []float64              // of took, those that ended within well before Step
	var ended, hedged []time.Duration // since the beginning
	var extra, next atomic.Int64
	began := time.Now()
	backend := func(ctx context.Context) error {
		mu.Lock()
		takes := lognormal(random)
		mu.Unlock()
		if in.Step > 0 && time.Since(began) >= in.Step {
			takes *= 4
		}
		return pass(ctx, takes)
	}
	one := func(ctx context.Context, counts bool) error {
		var tries atomic.Int64
		start := time.Now()
		err := call(ctx, func(ctx context.Context) error {
			if tries.Add(1) > 1 && counts {
				extra.Add(1)
				mu.Lock()
				hedged = append(hedged, time.Since(began))
				mu.Unlock()
			}
			return backend(ctx)
		})
		if counts {
			mu.Lock()
			end := time.Since(began)
			ended = append(ended, end)
			took = append(took, ms(time.Since(start)))
			if end < in.Step && end >= in.Step-well {
				before = append(before, ms(time.Since(start)))
			}
			mu.Unlock()
		}
		return err
	}
	must(scope.Run(context.Background(), "callers", budget.Within(10*time.Minute), func(_ context.Context, s *scope.Scope) error {
		for range 20 {
			s.Go("caller", func(ctx context.Context) error {
				for {
					n := int(next.Add(1))
					if in.Calls > 0 && n > in.Warm+in.Calls || in.Calls == 0 && time.Since(began) >= in.For {
						return nil
					}
					if err := one(ctx, n > in.Warm); err != nil {
						return err
					}
				}
			})
		}
		return nil
	}))
	out := []Metric{
		{"p50-ms", Quantile(took, .5)}, {"p99-ms", Quantile(took, .99)}, {"p99.9-ms", Quantile(took, .999)},
		{"extra-%", 100 * float64(extra.Load()) / float64(len(took))},
	}
	if in.Step > 0 {
		out = append(out, Metric{"before-p99-ms", Quantile(before, .99)},
			Metric{"most-extra-%", 100 * most(ended, hedged, in.Step, in.For, func(calls float64) float64 { return calls })},
			Metric{"of-budget-%", 100 * most(ended, hedged, in.Step, in.For, func(calls float64) float64 { return hedgeRatio*calls + hedgeBurst })})
	}
	return out
}

// most is the greatest share that the hedges of a second are of what the calls that ended
// in it allow. It looks at all seconds from one instant until another that begin at a
// hundredth of one.
func most(ended, hedged []time.Duration, from, to time.Duration, allowed func(calls float64) float64) float64 {
	slices.Sort(ended)
	slices.Sort(hedged)
	count := func(sorted []time.Duration, begin, end time.Duration) float64 {
		i, _ := slices.BinarySearch(sorted, begin)
		j, _ := slices.BinarySearch(sorted, end)
		return float64(j - i)
	}
	greatest := 0.0
	for begin, end := from, from+time.Second; end <= to; begin, end = begin+time.Second/100, end+time.Second/100 {
		greatest = max(greatest, count(hedged, begin, end)/allowed(count(ended, begin, end)))
	}
	return greatest
}

func calling(name string, see func(callers) []Metric, in callers) System {
	in.System = name
	return System{name, func() Work {
		return Work{Sample: func() []Metric {
			in.Seed++
			return see(in)
		}}
	}}
}

func tailCases(s Scale) []Case {
	requests, calls, inScope := pick(s, 20_000, 10_000), pick(s, 50_000, 10_000), pick(s, 10_000, 800)
	if s.Tiny {
		requests, calls, inScope = 100, 400, 20
	}
	cases := []Case{{
		Name: "100 servers", Parent: "none", Main: "p99.9-ms", Limit: "unhedged", Alone: true, Rounds: 3, Takes: pick(s, 55*time.Second, 3*time.Second),
		Systems: []System{curfew100(inScope), servers100("model", true, requests), servers100("unhedged", false, requests)},
	}}
	of := func(name string, see func(callers) []Metric, in callers, rounds int, takes time.Duration, systems ...string) {
		c := Case{Name: name, Parent: "scope", Main: "p99-ms", Limit: "unhedged", Rounds: rounds, Takes: takes}
		if in.Step > 0 {
			c.Main, c.Limit, c.Alone = "most-extra-%", "", true
		}
		for _, system := range systems {
			c.Systems = append(c.Systems, calling(system, see, in))
		}
		cases = append(cases, c)
	}
	// The budget's window of ten seconds is full by the step.
	lasts, step := pick(s, 20*time.Second, 12*time.Second), pick(s, 14*time.Second, 10*time.Second)
	if s.Tiny {
		lasts, step = 1300*time.Millisecond, 200*time.Millisecond
	}
	plain := []string{"curfew", "curfew/10 ms", "failsafe/10 ms", "unhedged"}
	budgeted := []string{"curfew/budget", "curfew/10 ms, budget", "curfew/default budget", "curfew", "curfew/10 ms", "failsafe/10 ms, budget", "failsafe/10 ms"}
	of("lognormal (simulated)", simulateCallers, callers{Calls: calls}, 3, pick(s, 9*time.Second, 1500*time.Millisecond), plain...)
	of("lognormal, then four times as slow (simulated)", simulateCallers, callers{For: lasts, Step: step}, pick(s, 3, 1), pick(s, 20*time.Second, 3500*time.Millisecond), budgeted...)
	if s.Tiny {
		return cases
	}
	// In the first sixth of a second the observed percentile is not known.
	run := callers{Warm: pick(s, 2000, 1000), Calls: pick(s, 10_000, 1500)}
	of("lognormal (run)", callers.inReal, run, pick(s, 3, 1), pick(s, 45*time.Second, 3500*time.Millisecond), plain...)
	if !s.Quick {
		of("lognormal (run, by the timers of a process that waits)", callers.byTimers, run, 2, 30*time.Second, plain...)
	}
	return cases
}
