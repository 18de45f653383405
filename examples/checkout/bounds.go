package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/curfew-go/curfew/budget"
)

// A bound is one thing that mode curfew must reach, and what it reached.
type bound struct {
	Name     string `json:"name"`
	Required string `json:"required"`
	Measured string `json:"measured"`
	Met      bool   `json:"met"`
}

// timerFloor is how much real time the machine's own timers may add to a bound on time, however
// short the compressed times are.
const timerFloor = 25 * time.Millisecond

// withFloor returns what a measured time may be so that it still counts as limit: 1% above it, or the
// timer floor, whichever is more.
func withFloor(limit time.Duration, p pace) time.Duration {
	return limit + max(limit/100, p.incident(timerFloor))
}

// rightReasons are the kinds that tell a caller the truth about a checkout that could not be had in
// time: the time ran out, or somebody saw that it would and refused.
var rightReasons = []string{
	budget.DeadlineExceeded.String(),
	budget.ExpiredOnArrival.String(),
	budget.LocalBudgetRejected.String(),
	budget.Overloaded.String(),
}

// check compares the figures with the last column of the incident's table.
func check(before, curfew figures, p pace) []bound {
	var (
		worst = withFloor(3*time.Second, p)
		p99   = 2900 * time.Millisecond
		wrong = wrongReasons(curfew.Failures)
	)
	return []bound{
		{
			Name:     "before collapses by itself",
			Required: "availability under 10% in the second half",
			Measured: percent(before.AvailabilitySecondHalf),
			Met:      before.AvailabilitySecondHalf < 0.10,
		}, {
			Name:     "warehouse calls per checkout, worst",
			Required: "at most 3",
			Measured: fmt.Sprint(curfew.CallsWorst),
			Met:      curfew.CallsWorst <= 3,
		}, {
			Name:     "warehouse calls per checkout, mean",
			Required: "at most 1.15",
			Measured: fmt.Sprintf("%.3f", curfew.CallsMean),
			Met:      curfew.CallsMean <= 1.15,
		}, {
			Name:     "worst total latency",
			Required: fmt.Sprintf("at most 3.0 s + 1%%, or + %v of real time: %v", timerFloor, seconds(worst)),
			Measured: curfew.WorstTotal.String(),
			Met:      curfew.WorstTotal <= seconds(worst),
		}, {
			Name:     "warehouse load multiplier",
			Required: "at most 1.10",
			Measured: fmt.Sprintf("%.3f", curfew.LoadMultiplier),
			Met:      curfew.LoadMultiplier <= 1.10,
		}, {
			Name:     "availability while degraded",
			Required: "at least 94%",
			Measured: percent(curfew.Availability),
			Met:      curfew.Availability >= 0.94,
		}, {
			Name:     "the rest fails with the right reason",
			Required: "only " + strings.Join(rightReasons, ", "),
			Measured: listFailures(wrong, "no other"),
			Met:      len(wrong) == 0,
		}, {
			Name:     "the rest fails fast",
			Required: fmt.Sprintf("within %v", seconds(worst)),
			Measured: curfew.SlowestFailure.String(),
			Met:      curfew.SlowestFailure <= seconds(worst),
		}, {
			Name:     "p99 checkout latency",
			Required: fmt.Sprintf("at most %v", seconds(p99)),
			Measured: curfew.P99.String(),
			Met:      curfew.P99 <= seconds(p99),
		}, {
			Name:     "wasted work",
			Required: "at most 1%",
			Measured: percent(curfew.Wasted),
			Met:      curfew.Wasted <= 0.01,
		},
	}
}

func wrongReasons(failures map[string]int) map[string]int {
	wrong := map[string]int{}
	for reason, n := range failures {
		if !slices.Contains(rightReasons, reason) {
			wrong[reason] = n
		}
	}
	return wrong
}
