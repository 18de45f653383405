package curfewhttp

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/budget/latency"
	"github.com/curfew-go/curfew/budget/meter"
	"github.com/curfew-go/curfew/budget/wire"
	"github.com/curfew-go/curfew/retrybudget"
)

// A Transport is an http.RoundTripper that tells the peer how much time is
// left, and that retries and hedges within a budget where one is configured. The
// zero Transport is ready to use and sends each request once. It must not be
// changed while in use; many goroutines may share it.
type Transport struct {
	// Base sends the requests; http.DefaultTransport when nil. Its dials run on
	// when a request has ended, unless it dials with a Dialer.
	Base http.RoundTripper

	// Slush is what this hop keeps back for itself and for both ways; the zero
	// Slush is 5% of what is left, at least 2 ms and at most 50 ms.
	Slush wire.Slush

	// Hosts says which hosts are told of budgets and attempts; it is given the
	// host in lower case, without a port. Nil: the host that a request was made
	// for, and not another one that a redirect leads to. A host that is not told
	// gets no header of curfew's; from a redirect to it an Idempotency-Key is
	// taken off as well.
	Hosts func(host string) bool

	// Target names whom a request goes to, for Budget, reports and ledgers. It
	// must take few values, none empty, and hold nothing secret. Nil: the host and
	// port of the URL.
	Target func(r *http.Request) string

	// RequireDeadline fails a request whose context has no deadline, with
	// budget.ErrNoDeadline. Otherwise it is sent. Meter counts it in both cases.
	RequireDeadline bool

	// Budget caps the retries and hedges to a target; the For of a
	// retrybudget.Set fits, as in retrybudget.NewSet(retrybudget.Config{}, 100).For. Nil, for
	// the field or from it: there are none.
	Budget func(target string) *retrybudget.Budget

	// Policy says which requests are repeated. Its Judge is the function Judge when
	// nil, and its Typical that of Observed. Whether a request is idempotent is seen
	// from the request; Idempotent says that all are. PerAttempt holds until the
	// response's body was read, and is what the peer is told. None of it counts for a
	// request without a Budget.
	Policy retrybudget.Policy

	// Hedge returns how long to wait for an answer before the request is sent once
	// more beside the first one, if Budget allows; negative: not at all. The
	// HedgeDelay of a latency.Observed fits. Only an idempotent request that has a
	// deadline, and a GetBody if it has a body, is hedged. A failure does not bring
	// the hedge forward: that is for retries. Without a Budget it is never called. Nil:
	// there are no hedges.
	Hedge func() time.Duration

	// Observed, when not nil, records how long attempts take until the head of
	// their response: use a Transport for each target then.
	Observed *latency.Observed

	// Meter, when not nil, is told what is left when a request is sent, of
	// requests without a deadline, of retries and hedges, and by meter.Honoured
	// whether a peer that was told of a budget answers with a ResultHeader.
	Meter meter.Recorder
}

// RoundTrip sends r with what is left of its context's deadline, less the
// slush, in place of any such header that r brings. Each attempt says what is
// left when it begins, and what it waits for a connection of an http.Transport is
// taken off as well. With less than a millisecond to pass on it sends nothing and
// returns a *budget.Cause of kind LocalBudgetRejected; when the context has ended
// it returns its cause.
//
// An attempt is repeated as Policy and Budget have it. What may have been done is
// repeated only when it is idempotent: by its method (RFC 9110, section 9.2.2) or
// because it has an Idempotency-Key, which is the same for all attempts and is
// never made up. Known not to have been done is what never had a connection, what
// was answered with 408 or 429, and what the ResultHeader says was not started.
// A request whose body was read is repeated only if it has a GetBody. Apart from
// that net/http itself sends a request again when a connection that it had kept
// turns out to be closed, without asking: one of which nothing was written, or
// one that is safe by its method or Idempotency-Key.
//
// A failing response is returned when nothing is repeated any more. When there
// were several attempts, or another was denied, its ResultHeader says so, whoever
// sent it, and nobody above repeats the request. An error is a
// *retrybudget.RetriedError or *retrybudget.DeniedError then.
//
// The text of an error has no userinfo and no query of an address in it, neither of r's
// nor of one that a *url.Error from the base is about; http.Client adds r's address, and
// [Do] takes it off again.
//
// A timeout is a *budget.Cause of which Phase says how far the attempt was:
// pool_wait, resolve, connect, tls, write, first_byte or body. So is an error of
// reading the response's body. An attempt's context lives until its body was read
// to the end or closed. Close reads up to 64 KiB of what is left, for at most
// 20 ms, to keep an HTTP/1 connection. A body that may be written to, after 101,
// is left as it is, and the deadline does not end it.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	c := newOutCall(t, r)
	if err := c.begin(); err != nil {
		if r.Body != nil {
			r.Body.Close() // a RoundTripper closes the body whatever happens
		}
		return nil, err
	}
	if t.Budget != nil {
		if b := t.Budget(c.target); b != nil {
			return c.repeat(b)
		}
	}
	return c.send(c.ctx, r.Body, max(retrybudget.Attempt(c.ctx), 1), false, func() {})
}

// CloseIdleConnections does what http.Client's method of that name promises.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

func (t *Transport) base() http.RoundTripper {
	if t.Base != nil {
		return t.Base
	}
	return http.DefaultTransport
}

// leftNow is left for a request that is about to be written: with less than a
// millisecond to pass on it says a millisecond, which the peer will not use.
func (t *Transport) leftNow(ctx context.Context) string {
	left, _ := budget.Remaining(ctx)
	if value, ok := wire.FormatMillis(left - t.Slush.Of(left)); ok {
		return value
	}
	return "1"
}

// left returns what is passed on, and as the header says it: nothing when ctx has
// no deadline.
func (t *Transport) left(ctx context.Context) (time.Duration, string, error) {
	if err := budget.Require(ctx, 0); err != nil {
		return 0, "", err
	}
	left, ok := budget.Remaining(ctx)
	if !ok {
		return 0, "", nil
	}
	out := left - t.Slush.Of(left)
	if value, ok := wire.FormatMillis(out); ok {
		return out, value, nil
	}
	// By now even less is left: Require says so in full.
	if err := budget.Require(ctx, max(left, 0)+1); err != nil {
		return 0, "", err
	}
	return 0, "", &budget.Cause{Kind: budget.LocalBudgetRejected} // a wall clock that went back
}

func (t *Transport) count(name string, labels ...meter.Label) {
	if t.Meter != nil {
		t.Meter.Add(name, 1, labels...)
	}
}

// begin decides whether the request may be sent at all.
func (c *outCall) begin() error {
	if _, bounded := c.ctx.Deadline(); !bounded {
		if c.t.Meter != nil {
			c.t.Meter.Add(meter.Unbounded, 1, c.label(), meter.Label{Key: "site", Value: site()})
		}
		if c.t.RequireDeadline {
			return fmt.Errorf("curfewhttp: request to %s: %w", c.target, budget.ErrNoDeadline)
		}
	}
	_, _, err := c.t.left(c.ctx)
	return err
}
