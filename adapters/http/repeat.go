package curfewhttp

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/budget/meter"
	"github.com/curfew-go/curfew/retrybudget"
)

// repeat sends the request under b until it is answered or not to be repeated.
func (c *outCall) repeat(b *retrybudget.Budget) (*http.Response, error) {
	defer c.over()
	p := c.t.Policy
	// Do would end an attempt's context when the head is here; the body needs it.
	c.perAttempt, p.PerAttempt = p.PerAttempt, 0
	if c.perAttempt < 0 {
		panic(fmt.Sprintf("curfewhttp: Transport: negative Policy.PerAttempt %v", c.perAttempt))
	}
	c.repeats = p.Idempotent || c.idempotent()
	p.Idempotent = c.repeats
	if p.Typical == nil && c.t.Observed != nil {
		p.Typical = c.t.Observed.Typical
	}
	judge := p.Judge
	if judge == nil {
		judge = Judge
	}
	p.Judge = func(err error) retrybudget.Verdict {
		v := judge(err)
		var e *StatusError
		if errors.As(err, &e) {
			v.After = max(v.After, e.RetryAfter)
			// The peer ran out of what the attempt was given, and the call has more.
			if kindOf(e) == budget.DeadlineExceeded && c.capped.Load() && c.t.Policy.Judge == nil {
				v.Retry = true
			}
		}
		v.Retry = v.Retry && c.replayable()
		return v
	}
	returned := false
	defer func() {
		if !returned { // a panic of the caller's code passes through
			discard(c.held)
		}
	}()
	resp, err := retrybudget.DoValue(c.ctx, b, p, func(ctx context.Context) (*http.Response, error) {
		if retrybudget.Attempt(ctx) > 1 {
			c.t.count(meter.RetryAllowed, c.label())
			discard(c.held)
		}
		var err error
		c.held, err = c.once(ctx, b)
		return c.held, err
	})
	returned = true
	return c.outcome(resp, err)
}

// outcome turns what Do returned into what a RoundTripper does: a failing response
// is no error.
func (c *outCall) outcome(resp *http.Response, err error) (*http.Response, error) {
	if err == nil {
		return resp, nil
	}
	var denied *retrybudget.DeniedError
	if errors.As(err, &denied) {
		c.t.count(meter.RetryDenied, c.label())
	}
	if resp == nil {
		return nil, err
	}
	if cause := budget.Require(c.ctx, 0); cause != nil { // nobody can read it any more
		discard(resp)
		if budget.KindOf(cause) != budget.DeadlineExceeded {
			return nil, cause // who left is not told of a peer's timeout
		}
		return nil, err
	}
	if denied != nil || c.began.Load() > 1 {
		c.markRetried(resp)
	}
	return resp, nil
}

// markRetried makes resp say that it was repeated, or was not allowed to be.
func (c *outCall) markRetried(resp *http.Response) {
	r, ok := ResultOf(resp.Header)
	if !ok {
		r.Kind = kindOf(&StatusError{Status: resp.StatusCode})
	}
	r.Retried = true
	r.NotStarted = r.NotStarted && c.began.Load() == 1 // it speaks of the last attempt alone
	if resp.Header == nil {
		resp.Header = make(http.Header)
	}
	resp.Header.Set(ResultHeader, r.String())
}

// once makes an attempt, with a hedge beside it where that is wanted. Beside an
// error it returns the response that is the reason for it, if there is one.
func (c *outCall) once(ctx context.Context, b *retrybudget.Budget) (*http.Response, error) {
	_, bounded := ctx.Deadline() // a race has to have one
	if c.t.Hedge != nil && bounded && c.repeats && (!hasBody(c.r) || c.r.GetBody != nil) {
		return c.hedged(ctx, b)
	}
	return c.attempt(ctx, false, func() {})
}

// attempt makes one attempt. A failing response is returned beside its error.
func (c *outCall) attempt(ctx context.Context, hedge bool, release func()) (*http.Response, error) {
	body, err := c.body()
	if err != nil {
		release()
		return nil, err
	}
	if c.perAttempt > 0 {
		whole, had := ctx.Deadline()
		inner, cancel, err := budget.Enter(ctx, budget.Within(c.perAttempt).Named("attempt"))
		outer := release
		release = func() { cancel(); outer() }
		if err != nil {
			if body != nil {
				body.Close()
			}
			release()
			return nil, err
		}
		own, _ := inner.Deadline()
		c.capped.Store(!had || own.Before(whole))
		ctx = inner
	}
	n := int(c.began.Add(1)) + max(retrybudget.Attempt(c.ctx)-1, 0)
	resp, err := c.send(ctx, body, n, hedge, release)
	if err != nil {
		discard(resp)
		return nil, err
	}
	if failing(resp.StatusCode) {
		return resp, statusCause(resp, c.target)
	}
	return resp, nil
}
