package curfewhttp

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"
	"unicode"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/retrybudget"
)

// A StatusError is a response that says that the request failed.
type StatusError struct {
	Target     string        // the host and port, or what Transport.Target says
	Status     int           // 400 or more
	Result     Result        // what the ResultHeader says; zero without one
	RetryAfter time.Duration // what the peer asked for, with 429 and 503; else zero
	Title      string        // the title of a problem+json body (RFC 9457), at most 200 bytes; may be empty
}

// Error says who answered what.
func (e *StatusError) Error() string {
	text := fmt.Sprintf("curfewhttp: %s answered %d", e.Target, e.Status)
	if s := http.StatusText(e.Status); s != "" {
		text += " " + s
	}
	if e.Title != "" {
		text += ": " + e.Title
	}
	return text
}

// RetriedBelow says that the peer, somebody behind it, or the Transport repeated the
// request or was denied to: package retrybudget does not repeat it above.
func (e *StatusError) RetriedBelow() bool { return e.Result.Retried }

// SafeToRetry says that the request was not done: it was refused before it began,
// by the Result, or as one too many (429), or did not arrive in full (408).
func (e *StatusError) SafeToRetry() bool {
	return !e.Result.Retried &&
		(e.Result.NotStarted || e.Status == http.StatusTooManyRequests || e.Status == http.StatusRequestTimeout)
}

// CheckResponse returns nil for a response with a status below 400, and closes the
// body of any other. The error is a *budget.Cause then, with a *StatusError behind it.
// Its kind says whose time ran out: DeadlineExceeded, ExpiredOnArrival and
// LocalBudgetRejected are of the budget that the request brought, DependencyTimeout
// of a limit of the peer's own, as is a 504 or 408 by somebody who does not say. 429
// and 503 are Overloaded, unless the peer says Shutdown, and all else is Failed.
//
// Of the body it reads no more than 8 KiB of problem+json (RFC 9457): its title, and
// its members limited_by and phase, which become the Limit, as the peer's, and the
// Phase. Nothing of the request's URL but the host is in it. A nil resp panics.
func CheckResponse(resp *http.Response) error {
	if resp == nil {
		panic("curfewhttp: CheckResponse: nil response")
	}
	if resp.StatusCode < 400 {
		return nil
	}
	target := "the peer"
	if resp.Request != nil {
		if a, ok := resp.Request.Context().Value(outAttemptKey{}).(*outAttempt); ok {
			target = a.target
		} else if h := hostPort(resp.Request.URL); h != "" {
			target = strings.ToLower(h)
		}
	}
	c := statusCause(resp, target)
	readProblem(resp, c)
	discard(resp)
	return c
}

// statusCause returns what resp says without its body.
func statusCause(resp *http.Response, target string) *budget.Cause {
	e := &StatusError{Target: target, Status: resp.StatusCode}
	e.Result, _ = ResultOf(resp.Header)
	if resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusServiceUnavailable {
		e.RetryAfter, _ = retrybudget.RetryAfter(resp.Header.Values("Retry-After"), time.Now())
	}
	return &budget.Cause{Kind: kindOf(e), Err: e}
}

// kindOf returns what the peer's failure is to its caller.
func kindOf(e *StatusError) budget.Kind {
	switch k := e.Result.Kind; k {
	case budget.DeadlineExceeded:
		if e.Result.OwnLimit {
			return budget.DependencyTimeout
		}
		return k
	case budget.ExpiredOnArrival, budget.LocalBudgetRejected, budget.DependencyTimeout, budget.Overloaded, budget.Shutdown:
		return k
	case budget.None:
		switch e.Status {
		case http.StatusTooManyRequests, http.StatusServiceUnavailable:
			return budget.Overloaded
		case http.StatusGatewayTimeout, http.StatusRequestTimeout:
			return budget.DependencyTimeout
		}
	}
	// That the peer cancelled something of its own must not look like a cancel here.
	return budget.Failed
}

const (
	maxProblem = 8 << 10
	maxMember  = 200
)

// readProblem adds what a problem+json body says, if it is one.
func readProblem(resp *http.Response, c *budget.Cause) {
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil || kind != "application/problem+json" || resp.Body == nil {
		return
	}
	var problem struct {
		Title     string `json:"title"`
		LimitedBy string `json:"limited_by"`
		Phase     string `json:"phase"`
	}
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxProblem)) // what did not come is no JSON
	if json.Unmarshal(text, &problem) != nil {
		return
	}
	c.Err.(*StatusError).Title = clean(problem.Title)
	c.Phase = clean(problem.Phase)
	if l := clean(problem.LimitedBy); l != "" {
		c.Limit = "the peer's " + l
	}
}

// clean makes what a peer wrote fit for a log.
func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) && r != unicode.ReplacementChar {
			return r
		}
		return -1
	}, s)
	for i := range s {
		if i > maxMember-4 { // a rune has up to four bytes
			return s[:i]
		}
	}
	return s
}

// Judge is what a Transport judges by, and fits retrybudget.Policy.Judge around
// client.Do and CheckResponse. It repeats 408, 429, 502, 503 and 504, and whatever
// says that it was not started, after the wait that Retry-After asks for; but not
// what ran out of the budget that the request brought, since less is left now. Other
// statuses below 500 are Answered, other ones above are failures for good. What is
// no StatusError is judged as by retrybudget.DefaultJudge, and a certificate that
// does not fit is not tried again.
func Judge(err error) retrybudget.Verdict {
	var e *StatusError
	if !errors.As(err, &e) {
		if cert := (*tls.CertificateVerificationError)(nil); errors.As(err, &cert) {
			return retrybudget.Verdict{}
		}
		return retrybudget.DefaultJudge(err)
	}
	v := retrybudget.Verdict{Ran: !e.SafeToRetry(), After: e.RetryAfter}
	if e.Result.Retried { // which Do knows before it asks
		return v
	}
	switch kindOf(e) {
	case budget.DeadlineExceeded, budget.ExpiredOnArrival, budget.LocalBudgetRejected:
		return v
	}
	switch e.Status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		v.Retry = true
	default:
		v.Retry = e.Result.NotStarted
		v.Answered = e.Status < 500 && !v.Retry
	}
	return v
}

// failing reports whether a response is no answer.
func failing(status int) bool {
	return status >= 500 || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout
}
