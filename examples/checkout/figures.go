package main

import (
	"cmp"
	"slices"
	"time"
)

// The figures of one mode, over the users who came while the warehouse was degraded. Durations are
// incident time. Everything is counted or timed; nothing is derived from settings.
type figures struct {
	Users int `json:"users"`

	// Calls that arrived at the warehouse for one checkout, refused ones included.
	CallsMean  float64 `json:"warehouse_calls_mean"`
	CallsWorst int     `json:"warehouse_calls_worst"`

	// From a user's click until the last thing done for it: the answer, or the last piece of work
	// that a server did for a user long gone.
	WorstTotal seconds `json:"worst_total_seconds"`

	// Mean arrivals at the warehouse in the degraded phase over the healthy one.
	LoadMultiplier float64 `json:"load_multiplier"`

	Availability           float64        `json:"availability"`
	AvailabilitySecondHalf float64        `json:"availability_second_half"`
	Failures               map[string]int `json:"failures"` // why the others failed, as they were told
	SlowestFailure         seconds        `json:"slowest_failure_seconds"`

	// What users waited, for good and bad answers alike.
	P50 seconds `json:"p50_seconds"`
	P99 seconds `json:"p99_seconds"`

	// The share of the warehouse's working time that nobody could use any more, see wastedIn, and the
	// number of answers computed for nobody. CutShare is time spent on answers that somebody still
	// waited for but that could not be had within the deadline: not waste, and not hidden either.
	Wasted        float64 `json:"wasted_share"`
	WastedAnswers int     `json:"wasted_answers"`
	CutShare      float64 `json:"cut_share"`

	// How late the load generator itself was: it must be small for the other figures to mean anything.
	GeneratorLateP99 seconds `json:"generator_late_p99_seconds"`
}

func measure(rec *recording) figures {
	var (
		f          = figures{Failures: map[string]int{}}
		halfway    = rec.plan.healthy + rec.plan.degraded/2
		latencies  []time.Duration
		late       []time.Duration
		lastDone   = lastWork(rec)
		calls      int
		ok, okLate int // okLate: in the second half
		secondHalf int
	)
	for i, u := range rec.users {
		if u.arrived < rec.plan.healthy {
			continue
		}
		f.Users++
		calls += rec.calls[i]
		f.CallsWorst = max(f.CallsWorst, rec.calls[i])
		f.WorstTotal = max(f.WorstTotal, seconds(max(u.ended, lastDone[i])-u.arrived))
		latencies = append(latencies, u.latency())
		late = append(late, u.sent-u.arrived)
		if u.arrived >= halfway {
			secondHalf++
		}
		if u.outcome != outcomeBought {
			f.Failures[u.outcome]++
			f.SlowestFailure = max(f.SlowestFailure, seconds(u.latency()))
			continue
		}
		ok++
		if u.arrived >= halfway {
			okLate++
		}
	}
	f.CallsMean = ratio(calls, f.Users)
	f.Availability = ratio(ok, f.Users)
	f.AvailabilitySecondHalf = ratio(okLate, secondHalf)
	f.P50 = seconds(percentile(latencies, 50))
	f.P99 = seconds(percentile(latencies, 99))
	f.GeneratorLateP99 = seconds(percentile(late, 99))
	f.LoadMultiplier = loadMultiplier(rec)
	f.Wasted, f.WastedAnswers, f.CutShare = wastedIn(rec)
	return f
}

// lastWork returns, per user, when the last piece of work for them ended.
func lastWork(rec *recording) []time.Duration {
	last := make([]time.Duration, len(rec.users))
	for _, p := range rec.pieces {
		last[p.user] = max(last[p.user], p.end)
	}
	return last
}

func loadMultiplier(rec *recording) float64 {
	healthy := perSecond(rec.arrivals, 0, rec.plan.healthy)
	degraded := perSecond(rec.arrivals, rec.plan.healthy, rec.plan.length())
	if healthy == 0 {
		return 0
	}
	return degraded / healthy
}

// perSecond returns the mean of the counts for the seconds in [from, to).
func perSecond(counts []int, from, to time.Duration) float64 {
	sum := 0
	for _, n := range counts[from/time.Second : to/time.Second] {
		sum += n
	}
	return ratio(sum, int((to-from)/time.Second))
}

// wastedIn joins what the workers did with when the users and callers left. Work is for nobody from
// the moment its user has an answer or gave up, or its direct caller hung up, whichever came first.
// An answer that came after that moment wasted all the time it took; work that was stopped before it
// had an answer wasted the time after that moment, and the rest of it was cut. Counted is the work
// that began in the degraded phase.
func wastedIn(rec *recording) (share float64, answers int, cutShare float64) {
	var worked, wasted, cut time.Duration
	for _, p := range rec.pieces {
		if p.start < rec.plan.healthy || p.start >= rec.plan.length() {
			continue
		}
		took := p.end - p.start
		worked += took
		unwanted := min(rec.users[p.user].ended, p.left)
		switch {
		case !p.answered:
			late := p.end - max(p.start, min(unwanted, p.end))
			wasted += late
			cut += took - late
		case unwanted < p.end:
			wasted += took
			answers++
		}
	}
	if worked == 0 {
		return 0, answers, 0
	}
	return float64(wasted) / float64(worked), answers, float64(cut) / float64(worked)
}

// percentile returns the smallest value that at least p percent of the values do not exceed
// (nearest rank), and 0 for no values.
func percentile[T cmp.Ordered](values []T, p int) T {
	var zero T
	if len(values) == 0 {
		return zero
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[max(0, (len(sorted)*p+99)/100-1)]
}

func ratio(part, whole int) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}
