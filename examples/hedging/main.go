// Hedging reads from a store whose answers are now and then slow. A read that has not come after the
// time in which most of them do is asked again, and the first answer counts. Hedges and retries spend
// from one budget, so that a store which slows down for everybody is not asked twice by everybody.
//
//	go run ./examples/hedging
//
// It makes 3000 reads in three phases (the store is well, slow now and then, slow for all) and prints
// for each the latency with and without hedges, and the load they added.
package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/budget/latency"
	"github.com/curfew-go/curfew/retrybudget"
	"github.com/curfew-go/curfew/scope"
	"github.com/curfew-go/curfew/scope/race"
)

// A reader reads from a store, hedged.
type reader struct {
	store  func(context.Context) (string, error)
	seen   *latency.Observed
	budget *retrybudget.Budget
	hedges race.Config[string]
}

func newReader(store func(context.Context) (string, error)) *reader {
	r := &reader{
		store:  store,
		seen:   latency.New(latency.Config{Window: 10 * time.Second, HedgeAt: 0.95}),
		budget: retrybudget.New("store", retrybudget.Config{Ratio: 0.1}),
	}
	r.hedges = race.Config[string]{After: r.seen.HedgeDelay, Gate: r.budget.Hedges()}
	return r
}

// read returns the first of one or two answers; when both fail, it tries again if the budget allows.
func (r *reader) read(ctx context.Context) (string, error) {
	return retrybudget.DoValue(ctx, r.budget, retrybudget.Policy{Idempotent: true, Typical: r.seen.Typical}, r.hedged)
}

func (r *reader) hedged(ctx context.Context) (string, error) {
	return r.hedges.Hedge(ctx, "read", func(ctx context.Context) (string, error) {
		began := time.Now()
		v, err := r.store(ctx)
		r.seen.Record(time.Since(began), err)
		return v, err
	})
}

// A phase is how slow the store is: each read takes normal, and a share of them slow.
type phase struct {
	name         string
	normal, slow time.Duration
	share        float64
}

var phases = []phase{
	{"well", 2 * time.Millisecond, 2 * time.Millisecond, 0},
	{"1 of 50 is slow", 2 * time.Millisecond, 60 * time.Millisecond, 0.02},
	{"all are slow", 60 * time.Millisecond, 60 * time.Millisecond, 1},
}

// A figure is what one phase gave.
type figure struct {
	p50, p99 time.Duration
	calls    float64 // of the store, for each read
	failed   int
}

// measure makes reads reads, a few at a time, and returns what they took.
func measure(ctx context.Context, ph phase, reads int, hedge bool) (figure, error) {
	var now atomic.Pointer[phase]
	var calls atomic.Int64
	now.Store(&phases[0])
	r := newReader(func(ctx context.Context) (string, error) {
		calls.Add(1)
		ph := now.Load()
		d := ph.normal
		if rand.Float64() < ph.share {
			d = ph.slow
		}
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			return "value", nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	})
	read := r.read
	if !hedge {
		read = r.store
	}
	var f figure
	var mu sync.Mutex
	var took []time.Duration
	many := func(n int) error {
		return scope.Each(ctx, "reads", 10, make([]struct{}, n), func(ctx context.Context, _ struct{}) error {
			began := time.Now()
			_, err := read(ctx)
			mu.Lock()
			defer mu.Unlock()
			took = append(took, time.Since(began))
			if err != nil {
				f.failed++
			}
			return ctx.Err()
		})
	}
	if err := many(reads); err != nil { // what the reader learns from
		return f, err
	}
	now.Store(&ph)
	took = nil
	calls.Store(0)
	if err := many(reads); err != nil {
		return f, err
	}
	slices.Sort(took)
	f.p50, f.p99 = took[len(took)/2], took[len(took)*99/100]
	f.calls = float64(calls.Load()) / float64(reads)
	return f, nil
}

func main() {
	if err := run(1000); err != nil {
		fmt.Fprintln(os.Stderr, "hedging:", err)
		os.Exit(1)
	}
}

func run(reads int) error {
	ctx, cancel, err := budget.Enter(context.Background(), budget.Within(2*time.Minute))
	if err != nil {
		return err
	}
	defer cancel()
	fmt.Println("the store is      p50 alone    p99 alone    p50 hedged   p99 hedged   calls a read")
	for _, ph := range phases {
		alone, err := measure(ctx, ph, reads, false)
		if err != nil {
			return err
		}
		hedged, err := measure(ctx, ph, reads, true)
		if err != nil {
			return err
		}
		fmt.Printf("%-17s %-12v %-12v %-12v %-12v %.2f\n", ph.name,
			alone.p50.Round(100*time.Microsecond), alone.p99.Round(100*time.Microsecond),
			hedged.p50.Round(100*time.Microsecond), hedged.p99.Round(100*time.Microsecond), hedged.calls)
	}
	return nil
}
