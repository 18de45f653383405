package bench

import (
	"runtime"
	"testing"
)

func BenchmarkFanout(b *testing.B)     { benchmark(b, "fanout") }
func BenchmarkNested(b *testing.B)     { benchmark(b, "nested") }
func BenchmarkCancel(b *testing.B)     { benchmark(b, "cancel") }
func BenchmarkHedge(b *testing.B)      { benchmark(b, "hedge") }
func BenchmarkRetry(b *testing.B)      { benchmark(b, "retry") }
func BenchmarkCheckpoint(b *testing.B) { benchmark(b, "checkpoint") }
func BenchmarkHTTP(b *testing.B)       { benchmark(b, "http") }
func BenchmarkSQL(b *testing.B)        { benchmark(b, "sql") }
func BenchmarkTail(b *testing.B)       { benchmark(b, "tail") }
func BenchmarkIncident(b *testing.B)   { benchmark(b, "incident") }
func BenchmarkStorm(b *testing.B)      { benchmark(b, "storm") }
func BenchmarkOccupancy(b *testing.B)  { benchmark(b, "occupancy") }
func BenchmarkOverload(b *testing.B)   { benchmark(b, "overload") }

// benchmark runs the cases of a suite as benchmarks called case/system.
func benchmark(b *testing.B, suite string) {
	for _, s := range Suites() {
		if s.Name != suite {
			continue
		}
		for _, c := range s.Cases(Scale{Quick: true}) {
			for _, system := range c.Systems {
				b.Run(c.Name+"/"+system.Name, func(b *testing.B) { benchmarkSystem(b, system) })
			}
		}
	}
}

func benchmarkSystem(b *testing.B, s System) {
	held := make([]byte, heldHeap)
	w := s.Make()
	if w.Skip != "" {
		b.Skip(w.Skip)
	}
	if w.Close != nil {
		defer w.Close()
	}
	b.ReportAllocs()
	if w.Op != nil {
		if w.Before != nil {
			w.Before(b.N)
		}
		b.ResetTimer()
		w.Op(b.N)
		runtime.KeepAlive(held)
		return
	}
	series := map[string][]float64{}
	for range b.N {
		for _, m := range w.Sample() {
			series[m.Name] = append(series[m.Name], m.Value)
		}
	}
	for name, values := range series {
		b.ReportMetric(Median(values), name)
	}
	runtime.KeepAlive(held)
}
