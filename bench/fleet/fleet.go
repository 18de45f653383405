// Package fleet simulates many processes that call one failing target, and counts
// what their retries add to its load under retry budgets of several kinds.
//
// Time is simulated, by testing/synctest, and everything else is as it would be:
// what runs for curfew is retrybudget itself, with a Pool in memory behind a network
// that takes a while and can fail. Of the other systems their rules are run, one
// budget a process, as the systems have it.
//
// The load is the same for every kind and every run with one seed: when calls begin,
// who makes them and which attempts fail. What is drawn inside of retrybudget, such
// as the jitter of its periods, is not seeded.
package fleet

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/curfew-go/curfew/retrybudget"
)

// A Config is one simulation. Every field but those of Store must be set; Default is
// a start.
type Config struct {
	Kind    string        // of the budget, one of Kinds
	Members int           // processes; each call is made by one at random
	Rate    float64       // calls a second of all together, at random instants
	Failing float64       // share of the attempts that fail
	Retries int           // at most, of one call
	Backoff time.Duration // before the first retry, doubled for each that follows
	Length  time.Duration
	Seed    uint64
	Store   Store // where curfew's pool is; the others have none
}

// Default is 1000 processes that make 100 calls a second for ten seconds, of which
// half fail, with up to three retries.
func Default() Config {
	return Config{
		Kind: "curfew", Members: 1000, Rate: 100, Failing: 0.5, Retries: 3,
		Backoff: 20 * time.Millisecond, Length: 10 * time.Second, Seed: 1,
		Store: Store{RTT: time.Millisecond},
	}
}

// A Result is what came of it.
type Result struct {
	Calls, Successes, Attempts int64
	StoreCalls                 int64
	PerSecond                  []int64 // retries, by when they began
}

// Load is attempts for each call: 1 without any retry.
func (r Result) Load() float64 { return float64(r.Attempts) / float64(r.Calls) }

// Success is the share of the calls that succeeded in the end.
func (r Result) Success() float64 { return float64(r.Successes) / float64(r.Calls) }

// Retries is how many there were.
func (r Result) Retries() int64 { return r.Attempts - r.Calls }

// Run simulates c in a bubble of t.
func Run(t *testing.T, c Config) (r Result) {
	synctest.Test(t, func(*testing.T) { r = c.run() })
	return r
}

// Main is for a program that is no test: it calls f with a t for Run, and ends the
// process with code 1 if f fails t or panics, else 0. Simulated time is part of package
// testing, which says PASS in the end; so os.Stdout is not what it was while f runs.
func Main(f func(t *testing.T)) {
	testing.Init()
	err := flag.CommandLine.Parse(nil) // the flags of tests must be there and parsed
	if err == nil {
		os.Stdout, err = os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	}
	if err != nil {
		panic(err)
	}
	all := func(string, string) (bool, error) { return true, nil }
	testing.Main(all, []testing.InternalTest{{Name: "fleet", F: f}}, nil, nil)
}

var errDown = errors.New("503 service unavailable")

func (c Config) run() Result {
	var counts struct{ calls, successes, attempts, store atomic.Int64 }
	perSecond := make([]atomic.Int64, int(c.Length/time.Second)+1)
	members, leave := c.members(&counts.store)
	load := rand.New(rand.NewPCG(c.Seed, 0))
	began := time.Now()
	var calls sync.WaitGroup
	for at := time.Duration(0); ; {
		at += time.Duration(load.ExpFloat64() / c.Rate * float64(time.Second))
		if at >= c.Length {
			break
		}
		time.Sleep(at - time.Since(began))
		m := members[load.IntN(len(members))]
		fate := rand.New(rand.NewPCG(load.Uint64(), 0)) // of this call, whoever else runs
		counts.calls.Add(1)
		attempt := func() error {
			counts.attempts.Add(1)
			if fate.Float64() < c.Failing {
				return errDown
			}
			return nil
		}
		first := attempt()
		if first == nil {
			counts.successes.Add(1)
			m.success()
			continue
		}
		calls.Go(func() {
			begun := false
			err := m.retry(c.policy(), func(context.Context) error {
				if !begun { // it has been, above: most calls need no goroutine
					begun = true
					return first
				}
				if i := int(time.Since(began) / time.Second); i < len(perSecond) {
					perSecond[i].Add(1)
				}
				return attempt()
			})
			if err == nil {
				counts.successes.Add(1)
			}
		})
	}
	calls.Wait()
	leave()
	r := Result{
		Calls: counts.calls.Load(), Successes: counts.successes.Load(), Attempts: counts.attempts.Load(),
		StoreCalls: counts.store.Load(),
	}
	for i := range perSecond {
		r.PerSecond = append(r.PerSecond, perSecond[i].Load())
	}
	return r
}

func (c Config) policy() retrybudget.Policy {
	return retrybudget.Policy{
		Idempotent: true, Attempts: c.Retries + 1,
		Backoff: retrybudget.Backoff{Base: c.Backoff, Max: 16 * c.Backoff, Jitter: retrybudget.NoJitter},
	}
}
