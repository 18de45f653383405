package curfewhttp

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/budget/ledger"
	"github.com/curfew-go/curfew/budget/meter"
)

// An outAttempt is one request to the base. It is the context of that, to which it
// adds itself.
type outAttempt struct {
	context.Context
	t      *Transport
	target string
	secure bool // TLS follows a dial
	header http.Header
	told   bool // of a deadline

	mu      sync.Mutex
	entry   ledger.Call
	phase   outPhase  // under mu
	since   time.Time // under mu: when phase began
	over    bool      // under mu
	asked   bool      // under mu: for a connection
	got     bool      // under mu: a connection
	dialled []func()  // under mu: to be called when a TLS handshake is done
}

type outAttemptKey struct{}

// Value is part of context.Context.
func (a *outAttempt) Value(key any) any {
	if _, ok := key.(outAttemptKey); ok {
		return a
	}
	return a.Context.Value(key)
}

// send makes attempt n in ctx. It closes body, and it calls release when ctx is no
// longer used: by then, or at the end of the response's body.
func (c *outCall) send(ctx context.Context, body io.ReadCloser, n int, hedge bool, release func()) (*http.Response, error) {
	t := c.t
	out, value, err := t.left(ctx)
	if err != nil {
		if body != nil {
			body.Close()
		}
		release()
		return nil, err
	}
	// A RoundTripper does not change the request it was given.
	a := &outAttempt{
		Context: ctx, t: t, target: c.target, told: c.told && value != "",
		secure: c.r.URL != nil && c.r.URL.Scheme == "https",
		header: c.header(value, n, hedge),
	}
	if a.told && t.Meter != nil {
		t.Meter.Record(meter.RemainingOut, float64(out)/float64(time.Millisecond), c.label())
	}
	if !a.told {
		out = 0
	}
	c.latest.Store(a)
	began := time.Now()
	a.since = began
	a.entry = ledger.From(ctx).Call(c.target, out)
	r := c.r.WithContext(a.traced())
	r.Header, r.Body = a.header, body

	resp, err := t.base().RoundTrip(r)
	if err != nil {
		err = bare(a.why(err), c.r.URL)
		if a.unsent() {
			err = &unsentError{err}
		}
		a.end(err)
		a.observe(began, err)
		release()
		return resp, err
	}
	a.enter(phaseBody)
	a.observe(began, a.t.failure(resp, c.target))
	if a.told && t.Meter != nil && resp.StatusCode != http.StatusSwitchingProtocols { // whose head h wrote itself
		answer := "no"
		if _, ok := ResultOf(resp.Header); ok {
			answer = "yes"
		}
		t.count(meter.Honoured, c.label(), meter.Label{Key: "honoured", Value: answer})
	}
	if resp.Body == nil || resp.Body == http.NoBody || resp.StatusCode == http.StatusSwitchingProtocols {
		a.end(nil)
		release()
		return resp, nil
	}
	resp.Body = newOutBody(resp, a, release)
	return resp, nil
}

// failure returns what is wrong with resp, for Observed alone.
func (t *Transport) failure(resp *http.Response, target string) error {
	if t.Observed == nil || !failing(resp.StatusCode) {
		return nil
	}
	return statusCause(resp, target)
}

func (a *outAttempt) observe(began time.Time, err error) {
	if o := a.t.Observed; o != nil {
		o.Record(time.Since(began), err)
	}
}

// errOthersEnd stands for the end of another request. When one is cancelled in the
// instant in which its bodyless response arrives, net/http may already have given
// its connection to the next request; it then closes the connection and hands that
// next request the cause of the first one's end (Go 1.26.8, persistConn.roundTrip).
var errOthersEnd = errors.New("curfewhttp: the connection was closed because another request on it ended")

// why returns the cause of the attempt's end for an error that says no more than
// that it ended, which is what net/http brings back over HTTP/2, and never lets the
// end of another request pass for that of this one.
func (a *outAttempt) why(err error) error {
	ended := a.Context.Err()
	left, bounded := budget.Remaining(a.Context)
	switch {
	case ended == context.DeadlineExceeded || ended == nil && bounded && left <= 0:
		// Near the deadline a timeout has many forms: one of the dial, of TLS, of
		// the socket. Time is up by the clock, and that is what it says.
		if err == context.Canceled || err == context.Cause(a.Context) || saysTimeout(err) {
			return a.timeUp()
		}
		return err
	case ended != nil:
		if err == ended {
			return context.Cause(a.Context)
		}
		return err
	}
	c, ok := err.(*budget.Cause)
	if ok && c.Kind.Sentinel() != nil || err == context.Canceled || err == context.DeadlineExceeded {
		return errOthersEnd
	}
	return err
}

func saysTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}

// timeUp returns the cause of an attempt whose deadline has passed, with its phase.
func (a *outAttempt) timeUp() error {
	cause := budget.Require(a.Context, 0)
	c := budget.Cause{Kind: budget.DeadlineExceeded}
	if known, ok := cause.(*budget.Cause); ok && known != nil {
		c = *known
	} else {
		c.Limit = "parent deadline"
		if cause != context.DeadlineExceeded {
			c.Err = cause
		}
	}
	if c.Phase == "" {
		c.Phase = a.phaseName()
	}
	return &c
}

// An unsentError is that of an attempt for which there never was a connection.
type unsentError struct{ error }

func (e *unsentError) Unwrap() error     { return e.error }
func (e *unsentError) Timeout() bool     { return saysTimeout(e.error) }
func (e *unsentError) Temporary() bool   { return e.Timeout() }
func (e *unsentError) SafeToRetry() bool { return true }

// unsent reports whether the base asked for a connection and never got one. A base
// that does not say, because it is not an http.Transport, may have sent anything.
func (a *outAttempt) unsent() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked && !a.got
}
