package bench

import (
	"flag"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
	if w.Before != nil {
		w.Before(b.N)
	}
	b.ResetTimer() // what is held and made is no part of it
	if w.Op != nil {
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

func TestWhatABenchmarkHoldsAndMakesIsNoPartOfItsFigures(t *testing.T) {
	times := flag.Lookup("test.benchtime").Value.String()
	require.NoError(t, flag.Set("test.benchtime", "1x"))
	defer func() { assert.NoError(t, flag.Set("test.benchtime", times)) }()
	for name, w := range map[string]Work{
		"timed":   {Op: func(int) {}},
		"sampled": {Sample: func() []Metric { return []Metric{{"p99-ms", 1}} }},
	} {
		r := testing.Benchmark(func(b *testing.B) { benchmarkSystem(b, System{"s", func() Work { return w }}) })
		assert.Equal(t, 1, r.N)
		assert.Less(t, r.AllocedBytesPerOp(), int64(heldHeap), name)
	}
}
