package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/curfew-go/curfew/bench/fleet"
	"github.com/curfew-go/curfew/retrybudget"
	"github.com/curfew-go/curfew/retrybudget/pooltest"
)

var _ = register(Suite{
	Name: "storm",
	About: "what retries add to the load of a target that fails, in simulated time; what runs for curfew is retrybudget itself. " +
		"Clients: the simulator of Marc Brooker's \"Fixing retries with token buckets and circuit breakers\" (2022), 100 clients of 10 calls/s for 10 s. " +
		"Fleet: bench/fleet, up to three retries, 10 s; curfew/one is one budget for all processes at no cost, which nobody can have.",
	Cases: stormCases,
})

// A storm is one simulation of clients whose calls fail at random.
type storm struct {
	Kind    string
	Failing float64
	Lasts   time.Duration
	Seed    uint64
}

type stormResult struct{ Calls, Successes, Attempts int }

var simulateStorm = simulation("storm", func(t *testing.T, in storm) (r stormResult) {
	synctest.Test(t, func(*testing.T) { r = in.run() })
	return r
})

// A judge says whether a client may retry. One is made for each client; began is called
// for each call, and retry for each of its attempts that failed, with how many have.
type judge struct {
	began func()
	retry func(failed int) bool
}

// judges are the rules of the simulator's retry_strategy.py
// (https://github.com/mbrooker/simulator_example).
var judges = map[string]func() judge{
	"none":  func() judge { return judge{func() {}, func(int) bool { return false }} },
	"three": func() judge { return judge{func() {}, func(failed int) bool { return failed <= 3 }} },
	// A bucket of five that starts full, with a tenth for each call.
	"bucket": func() judge {
		tokens := 50
		return judge{
			func() { tokens = min(tokens+1, 50) },
			func(int) bool {
				if tokens <= 10 {
					return false
				}
				tokens -= 10
				return true
			},
		}
	},
	// Up to three retries, as long as at most a tenth of all calls so far have failed.
	"breaker": func() judge {
		calls, failures := 0, 0
		return judge{
			func() { calls++ },
			func(failed int) bool {
				failures++
				return failures*10 <= calls && failed <= 3
			},
		}
	},
}

var errFailing = errors.New("503 service unavailable")

func (s storm) run() (r stormResult) {
	const clients, rate = 100, 10.0
	pool := &pooltest.Memory{}
	var mu sync.Mutex // of r and of judges
	var all sync.WaitGroup
	for i := range clients {
		load := rand.New(rand.NewPCG(s.Seed, uint64(i)))
		do, leave := s.client(pool, &mu)
		defer leave()
		all.Go(func() {
			for end := time.Now().Add(s.Lasts); ; {
				time.Sleep(time.Duration(load.ExpFloat64() / rate * float64(time.Second)))
				if time.Now().After(end) {
					return
				}
				fate := rand.New(rand.NewPCG(load.Uint64(), 0)) // of this call, whoever else runs
				mu.Lock()
				r.Calls++
				mu.Unlock()
				all.Go(func() {
					err := do(func(context.Context) error {
						// There and back, of ten milliseconds each on average.
						time.Sleep(time.Duration((fate.ExpFloat64() + fate.ExpFloat64()) * 10 * float64(time.Millisecond)))
						mu.Lock()
						defer mu.Unlock()
						r.Attempts++
						if fate.Float64() < s.Failing {
							return errFailing
						}
						return nil
					})
					mu.Lock()
					defer mu.Unlock()
					if err == nil {
						r.Successes++
					}
				})
			}
		})
	}
	all.Wait()
	return r
}

