package retrybudget

import (
	"fmt"
	"time"

	"github.com/curfew-go/curfew/budget"
)

// A Policy says which calls Do repeats and how. It is a plain value that any
// number of calls may share. The zero Policy makes up to three attempts of a
// call, and repeats only what certainly did not run.
type Policy struct {
	// Idempotent says that running the call twice does no harm. Without it only
	// an attempt that did not run, by its Verdict, is repeated.
	Idempotent bool

	// Attempts is how many there may be, the first one included. Default 3; one
	// is no retry; negative panics. It is the smaller of two bounds: the Budget
	// is what protects the target.
	Attempts int

	// PerAttempt bounds each attempt, which also never gets more than is left
	// of the call. An attempt that runs into it may be repeated; that the call's
	// own time has run out may not. Zero: the call's deadline is the only bound;
	// negative panics.
	PerAttempt time.Duration

	// Typical returns how long an attempt usually takes: a retry is made only if
	// the wait and this much still fit what is left of the call. A quantile of
	// latency.Observed fits here. Asked before each retry; nil: no time at all.
	Typical func() time.Duration

	// RetryFor is how long after the end of the first attempt a retry may begin;
	// zero: until the call's deadline; negative panics. It starts there so that
	// one long first attempt does not use it up.
	RetryFor time.Duration

	// Backoff is the wait before a retry.
	Backoff Backoff

	// Judge judges the error of an attempt. It is not asked about nil, about the
	// end of the call itself, and about what a layer below has retried or was
	// denied. Nil: DefaultJudge.
	Judge func(error) Verdict

	// Gate is asked before each attempt, and the function it returns, which must
	// not be nil, is told how the attempt ended: nil for a success and for what
	// Judge calls Answered. It has the form of a circuit breaker's; the method
	// value of Allow of sony/gobreaker's TwoStepCircuitBreaker, version 2, fits
	// as it is. An attempt that panics, or ends its goroutine, is told as a
	// failure. Nil: no gate.
	Gate func() (done func(error), err error)
}

const defaultAttempts = 3

// settle fills the defaults in and checks the rest, for Do and DoValue.
func (p *Policy) settle() {
	if p.Attempts < 0 {
		panic(fmt.Sprintf("retrybudget: Do: negative Attempts %d", p.Attempts))
	}
	if p.PerAttempt < 0 {
		panic(fmt.Sprintf("retrybudget: Do: negative PerAttempt %v", p.PerAttempt))
	}
	if p.RetryFor < 0 {
		panic(fmt.Sprintf("retrybudget: Do: negative RetryFor %v", p.RetryFor))
	}
	if p.Attempts == 0 {
		p.Attempts = defaultAttempts
	}
	if p.Judge == nil {
		p.Judge = DefaultJudge
	}
	p.Backoff.settle()
}

// A Verdict is what a judge says about the error of an attempt. The zero Verdict
// is a failure that is not to be repeated.
type Verdict struct {
	Retry    bool // another attempt may go better
	Ran      bool // the call may have had its effect; only an idempotent one is then repeated
	Answered bool // the target did its job, as with HTTP 404: earns credit as a success does, and is never repeated

	// After is the wait that the target asked for, such as by RetryAfter. The
	// real one is never shorter: jitter comes on top. Zero: nothing was asked
	// for, and the Backoff stays; negative: the target wants no retry. More than
	// a minute is not waited for by a call without a deadline.
	After time.Duration
}

// DefaultJudge judges by budget.KindOf, and by SafeToRetry whether the call may
// have run. It repeats what failed for no known reason, timeouts of an attempt,
// and refusals of a target that is overloaded or shutting down. It does not
// repeat cancellations, nor work that was not begun for want of time: what is
// left now is less. A Judge of your own can end in it.
func DefaultJudge(err error) Verdict {
	kind := budget.KindOf(err)
	v := Verdict{Ran: !SafeToRetry(err)}
	switch kind.Retry() {
	case budget.RetryYes, budget.RetryIfBudget, budget.RetryJudge:
		v.Retry = true
	case budget.RetryNo:
		// Do asks while the call has time left, so this was only an attempt's.
		v.Retry = kind == budget.DeadlineExceeded
	}
	return v
}

// SafeToRetry reports whether err says that nothing was done, so that repeating
// the call cannot do it twice, and that no layer below has retried it or was
// denied. It is false for nil. It does not say that a retry helps, nor that
// there is time.
//
// An error in the tree with a method SafeToRetry() bool decides, as pgconn's
// errors have it, and of several that were joined all must say so; otherwise the
// kinds that do: expired_on_arrival,
// local_budget_rejected, overloaded and shutdown.
func SafeToRetry(err error) bool {
	if err == nil || RetriedBelow(err) {
		return false
	}
	if safe, ok := saysSafe(err); ok {
		return safe
	}
	switch budget.KindOf(err) {
	case budget.ExpiredOnArrival, budget.LocalBudgetRejected, budget.Overloaded, budget.Shutdown:
		return true
	}
	return false
}

// timedOut reports whether an attempt ended because time ran out, given that
// the call's own time did not.
func timedOut(err error) bool {
	kind := budget.KindOf(err)
	return kind == budget.DeadlineExceeded || kind == budget.DependencyTimeout
}
