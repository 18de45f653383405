package curfewhttp

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/curfew-go/curfew/budget/meter"
)

// An outCall is one RoundTrip with all its attempts.
type outCall struct {
	t      *Transport
	r      *http.Request
	ctx    context.Context
	target string
	told   bool // the host is told of budgets and attempts
	astray bool // a redirect led away from the host that the request was made for

	// Only where requests are repeated.

	perAttempt time.Duration
	repeats    bool
	began      atomic.Int32 // attempts, hedges included
	capped     atomic.Bool  // an attempt's own limit, not the call's, was passed on
	latest     atomic.Pointer[outAttempt]
	held       *http.Response

	mu    sync.Mutex
	first *lentBody // under mu; nil: the request has no body, or the first attempt has it
	taken bool      // under mu: an attempt has r.Body
}

func newOutCall(t *Transport, r *http.Request) *outCall {
	c := &outCall{t: t, r: r, ctx: r.Context()}
	origin := r
	for origin.Response != nil && origin.Response.Request != nil && origin.Response.Request != origin {
		origin = origin.Response.Request
	}
	c.astray = origin != r && !strings.EqualFold(hostPort(origin.URL), hostPort(r.URL))
	if t.Hosts == nil {
		c.told = !c.astray
	} else if r.URL != nil {
		c.told = t.Hosts(strings.ToLower(r.URL.Hostname()))
	}
	if t.Target != nil {
		c.target = t.Target(r)
	} else if c.target = strings.ToLower(hostPort(r.URL)); c.target == "" {
		c.target = "unknown" // the base will refuse it
	}
	return c
}

func hostPort(u *url.URL) string {
	if u == nil {
		return ""
	}
	return u.Host
}

func (c *outCall) label() meter.Label { return meter.Label{Key: "target", Value: c.target} }

// header returns the header of attempt n.
func (c *outCall) header(value string, n int, hedge bool) http.Header {
	h := c.r.Header.Clone()
	if h == nil {
		h = make(http.Header)
	}
	for k := range h {
		if strings.EqualFold(k, Header) || strings.EqualFold(k, AttemptHeader) ||
			!c.keepsKey() && (strings.EqualFold(k, idempotencyKey) || strings.EqualFold(k, xIdempotencyKey)) {
			delete(h, k)
		}
	}
	if !c.told {
		return h
	}
	if value != "" {
		h.Set(Header, value)
	}
	if n > 1 || hedge {
		h.Set(AttemptHeader, formatAttempt(n, hedge))
	}
	return h
}

// keepsKey reports whether an Idempotency-Key is sent: not where a redirect led that is
// told nothing.
func (c *outCall) keepsKey() bool { return !c.astray || c.told }

// The two names that net/http knows as well.
const (
	idempotencyKey  = "Idempotency-Key"
	xIdempotencyKey = "X-Idempotency-Key"
)

// idempotent reports whether doing the request twice does no harm (RFC 9110, section
// 9.2.2), as the host sees it, which may not get the key.
func (c *outCall) idempotent() bool {
	r := c.r
	switch r.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return c.keepsKey() && (r.Header.Get(idempotencyKey) != "" || r.Header.Get(xIdempotencyKey) != "")
}

func hasBody(r *http.Request) bool { return r.Body != nil && r.Body != http.NoBody }

// body returns the body of the next attempt.
func (c *outCall) body() (io.ReadCloser, error) {
	if !hasBody(c.r) {
		return c.r.Body, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.r.GetBody == nil {
		if c.first == nil {
			c.first = &lentBody{ReadCloser: c.r.Body}
			c.taken = true
		}
		c.first.lend()
		return c.first, nil
	}
	if !c.taken {
		c.taken = true
		return c.r.Body, nil
	}
	return c.r.GetBody()
}

// replayable reports whether there is a body for another attempt.
func (c *outCall) replayable() bool {
	if !hasBody(c.r) || c.r.GetBody != nil {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.first == nil || !c.first.wasRead()
}

// over closes the request's body if no attempt has.
func (c *outCall) over() {
	c.mu.Lock()
	first, taken := c.first, c.taken
	c.mu.Unlock()
	switch {
	case first != nil:
		first.over()
	case !taken && c.r.Body != nil:
		c.r.Body.Close()
	}
}

// A lentBody is a request's only body. An attempt that never had a connection
// closes it unread, and the next one can still have it.
type lentBody struct {
	io.ReadCloser

	mu                 sync.Mutex
	read, closed, last bool // under mu
}

func (b *lentBody) lend() {
	b.mu.Lock()
	b.closed = false
	b.mu.Unlock()
}

func (b *lentBody) wasRead() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.read
}

func (b *lentBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	b.read = true
	b.mu.Unlock()
	return b.ReadCloser.Read(p)
}

func (b *lentBody) Close() error {
	b.mu.Lock()
	b.closed = true
	really := b.read || b.last
	b.mu.Unlock()
	if really {
		return b.ReadCloser.Close()
	}
	return nil
}

// over says that there are no more attempts.
func (b *lentBody) over() {
	b.mu.Lock()
	really := b.closed && !b.read && !b.last
	b.last = true
	b.mu.Unlock()
	if really {
		b.ReadCloser.Close()
	}
}

// site returns where the request was made: the first function on the stack that is
// neither net/http's nor this package's.
func site() string {
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		f, more := frames.Next()
		if !strings.HasPrefix(f.Function, "net/http.") && !strings.HasPrefix(f.Function, ownFunctions) {
			return f.Function + ":" + strconv.Itoa(f.Line)
		}
		if !more {
			return "unknown"
		}
	}
}

const ownFunctions = "github.com/curfew-go/curfew/adapters/http."