// client returns how one client makes its calls, and what to call when it makes no more.
func (s storm) client(pool retrybudget.Pool, mu *sync.Mutex) (do func(attempt func(context.Context) error) error, leave func()) {
	if s.Kind == "curfew" {
		b := retrybudget.New("target", retrybudget.Config{Pool: pool})
		policy := retrybudget.Policy{Idempotent: true, Attempts: 4}
		return func(attempt func(context.Context) error) error {
			return retrybudget.Do(context.Background(), b, policy, attempt)
		}, func() { must(b.Close(context.Background())) }
	}
	j := judges[s.Kind]()
	return func(attempt func(context.Context) error) error {
		mu.Lock()
		j.began()
		mu.Unlock()
		for failed := 1; ; failed++ {
			err := attempt(context.Background())
			if err == nil {
				return nil
			}
			mu.Lock()
			again := j.retry(failed)
			mu.Unlock()
			if !again {
				return err
			}
		}
	}, func() {}
}

func stormSystem(name string, in storm) System {
	return System{name, func() Work {
		return Work{Sample: func() []Metric {
			in.Seed++
			r := simulateStorm(in)
			return []Metric{{"load", float64(r.Attempts) / float64(r.Calls)}, {"success-%", 100 * float64(r.Successes) / float64(r.Calls)}}
		}}
	}}
}

var simulateFleet = simulation("fleet", func(t *testing.T, c fleet.Config) fleet.Result { return fleet.Run(t, c) })

func fleetSystem(name string, c fleet.Config) System {
	return System{name, func() Work {
		return Work{Sample: func() []Metric {
			r := simulateFleet(c)
			return []Metric{{"load", r.Load()}, {"success-%", 100 * r.Success()}, {"pool-calls/s", float64(r.StoreCalls) / c.Length.Seconds()}}
		}}
	}}
}

func stormCases(s Scale) []Case {
	var cases []Case
	lasts := 10 * time.Second
	if s.Tiny {
		lasts = time.Second
	}
	for _, failing := range []float64{.1, .5, 1} {
		if s.Tiny && failing != .5 {
			continue
		}
		c := Case{Name: fmt.Sprintf("100 clients, %g%% failing", 100*failing), Parent: "none", Main: "load", Alone: true, Rounds: 3}
		for _, k := range []struct{ name, kind string }{
			{"curfew", "curfew"}, {"three retries", "three"}, {"brooker/bucket", "bucket"}, {"brooker/breaker", "breaker"}, {"none", "none"},
		} {
			c.Systems = append(c.Systems, stormSystem(k.name, storm{Kind: k.kind, Failing: failing, Lasts: lasts}))
		}
		cases = append(cases, c)
	}
	for _, f := range []struct {
		members       int
		rate, failing float64
		long          bool
	}{
		{10, 100, .5, false}, {10, 100, 1, false}, {100, 100, .5, false}, {100, 100, 1, false}, {1000, 100, .5, false}, {1000, 100, 1, false},
		{1000, 1000, .5, false}, {1000, 1000, .05, false}, {1000, 10_000, .5, true},
	} {
		if f.long && s.Quick || f.members == 10 && s.Quick && !s.Tiny || s.Tiny && (f.members > 10 || f.failing != .5) {
			continue
		}
		config := fleet.Default()
		config.Members, config.Rate, config.Failing, config.Length = f.members, f.rate, f.failing, lasts
		c := Case{
			Name:   fmt.Sprintf("fleet of %d, %g calls/s, %g%% failing", f.members, f.rate, 100*f.failing),
			Parent: "none", Main: "load", Alone: true, Rounds: 1, Takes: pick(s, 8*time.Second, 1500*time.Millisecond),
		}
		for _, k := range []struct{ name, kind string }{
			{"curfew", "curfew"}, {"curfew/one", "one"}, {"three retries", "fixed"}, {"brooker/bucket", "bucket"}, {"finagle", "finagle"},
			{"grpc", "grpc"}, {"aws", "aws"}, {"none", "none"},
		} {
			config.Kind = k.kind
			c.Systems = append(c.Systems, fleetSystem(k.name, config))
		}
		cases = append(cases, c)
	}
	return cases
}
