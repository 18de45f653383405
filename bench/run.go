package bench

import (
	"math"
	"runtime"
	"time"
)

// heldHeap is the live heap held while cases run. With an empty heap the collector
// starts every 4 MiB, and allocations cost several times what they do in a service.
const heldHeap = 32 << 20

// A Result is what a case came to.
type Result struct {
	Suite  string
	Case   Case
	Series map[string]map[string]Series // by system, then by metric
}

// Of returns the median over all rounds of a metric of a system, NaN without one.
func (r Result) Of(system, metric string) float64 {
	return Median(r.Series[system][metric].medians())
}

// A Finding is what a bound was measured to be.
type Finding struct {
	Bound
	Value, Low, High float64
	Holds            bool
}

// Findings returns one for each bound of the case. A figure that could not be
// measured does not hold.
func (r Result) Findings() []Finding {
	var fs []Finding
	for _, b := range r.Case.Bounds {
		f := Finding{Bound: b}
		ours, base := r.Series[b.System][b.metric()], r.Series[b.Base][b.metric()]
		switch b.Kind {
		case Ratio:
			f.Value, f.Low, f.High = RatioOf(ours, base)
		case Over:
			f.Value, f.Low, f.High = combine(ours, base, func(x, y float64) float64 { return x - y })
		case AtMost:
			f.Value, f.Low, f.High = combine(ours, ours, func(x, _ float64) float64 { return x })
		}
		f.Holds = f.Value <= b.Max
		fs = append(fs, f)
	}
	return fs
}

// Run runs a case: rounds in which each system does its work once, in an order
// that rotates. What is timed by the runner is repeated often enough to take about
// as long as the scale says, for all systems equally often.
func Run(suite string, c Case, scale Scale) Result {
	held := make([]byte, heldHeap)
	defer runtime.KeepAlive(held)
	rounds, samples, span := 15, 15, 20*time.Millisecond
	if scale.Quick {
		rounds, samples, span = 5, 5, 2*time.Millisecond
	}
	if scale.Tiny {
		rounds, samples, span = 1, 1, 0
	}
	works := make([]Work, len(c.Systems))
	n := 1
	for i, s := range c.Systems {
		works[i] = s.Make()
		if works[i].Close != nil {
			defer works[i].Close()
		}
	}
	for _, w := range works {
		if w.Op != nil {
			n = max(n, calibrate(w, span))
		}
	}
	r := Result{Suite: suite, Case: c, Series: map[string]map[string]Series{}}
	for _, s := range c.Systems {
		r.Series[s.Name] = map[string]Series{}
	}
	for round := range rounds {
		for k := range works {
			i := (round + k) % len(works)
			var got []Metric
			if works[i].Op != nil {
				got = timed(works[i], n)
			} else {
				times := samples
				for start := time.Now(); times > 0 && (len(got) == 0 || time.Since(start) < 50*span); times-- {
					got = append(got, works[i].Sample()...)
				}
			}
			series := r.Series[c.Systems[i].Name]
			for _, m := range got {
				for len(series[m.Name]) <= round {
					series[m.Name] = append(series[m.Name], nil)
				}
				series[m.Name][round] = append(series[m.Name][round], m.Value)
			}
		}
	}
	return r
}

// calibrate returns how often the work is to be done so that it takes span. It
// looks at runs of a millisecond, not at a first call that warms up.
func calibrate(w Work, span time.Duration) int {
	for n := 1; ; n *= 2 {
		if w.Before != nil {
			w.Before(n)
		}
		start := time.Now()
		w.Op(n)
		if took := time.Since(start); took >= span/4 || took >= time.Millisecond {
			return max(1, int(math.Ceil(float64(n)*float64(span)/float64(took))))
		}
	}
}

// timed does the work n times and returns what one time took, on average.
func timed(w Work, n int) []Metric {
	if w.Before != nil {
		w.Before(n)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, start := cpuTime(), time.Now()
	w.Op(n)
	wall, spent := time.Since(start), cpuTime()-cpu
	runtime.ReadMemStats(&after)
	per := float64(n)
	return []Metric{
		{"ns/op", float64(wall) / per},
		{"cpu-ns/op", float64(spent) / per},
		{"allocs/op", math.Floor(float64(after.Mallocs-before.Mallocs) / per)},
		{"B/op", float64(after.TotalAlloc-before.TotalAlloc) / per},
	}
}
