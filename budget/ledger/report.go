package ledger

import (
	"time"

	"github.com/curfew-go/curfew/budget"
)

// A Report is what a Ledger holds at one instant, for those who count it. It is
// a copy.
type Report struct {
	Hop string
	// RemainingIn is what was left when the ledger was opened, 0 or less when
	// nothing was. Without a deadline HasDeadline is false.
	RemainingIn time.Duration
	HasDeadline bool
	Total       time.Duration // until Close, or until now
	Local       time.Duration // of which no call was open
	Stages      [stages]time.Duration
	// Outcome says how it ended in respect of time:
	//
	//   - open: it has not ended
	//   - ok: in time
	//   - late: it succeeded after the deadline, so nobody may have waited for it
	//   - expired_on_arrival, local_budget_rejected: it was refused before any call
	//   - exceeded_here: it began in time and ran out of it
	//   - otherwise the name of Kind
	Outcome   string
	Kind      budget.Kind   // of the error that Close was given
	LimitedBy string        // the limits in that error, the tightest first
	Past      time.Duration // how long it went on past the deadline, 0 when it did not
	Calls     []CallReport  // in the order of their beginning
	More      int           // how many calls are not listed
}

// A CallReport is one call.
type CallReport struct {
	Target       string
	RemainingOut time.Duration // 0 when nothing was passed on
	Took         time.Duration // until Done, Close or now
	Stages       [stages]time.Duration
	Outcome      string // open, ok, or the name of Kind, which for a call that was cancelled says why
	Kind         budget.Kind
}

const (
	outcomeOpen     = "open"
	outcomeOK       = "ok"
	outcomeLate     = "late"
	outcomeExceeded = "exceeded_here"
)

// Report returns what the ledger holds now; of a nil Ledger, the zero Report.
func (l *Ledger) Report() Report {
	if l == nil {
		return Report{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	r := Report{
		Hop: l.hop, HasDeadline: l.hasDeadline, Total: l.total, Stages: l.stages,
		Kind: l.kind, LimitedBy: l.limits,
	}
	if !l.closed {
		r.Total = time.Since(l.start)
	}
	away := l.away
	if l.open > 0 {
		away += r.Total - l.since
	}
	r.Local = r.Total - away
	if l.hasDeadline {
		r.RemainingIn = l.deadline.Sub(l.start)
		r.Past = max(r.Total-max(r.RemainingIn, 0), 0)
	}
	r.Outcome = l.outcomeLocked(r.Past > 0)
	listed := min(l.calls, maxCalls)
	r.More = l.calls - listed
	if listed > 0 {
		r.Calls = make([]CallReport, 0, listed)
	}
	for i := range listed {
		c := &l.few[min(i, len(l.few)-1)]
		if i >= len(l.few) {
			c = l.many[i-len(l.few)]
		}
		cr := CallReport{Target: c.target, RemainingOut: c.out, Took: c.took, Stages: c.stages, Outcome: outcomeOpen, Kind: c.kind}
		switch {
		case !c.done:
			cr.Took = r.Total - c.begin
		case c.kind == budget.None:
			cr.Outcome = outcomeOK
		default:
			cr.Outcome = c.kind.String()
		}
		r.Calls = append(r.Calls, cr)
	}
	return r
}

func (l *Ledger) outcomeLocked(past bool) string {
	switch {
	case !l.closed:
		return outcomeOpen
	case l.kind == budget.DeadlineExceeded,
		// Refused, but not on arrival: some of the work had been done.
		l.calls > 0 && (l.kind == budget.ExpiredOnArrival || l.kind == budget.LocalBudgetRejected):
		return outcomeExceeded
	case l.kind != budget.None:
		return l.kind.String()
	case past:
		return outcomeLate
	}
	return outcomeOK
}
