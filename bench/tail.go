package bench

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
	"github.com/curfew-go/curfew/scope/race"
)

var _ = register(Suite{
	Name: "tail",
	About: "what hedging does to the slowest answers. 100 servers: requests that wait for all of them; the model is computed from the distribution, without a library. " +
		"Lognormal: 20 callers at once, mean 5 ms, deviation 2 ms, one in twenty ten times as long. Simulated: in simulated time, where a timer costs nothing; run: in real time, " +
		"after 2000 calls, while no processor sleeps, since timers of a process that mostly waits are late by up to a millisecond; those of the last case are.",
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

var simulateServers = simulation("servers", func(t *testing.T, in serversRun) (out []Metric) {
	synctest.Test(t, func(*testing.T) { out = in.run() })
	return out
})

// A serversRun is requests to all of 100 servers, each of which is hedged by package race.
type serversRun struct {
	Requests int
	Seed     uint64
}

func (in serversRun) run() []Metric {
	hedges := race.Config[int]{After: func() time.Duration { return 10 * time.Millisecond }}
	var attempts atomic.Int64
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(in.Seed, 2)) // under mu
	ask := func(ctx context.Context) (int, error) {
		attempts.Add(1)
		mu.Lock()
		takes := time.Duration(leafLatency(random) * float64(time.Millisecond))
		mu.Unlock()
		return 0, byTimer(ctx, takes)
	}
	worst := make([]float64, in.Requests)
	for i := range worst {
		began := time.Now()
		must(scope.Run(context.Background(), "request", budget.Within(time.Minute), func(_ context.Context, s *scope.Scope) error {
			for range 100 {
				s.Go("leaf", func(ctx context.Context) error {
					_, err := hedges.Hedge(ctx, "ask", ask)
					return err
				})
			}
			return nil
		}))
		worst[i] = ms(time.Since(began))
	}
	extra := float64(attempts.Load())/float64(100*in.Requests) - 1
	return []Metric{{"p50-ms", Quantile(worst, .5)}, {"p99-ms", Quantile(worst, .99)}, {"p99.9-ms", Quantile(worst, .999)}, {"extra-%", 100 * extra}}
}

// curfew100 is servers100 with curfew's own hedges, in simulated time.
func curfew100(requests int) System {
	return System{"curfew", func() Work {
		in := serversRun{Requests: requests}
		return Work{Sample: func() []Metric {
			in.Seed++
			return simulateServers(in)
		}}
	}}
}
