package bench

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
)

var _ = register(Suite{
	Name: "occupancy",
	About: "how many requests a service holds, and how many it can take, when what it depends on is slow. " +
		"Simulated: in simulated time at full size, the dead backend of a quick run at a fifth of it; run: the same code in real time, smaller and faster. std: each hop has a timeout of its own; " +
		"curfew: one deadline that reaches the last of them. " +
		"The two sides are given different limits: dead backend std 100 s and curfew 1 s, slow dependency std none and curfew 2 s; a plain WithTimeout of the same length would do the same there. " +
		"The closed form of the dead backend is 1000/(1000 × (0.05 × 100 + 0.95 × 0.1)) = 19.6%. Counted are whole cycles of a thread, which are 101.9 s and 20 requests, " +
		"and of each 20 requests that are taken one is dead, so that simulation and a run of a twentieth of the threads are to show that within 0.4 points, and less where timers are late: " +
		"each ms that a request of 100 ms is held longer takes 0.0037 points. Where each request is drawn on its own, the 50 threads of a run take 1000 ± 138 requests in a cycle, " +
		"which of the 5000 of 100 s is 20.0% ± 2.8: a figure such as 15.4 is one such draw.",
	Cases: occupancyCases,
})

// An inflow is requests that arrive at even distances and hold something.
type inflow struct {
	Curfew bool
	// Scale is by how much all times are shortened, Rate counts for unshortened time.
	Scale float64
	Rate  float64 // requests a second
	Held  time.Duration
	// Timeouts are those of the hops on the way, outermost first; the first of them is
	// the deadline under curfew. None: the request is held until it is done.
	Timeouts []time.Duration
	// One of each DeadEvery requests that are not refused holds until the last of Timeouts
	// ends; which of them is drawn. Zero: none does.
	DeadEvery int
	// Threads is how many are held at once; a request that finds none free is refused.
	// Zero: there is no end of them.
	Threads int64
	// From Warm on until Length, requests count.
	Warm, Length time.Duration
	Seed         uint64
}

// An occupancy is what was seen of an inflow.
type occupancy struct {
	InFlight float64 // held at once, on average
	Served   float64 // share of the requests that were not refused
}

var simulateOccupancy = simulation("occupancy", func(t *testing.T, in inflow) (out occupancy) {
	synctest.Test(t, func(*testing.T) { out = in.run() })
	return out
})

func (in inflow) real(d time.Duration) time.Duration { return time.Duration(float64(d) / in.Scale) }

// A gauge counts what is held and for how long, from one instant until another.
type gauge struct {
	from, to time.Time

	mu   sync.Mutex
	held int64     // under mu
	last time.Time // under mu: when held changed
	area float64   // under mu: held times nanoseconds
}

func (g *gauge) add(n int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	begin, end := g.last, now
	if begin.Before(g.from) {
		begin = g.from
	}
	if end.After(g.to) {
		end = g.to
	}
	if d := end.Sub(begin); d > 0 {
		g.area += float64(g.held) * float64(d)
	}
	g.held += n
	g.last = now
}

func (g *gauge) now() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.held
}

// mean is how many were held on average; it is to be asked when none is any more.
func (g *gauge) mean() float64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.area / float64(g.to.Sub(g.from))
}

func (in inflow) run() occupancy {
	began := time.Now()
	g := &gauge{from: began.Add(in.real(in.Warm)), to: began.Add(in.real(in.Length)), last: began}
	var counted, taken, served int
	var all sync.WaitGroup
	dead := in.deaths()
	gap := float64(time.Second) / in.Rate / in.Scale
	for n := 0; ; n++ {
		at := time.Duration(float64(n) * gap)
		if at >= in.real(in.Length) {
			break
		}
		if ahead := at - time.Since(began); ahead > 0 {
			time.Sleep(ahead)
		}
		counts := at >= in.real(in.Warm)
		if counts {
			counted++
		}
		if in.Threads > 0 && g.now() >= in.Threads {
			continue
		}
		if counts {
			served++
		}
		takes := in.real(in.Held)
		if dead(taken) {
			takes = time.Hour
		}
		taken++
		g.add(1)
		all.Go(func() {
			in.handle(func(ctx context.Context) {
				defer g.add(-1)
				timer := time.NewTimer(takes)
				defer timer.Stop()
				select {
				case <-timer.C:
				case <-ctx.Done():
				}
			})
		})
	}
	all.Wait()
	for g.now() > 0 { // what nobody waits for any more
		time.Sleep(time.Millisecond)
	}
	return occupancy{g.mean(), float64(served) / float64(counted)}
}

// deaths returns what says of each request that is taken, asked one after another, whether
// it meets a backend that is dead. Were each drawn on its own, the share that is served
// would deviate by 14% of itself with 50 threads and by 3% with 1000, since a thread takes
// only one dead request in a hundred seconds.
func (in inflow) deaths() func(n int) bool {
	if in.DeadEvery == 0 {
		return func(int) bool { return false }
	}
	random := rand.New(rand.NewPCG(in.Seed, 0))
	which := 0
	return func(n int) bool {
		if n%in.DeadEvery == 0 {
			which = random.IntN(in.DeadEvery)
		}
		return n%in.DeadEvery == which
	}
}

