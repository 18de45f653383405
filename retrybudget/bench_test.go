package retrybudget

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/curfew-go/curfew/budget"
)

func BenchmarkDo(b *testing.B) {
	ok := func(context.Context) error { return nil }
	bounded, cancel, err := budget.Enter(context.Background(), budget.Within(time.Hour))
	if err != nil {
		b.Fatal(err)
	}
	defer cancel()
	for _, bench := range []struct {
		name   string
		ctx    context.Context
		policy Policy
	}{
		{"success", context.Background(), Policy{Idempotent: true}},
		{"success with deadline", bounded, Policy{Idempotent: true}},
		{"success with PerAttempt", bounded, Policy{Idempotent: true, PerAttempt: time.Second}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			target := New("target", Config{})
			b.ReportAllocs()
			for b.Loop() {
				if err := Do(bench.ctx, target, bench.policy, ok); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("denied", func(b *testing.B) {
		fail := fmt.Errorf("down")
		target := New("target", Config{Burst: -1})
		b.ReportAllocs()
		for b.Loop() {
			_ = Do(context.Background(), target, Policy{Idempotent: true}, func(context.Context) error { return fail })
		}
	})
}

func BenchmarkTake(b *testing.B) {
	target := New("target", Config{Ratio: 1})
	target.core.successes.Add(1 << 40)
	b.ReportAllocs()
	for b.Loop() {
		target.TryTake()
	}
}

func BenchmarkSet(b *testing.B) {
	s := NewSet(Config{}, 100)
	b.ReportAllocs()
	for b.Loop() {
		s.For("target").Success()
	}
}

// BenchmarkContended reports what deposits, takes and a mix of them cost when
// every processor does nothing else, as a multiple of one atomic addition to a
// counter that all share. All take turns within a run, so that a busy machine
// falls on each of them, and the medians of the rounds are reported. Read them on
// a machine that does nothing else: where workers have to take turns nothing is
// contended, the addition gets cheap (ns/add falls) and the clock does not.
func BenchmarkContended(b *testing.B) {
	workers := runtime.GOMAXPROCS(0)
	const perWorker, rounds = 50_000, 21
	var bare atomic.Uint64
	target := New("target", Config{Ratio: 1, Burst: -1})
	empty := New("target", Config{Burst: -1})
	systems := []struct {
		name    string
		prepare func()
		op      func(i int)
	}{
		{"add", func() {}, func(int) { bare.Add(1) }},
		{"deposit", func() {}, func(int) { target.Success() }},
		{"take", func() { target.core.successes.Add(uint64(workers * perWorker)) }, func(int) {
			if !target.TryTake() {
				panic("denied")
			}
		}},
		// The least that a take with a look at the clock can cost.
		{"clock", func() {}, func(int) { bare.Add(1); _ = target.core.now() }},
		{"denied", func() {}, func(int) { empty.TryTake() }},
		{"mix", func() {}, func(i int) {
			if i%11 == 10 {
				target.TryTake()
			} else {
				target.Success()
			}
		}},
	}
	times := make([][]float64, len(systems))
	for b.Loop() {
		for range rounds {
			for i, s := range systems {
				s.prepare()
				times[i] = append(times[i], float64(contend(workers, perWorker, s.op)))
			}
		}
	}
	ratios := make([]float64, len(times[0]))
	for i, s := range systems[1:] {
		for r := range ratios {
			ratios[r] = times[i+1][r] / times[0][r]
		}
		slices.Sort(ratios)
		b.ReportMetric(ratios[len(ratios)/2], s.name+"/add")
	}
	slices.Sort(times[0])
	b.ReportMetric(times[0][len(times[0])/2]/float64(workers*perWorker), "ns/add")
}

// contend runs op n times on each of the workers and returns how long they took.
func contend(workers, n int, op func(i int)) time.Duration {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for range workers {
		wg.Go(func() {
			<-start
			for i := range n {
				op(i)
			}
		})
	}
	began := time.Now()
	close(start)
	wg.Wait()
	return time.Since(began)
}
