package retrybudget

import (
	"fmt"
	"math"
	"time"

	"github.com/curfew-go/curfew/budget"
)

// judge returns the verdict on err. What is settled without the policy's judge
// is not to be repeated.
func (c *call) judge(err error) Verdict {
	if c.ended() || RetriedBelow(err) {
		return Verdict{}
	}
	return c.p.Judge(err)
}

// ended reports whether the call has, also when its timer is late to say so.
func (c *call) ended() bool {
	if c.ctx.Err() != nil {
		return true
	}
	left, bounded := budget.Remaining(c.ctx)
	return bounded && left <= 0
}

// again decides about another attempt after attempt n failed with err, and waits
// for it. It returns nil when the attempt is to be made, and the error of the
// call otherwise.
func (c *call) again(err error) error {
	b, p, v := c.b, &c.p, c.verdict
	if p.Gate == nil {
		v = c.judge(err)
	}
	if v.Answered {
		b.core.success()
	}
	over := !v.Retry || v.Answered || v.After < 0 || v.Ran && !p.Idempotent || c.n >= p.Attempts
	if over || !c.withinRetryFor(0) {
		return c.over(err)
	}

	ceiling := p.Backoff.ceiling(c.n, c.wait)
	need := max(ceiling, v.After)
	denied := func(why string, wait time.Duration) error {
		return &DeniedError{Target: b.core.target, Attempts: c.n, Why: why, Wait: wait, Last: err}
	}
	if !c.withinRetryFor(need) {
		return denied(fmt.Sprintf("a wait of %v would not fit RetryFor", need), need)
	}
	// Whether it fits is decided by the longest wait that may be drawn: a retry
	// that only fits when the dice fall low is one too many for the target.
	spare := ceiling // for jitter on top of what the target asked for
	if left, bounded := budget.Remaining(c.ctx); bounded {
		typical := time.Duration(0)
		if p.Typical != nil {
			typical = max(p.Typical(), 0)
		}
		// Subtracted, not added: pushback and a huge guess must not wrap around.
		if need >= left || left-need < typical {
			return denied(fmt.Sprintf("a wait of %v and an attempt of %v would not fit the %v left", need, typical, left), need)
		}
		spare = min(ceiling, left-typical-v.After-1)
	} else if v.After > maxUnbounded {
		return denied(fmt.Sprintf("a wait of %v is too long for a call without a deadline", v.After), v.After)
	}

	cost := uint64(perToken)
	if timedOut(err) {
		cost = 2 * perToken
	}
	c.token = grant{}
	// The pool's answer and the backoff are waited for at the same time: what the
	// one took is taken off the other.
	asked := b.ask(c.ctx, cost)
	if !b.take(&c.token, cost) {
		wait := need + min(p.Backoff.draw(ceiling), math.MaxInt64-need)
		return denied(b.why(cost), max(wait, b.core.next(cost)))
	}
	c.wait = p.Backoff.draw(ceiling)
	wait := c.wait
	switch {
	case p.Backoff.Jitter == NoJitter:
		wait = need
	case v.After > 0 && spare > 0:
		c.wait = p.Backoff.draw(spare)
		wait = v.After + c.wait
	case v.After > 0:
		wait = v.After
	}
	c.last = err
	cause := sleep(c.ctx, wait-asked)
	if cause == nil {
		cause = budget.Require(c.ctx, 0) // the deadline's timer may be later than ours
	}
	if cause != nil {
		c.b.giveBack(c.token)
		return &DeniedError{Target: b.core.target, Attempts: c.n, Why: "the call ended during the wait", Last: err, Cause: cause}
	}
	return nil
}

// maxUnbounded is the longest wait a peer can ask of a call without a deadline.
const maxUnbounded = time.Minute

// withinRetryFor reports whether an attempt that begins after d is within
// RetryFor. The first call of it starts the time.
func (c *call) withinRetryFor(d time.Duration) bool {
	if c.p.RetryFor == 0 {
		return true
	}
	if c.first.IsZero() {
		c.first = time.Now()
	}
	return time.Since(c.first) <= c.p.RetryFor-d
}

// over returns the error of a call that ends with err.
func (c *call) over(err error) error {
	if c.n == 1 {
		return err
	}
	e := &RetriedError{Target: c.b.core.target, Attempts: c.n, Last: err}
	if c.ended() {
		e.Earlier = c.last
	}
	return e
}