// handle runs work behind the hops.
func (in inflow) handle(work func(context.Context)) {
	bg := context.Background()
	if len(in.Timeouts) == 0 {
		work(bg)
		return
	}
	if in.Curfew {
		_ = scope.Run(bg, "request", budget.Within(in.real(in.Timeouts[0])), func(ctx context.Context, s *scope.Scope) error {
			s.Go("work", func(ctx context.Context) error {
				work(ctx)
				return ctx.Err()
			})
			return nil
		})
		return
	}
	// Each hop waits for the next for as long as its own timeout, and the next knows
	// nothing of it.
	next := func(context.Context) { work(kept(context.WithTimeout(bg, in.real(in.Timeouts[len(in.Timeouts)-1])))) }
	for i := len(in.Timeouts) - 2; i >= 0; i-- {
		then, timeout := next, in.real(in.Timeouts[i])
		next = func(context.Context) {
			done := make(chan struct{})
			go func() {
				defer close(done)
				then(bg)
			}()
			timer := time.NewTimer(timeout)
			defer timer.Stop()
			select {
			case <-done:
			case <-timer.C:
			}
		}
	}
	next(bg)
}

// occupied is a system that reports metrics of an inflow, simulated or run.
func occupied(name string, simulated bool, in inflow, report func(see func(inflow) occupancy, in inflow) []Metric) System {
	in.Curfew = name == "curfew"
	see := inflow.run
	if simulated {
		see = simulateOccupancy
	}
	return System{name, func() Work {
		return Work{Sample: func() []Metric { return report(see, in) }}
	}}
}

func occupancyCases(s Scale) []Case {
	inFlight := func(see func(inflow) occupancy, in inflow) []Metric {
		return []Metric{{"in-flight", see(in).InFlight}}
	}
	// factor compares with a dependency that takes ten milliseconds.
	factor := func(see func(inflow) occupancy, in inflow) []Metric {
		slow := see(in)
		in.Held, in.Warm, in.Length = 10*time.Millisecond, time.Second, 3*time.Second
		return []Metric{{"factor", slow.InFlight / see(in).InFlight}}
	}
	served := func(see func(inflow) occupancy, in inflow) []Metric {
		return []Metric{{"served-%", 100 * see(in).Served}}
	}
	second := time.Second
	pair := func(name, metric string, simulated bool, std, curfew inflow, takes time.Duration, report func(func(inflow) occupancy, inflow) []Metric) Case {
		kind := " (run)"
		if simulated {
			kind = " (simulated)"
		}
		return Case{
			Name: name + kind, Parent: "none", Main: metric, Alone: true, Rounds: 1, Takes: takes,
			Systems: []System{occupied("curfew", simulated, curfew, report), occupied("std", simulated, std, report)},
		}
	}
	// A statement of 4 s behind timeouts of 2, 3 and 5 s, 100 requests a second.
	inverted := inflow{Scale: 1, Rate: 100, Held: 4 * second, Timeouts: []time.Duration{2 * second, 3 * second, 5 * second}, Warm: 5 * second, Length: 10 * second, Seed: 1}
	invertedRun := inverted
	invertedRun.Scale = pick(s, 2.0, 10.0)
	// A dependency that slows down from 10 ms to 10 s.
	slow := inflow{Scale: 1, Rate: 200, Held: 10 * second, Warm: 11 * second, Length: 13 * second, Seed: 1}
	// One request in twenty meets a backend that is dead, behind a deadline of 100 s, and
	// there are 1000 threads for 1000 requests a second of 100 ms.
	dead := inflow{
		Scale: 1, Rate: 1000, Held: 100 * time.Millisecond, DeadEvery: 20, Threads: 1000,
		Timeouts: []time.Duration{100 * second}, Seed: 1,
	}
	// The threads, all free in the beginning, are taken in the first half minute and nearly
	// at once again when their 100 s are over. What is counted is whole cycles of a thread,
	// from one time at which nothing is served until another: 100 s would be too little for
	// a cycle, and one that begins while requests are served would cut those of two.
	cycle := time.Duration(dead.DeadEvery-1)*dead.Held + dead.Timeouts[0]
	dead.Warm = 60 * second
	dead.Length = dead.Warm + time.Duration(pick(s, 2, 1))*cycle
	if s.Tiny {
		slow.Rate /= 4
	}
	deadRun := dead
	deadRun.Scale, deadRun.Rate, deadRun.Threads = pick(s, 25.0, 100.0), dead.Rate/20, dead.Threads/20
	fewer := pick(s, 1, 5) // with the same shares
	dead.Rate, dead.Threads = dead.Rate/float64(fewer), dead.Threads/int64(fewer)
	deadline := func(in inflow, d time.Duration) inflow {
		in.Timeouts = []time.Duration{d}
		return in
	}
	cases := []Case{
		pair("inverted timeouts", "in-flight", true, inverted, inverted, second, inFlight),
		pair("slow dependency", "factor", true, slow, deadline(slow, 2*second), second, factor),
		pair("dead backend", "served-%", true, dead, deadline(dead, second), pick(s, 8*second, second), served),
	}
	if s.Tiny {
		return cases
	}
	cases = append(cases,
		pair("inverted timeouts", "in-flight", false, invertedRun, invertedRun, 2*invertedRun.real(invertedRun.Length+4*second), inFlight),
		pair("dead backend", "served-%", false, deadRun, deadline(deadRun, second), deadRun.real(2*deadRun.Length+100*second), served),
	)
	if !s.Quick { // in less time its ten milliseconds would be less than a timer's precision
		slowRun := slow
		slowRun.Scale, slowRun.Rate = 2, 100
		cases = append(cases, pair("slow dependency", "factor", false, slowRun, deadline(slowRun, 2*second), 2*slowRun.real(slowRun.Length+slowRun.Held), factor))
	}
	return cases
}
