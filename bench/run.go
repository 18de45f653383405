package bench

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
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
	// LeftOut says of a system why it was not measured.
	LeftOut map[string]string
	Rounds  int
	Took    time.Duration
}

// failedWith is what the reason of a system begins with that was left out for a panic.
const failedWith = "failed: "

// Failed says whether a system of the case panicked.
func (r Result) Failed() bool {
	for _, why := range r.LeftOut {
		if strings.HasPrefix(why, failedWith) {
			return true
		}
	}
	return false
}

// leftOutAll is why no system could be measured here, and empty where one was or panicked.
func (r Result) leftOutAll() string {
	if r.Failed() {
		return ""
	}
	why := ""
	for _, s := range r.Case.Systems {
		if why = r.LeftOut[s.Name]; why == "" {
			return ""
		}
	}
	return why
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
		case AtMost, AtLeast:
			f.Value, f.Low, f.High = combine(ours, ours, func(x, _ float64) float64 { return x })
		}
		f.Holds = b.allows(f.Value)
		fs = append(fs, f)
	}
	return fs
}

// A pace says how a Scale runs a case.
type pace struct {
	// turn is how long one system works within a round.
	turn time.Duration
	// A case has between least and most rounds, and begins none after allowance.
	least, most int
	allowance   time.Duration
	// slowest is how many turns the work of the slowest system may take when it is done as
	// often as fills the turn of the fastest; zero is any number.
	slowest int
}

func (s Scale) pace() pace {
	switch {
	case s.Tiny:
		return pace{0, 1, 1, 0, 0}
	case s.Quick:
		return pace{5 * time.Millisecond, 2, 15, 600 * time.Millisecond, 20}
	}
	return pace{20 * time.Millisecond, 5, 41, 6 * time.Second, 0}
}

// paceOf is the pace of a case.
func (s Scale) paceOf(c Case) pace {
	p := s.pace()
	if c.Rounds > 0 {
		p.least, p.most = min(p.least, c.Rounds), min(p.most, c.Rounds)
	}
	if c.Fine {
		p.turn, p.most = p.turn/4, p.most*10
	}
	return p
}

// times is how often every system does its work, of how often each would fill its turn.
func (p pace) times(fill []int) int {
	if len(fill) == 0 {
		return 1
	}
	n := slices.Max(fill)
	if p.slowest > 0 {
		n = min(n, p.slowest*slices.Min(fill))
	}
	return n
}

// turnOf returns which of n systems has the turn k of a round. Who begins rotates from one
// round to the next but one, and every other round goes backwards, so that nobody always comes after
// the same one, whose garbage and sleeping goroutines it would meet.
func turnOf(round, k, n int) int {
	if round%2 == 1 {
		k = n - 1 - k
	}
	return (round/2 + k) % n
}

// mostSamples is how often a system that measures itself does so in one turn.
const mostSamples = 200

// Run runs a case: rounds in which each system does its work once, in an order
// that rotates and turns around. What is timed by the runner is repeated often enough to take about
// as long as the scale says, for all systems equally often. A system that panics is
// left out, with the panic as the reason; so is one that cannot run here.
func Run(suite string, c Case, scale Scale) Result {
	began, pace := time.Now(), scale.paceOf(c)
	held := make([]byte, heldHeap)
	defer runtime.KeepAlive(held)
	r := Result{Suite: suite, Case: c, Series: map[string]map[string]Series{}, LeftOut: map[string]string{}}
	works := make([]Work, len(c.Systems))
	// try calls f for a system that is still in the run.
	try := func(i int, f func(w *Work)) {
		name := c.Systems[i].Name
		if r.LeftOut[name] != "" {
			return
		}
		defer func() {
			if p := recover(); p != nil {
				r.LeftOut[name] = fmt.Sprintf("%s%v", failedWith, p)
			}
		}()
		f(&works[i])
	}
	for i, s := range c.Systems {
		r.Series[s.Name] = map[string]Series{}
		try(i, func(w *Work) {
			if *w = s.Make(); w.Skip != "" {
				r.LeftOut[s.Name] = w.Skip
			}
		})
		defer func() {
			if works[i].Close != nil {
				works[i].Close()
			}
		}()
	}
	var fill []int // how often each system does its work in a turn
	for i := range works {
		try(i, func(w *Work) {
			if w.Op != nil {
				fill = append(fill, calibrate(*w, pace.turn))
			}
		})
	}
	n := pace.times(fill)
	for start := time.Now(); r.Rounds < pace.most && (r.Rounds < pace.least || time.Since(start) < pace.allowance); r.Rounds++ {
		for k := range works {
			i := turnOf(r.Rounds, k, len(works))
			try(i, func(w *Work) {
				var got []Metric
				if w.Op != nil {
					got = timed(*w, n)
				} else {
					times := 0
					for start := time.Now(); times == 0 || times < mostSamples && time.Since(start) < pace.turn; times++ {
						got = append(got, w.Sample()...)
					}
				}
				series := r.Series[c.Systems[i].Name]
				for _, m := range got {
					for len(series[m.Name]) <= r.Rounds {
						series[m.Name] = append(series[m.Name], nil)
					}
					series[m.Name][r.Rounds] = append(series[m.Name][r.Rounds], m.Value)
				}
			})
		}
	}
	r.Took = time.Since(began)
	return r
}

// calibrate returns how often the work is to be done so that it takes span. It looks at
// runs of a millisecond, the better of two, since a first call warms up and any may be
// interrupted.
func calibrate(w Work, span time.Duration) int {
	run := func(n int) time.Duration {
		if w.Before != nil {
			w.Before(n)
		}
		start := time.Now()
		w.Op(n)
		return time.Since(start)
	}
	enough := min(span/4, time.Millisecond)
	for n := 1; ; n *= 2 {
		took := run(n)
		if took >= enough {
			took = min(took, run(n))
		}
		if took >= enough {
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
