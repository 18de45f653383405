package curfewhttp

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/budget/wire"
	"github.com/curfew-go/curfew/internal/ctxnode"
	"github.com/curfew-go/curfew/retrybudget"
)

// A Problem is the answer to a request that failed, as problem details (RFC 9457).
// Config.Problem may change it: Status, Header and the texts as it likes, and with a
// Body of its own the whole answer.
type Problem struct {
	Status int
	Header http.Header // what goes out; ones set by handlers further out are there
	Title  string      // the status in words
	Detail string      // more for the client to read; empty unless Config.Problem sets it

	Kind budget.Kind
	// NotStarted says that nothing of the request was done.
	NotStarted bool
	// Given is how long the request was given, Elapsed how much of that is over, and
	// Needed how much beginning needed, for one that was refused for having less.
	Given, Elapsed, Needed time.Duration
	LimitedBy              string // the limits that led to the deadline, tightest first
	Phase                  string // "queued", "handler" or "body"

	ContentType string // of Body
	Body        []byte // replaces all but Status and Header when not nil
}

const problemType = "application/problem+json"

// send writes p to w and returns how long its body was.
func (p *Problem) send(w http.ResponseWriter, r *http.Request, edge bool) int64 {
	body, contentType := p.Body, p.ContentType
	if body == nil {
		body, contentType = p.document(edge), problemType
	}
	header := w.Header()
	for _, name := range [...]string{"Content-Encoding", "Etag", "Last-Modified", "Cache-Control"} {
		delete(header, name) // of a reply that did not come to be, as http.Error does
	}
	values := [...]string{contentType, "nosniff", strconv.Itoa(len(body))} // allocated once for all
	if contentType != "" {
		header["Content-Type"] = values[0:1:1]
	}
	header["X-Content-Type-Options"] = values[1:2:2]
	header["Content-Length"] = values[2:3:3]
	w.WriteHeader(p.Status)
	if r.Method == http.MethodHead {
		return 0
	}
	n, _ := w.Write(body)
	return int64(n)
}

// title returns a status in words, for those that net/http has none for as well.
func title(status int) string {
	if t := http.StatusText(status); t != "" {
		return t
	}
	if status == statusClientGone {
		return "Client Closed Request"
	}
	return strconv.Itoa(status)
}

// statusClientGone is what handlers further out log for a client that left; no client
// sees it.
const statusClientGone = 499

// problem returns what is to be said about why. It is no pointer, so that it is allocated
// only for a Config.Problem.
func (g *guard) problem(w http.ResponseWriter, why error) Problem {
	p := Problem{Kind: budget.KindOf(why), Given: g.given(), Elapsed: time.Since(g.began), Header: w.Header(), Phase: "handler"}
	if !g.begun.Load() {
		p.NotStarted, p.Phase = true, "queued"
		switch p.Kind {
		case budget.DeadlineExceeded:
			p.Kind = budget.ExpiredOnArrival
		case budget.LocalBudgetRejected:
			p.Needed = g.needed
			if d := g.h.config.RetryAfter; d > 0 {
				p.Header.Set("Retry-After", strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10))
			}
		}
	}
	p.Status = p.Kind.HTTPStatus()
	c := loneCause(why)
	if c == nil {
		if format, _ := errors.AsType[*wire.FormatError](why); format != nil {
			p.Status, p.Kind = http.StatusBadRequest, budget.None
			p.Detail = "malformed " + format.Header
			p.Elapsed = 0
		}
		c, _ = errors.AsType[*budget.Cause](why)
	}
	if c != nil {
		p.LimitedBy = c.Limit
		if c.Phase != "" {
			p.Phase = c.Phase
		}
	}
	if p.NotStarted && g.body.left.Load() && p.Kind == budget.ExpiredOnArrival {
		p.Status, p.Phase = http.StatusRequestTimeout, "body" // it was not received in time
	}
	p.Title = title(p.Status)
	return p
}

