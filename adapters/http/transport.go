package curfewhttp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/budget/wire"
)

// A Transport is an http.RoundTripper that tells the peer how much time is
// left. The zero Transport is ready to use. It must not be changed while in
// use; many goroutines may share it.
type Transport struct {
	// Base sends the requests; http.DefaultTransport when nil.
	Base http.RoundTripper
	// Slush is what this hop keeps back for itself and for both ways; the zero
	// Slush is 5% of what is left, at least 2 ms and at most 50 ms.
	Slush wire.Slush
}

// RoundTrip sends r with what is left of its context's deadline, less the
// slush, in place of any such header that r brings. Time spent waiting for a
// connection of an http.Transport is taken off as well. With less than a
// millisecond to pass on it sends nothing and returns a *budget.Cause of kind
// LocalBudgetRejected; when the context has ended it returns its cause. A
// request whose context has no deadline is sent without the header.
//
// An error that only says that the context ended, of the request or of reading
// the response's body, is the context's cause, over HTTP/2 as well.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	value, err := t.left(ctx)
	if err != nil {
		if r.Body != nil {
			r.Body.Close() // a RoundTripper closes the body whatever happens
		}
		return nil, err
	}
	// A RoundTripper does not change the request it was given.
	header := withHeader(r.Header, value)
	if value != "" {
		// A free connection may be long in coming. What is left is said when it
		// is there, before the head is written, and again for another one.
		r = r.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
			GotConn: func(httptrace.GotConnInfo) { header.Set(Header, t.leftNow(ctx)) },
		}))
	} else {
		r = r.WithContext(ctx)
	}
	r.Header = header
	resp, err := t.base().RoundTrip(r)
	if err != nil {
		return resp, named(ctx, err)
	}
	if b := resp.Body; b != nil && b != http.NoBody && resp.StatusCode != http.StatusSwitchingProtocols {
		resp.Body = &body{b, ctx}
	}
	return resp, nil
}

// withHeader returns a copy of h that says value, in place of whatever it said
// in any spelling; an empty value says nothing.
func withHeader(h http.Header, value string) http.Header {
	h = h.Clone()
	for k := range h {
		if strings.EqualFold(k, Header) {
			delete(h, k)
		}
	}
	if value != "" {
		if h == nil {
			h = make(http.Header)
		}
		h.Set(Header, value)
	}
	return h
}

// errOthersEnd stands for the end of another request. When one is cancelled in the
// instant in which its bodyless response arrives, net/http may already have given
// its connection to the next request; it then closes the connection and hands that
// next request the cause of the first one's end (Go 1.26.8, persistConn.roundTrip).
var errOthersEnd = errors.New("curfewhttp: the connection was closed because another request on it ended")

// named returns the cause of ctx for an error that says no more than that ctx
// ended, which is what net/http brings back over HTTP/2, and never lets the end of
// another request pass for one of ctx.
func named(ctx context.Context, err error) error {
	if e := ctx.Err(); e != nil {
		if err == e {
			return context.Cause(ctx)
		}
		return err
	}
	if left, ok := budget.Remaining(ctx); ok && left <= 0 {
		return err // ctx is about to end
	}
	if _, ok := err.(*budget.Cause); ok || err == context.Canceled || err == context.DeadlineExceeded {
		return errOthersEnd
	}
	return err
}

// A body names what ended its request's context.
type body struct {
	io.ReadCloser
	ctx context.Context
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		err = named(b.ctx, err)
	}
	return n, err
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

// left returns what the header says, empty when ctx has no deadline.
func (t *Transport) left(ctx context.Context) (string, error) {
	if err := budget.Require(ctx, 0); err != nil {
		return "", err
	}
	left, ok := budget.Remaining(ctx)
	if !ok {
		return "", nil
	}
	if value, ok := wire.FormatMillis(left - t.Slush.Of(left)); ok {
		return value, nil
	}
	// By now even less is left: Require says so in full.
	if err := budget.Require(ctx, max(left, 0)+1); err != nil {
		return "", err
	}
	return "", &budget.Cause{Kind: budget.LocalBudgetRejected} // a wall clock that went back
}