// loneCause returns err when it is a cause with no other error behind it, as that of
// each deadline is, else nil. Looking for others in it would be most of what a request
// allocates whose time is over (TestAWaiterThatExpiresAllocatesLittle).
func loneCause(err error) *budget.Cause {
	if c, ok := err.(*budget.Cause); ok && c != nil && c.Err == nil {
		return c
	}
	return nil
}

// retried is retrybudget.RetriedBelow.
func retried(err error) bool { return loneCause(err) == nil && retrybudget.RetriedBelow(err) }

// changed returns p as Config.Problem has it.
func (h *handler) changed(r *http.Request, p Problem) Problem {
	if h.config.Problem == nil {
		return p
	}
	theirs := p
	h.config.Problem(r, &theirs)
	return theirs
}

// reply writes the answer for why in place of h, to net/http's own writer.
func (h *handler) reply(w http.ResponseWriter, g *guard, why error) (status int, bytes int64) {
	p := h.changed(g.r, g.problem(w, why))
	g.replied = Result{Kind: p.Kind, NotStarted: p.NotStarted, OwnLimit: g.ownLimit(), Retried: retried(why)}
	g.verdict.Store(&g.replied)
	h.before(w.Header(), g, p.Status)
	g.started.Store(true)
	return p.Status, p.send(w, g.r, h.config.Edge)
}

// ownLimit reports whether the request was given less than its caller would have.
func (g *guard) ownLimit() bool {
	return g.peerLimited && !g.refused && g.given() < g.peerLeft-time.Millisecond
}

// Error answers r for err, such as the error of scope.Run: 504 when time ran out,
// with problem details as the Handler above answers itself. Its status and kind are
// those of budget.KindOf. A Handler above learns of the kind for its metrics, and the
// caller learns whether err was retried below, so that it does not do so again.
//
// To a client that has left it answers 499, which only handlers further out see, in
// their logs; and an err that says that some other client left, or that something
// inside was cancelled while the client waits, is 500. A server's BaseContext that is
// cancelled without a *budget.Cause cannot be told from clients that leave: they get the
// 499. End it as a scope.Root does, with a cause whose kind is Shutdown. Once a response has begun, it
// can no longer be answered: Error notes the failure and cuts the response when h
// returns. A nil err panics.
func Error(w http.ResponseWriter, r *http.Request, err error) {
	if err == nil {
		panic("curfewhttp: Error: nil err")
	}
	g := guardOf(r)
	if g == nil { // no Handler above
		g = &guard{r: r, began: time.Now(), refused: true, h: &handler{config: Config{Edge: true}}}
		g.begun.Store(true)
	}
	p := g.problem(w, err)
	switch gone := g.clientGone(); {
	case gone && (p.Kind == budget.ClientCancelled || p.Kind.HTTPStatus() != http.StatusGatewayTimeout):
		p.Kind, p.Status = budget.ClientCancelled, statusClientGone
	case p.Kind == budget.ClientCancelled && g.lateReset():
		p.Kind, p.Status = budget.DeadlineExceeded, http.StatusGatewayTimeout
	case p.Kind == budget.ClientCancelled:
		p.Kind, p.Status = budget.Failed, http.StatusInternalServerError
	}
	p.Title = title(p.Status)
	g.verdict.Store(&Result{Kind: p.Kind, OwnLimit: g.ownLimit() || p.Kind == budget.DependencyTimeout, Retried: retried(err)})
	if g.started.Load() {
		g.broken.Store(true)
		return
	}
	p = g.h.changed(r, p)
	p.send(w, r, g.h.config.Edge)
}

// guardOf returns the guard of the nearest Handler that r has passed, nil when there
// is none.
func guardOf(r *http.Request) *guard {
	for v := ctxnode.Find(r.Context()); v != nil; v = v.Node().Above() {
		if g, ok := v.Node().Owner.(*guard); ok {
			return g
		}
	}
	return nil
}
