package curfewhttp

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/budget/wire"
	"github.com/curfew-go/curfew/internal/ctxnode"
	"github.com/curfew-go/curfew/scope"
)

// Handler returns a handler that runs h under a deadline: what the request's
// headers say is left, at most c.Max, from the instant at which net/http has
// parsed the request's head. h sees it in r.Context(), which also ends when the
// client leaves, as ClientCancelled.
//
// A request that cannot be done in time is refused before h runs: with 503 when
// its time has run out or is less than is useful, and with 400 when a header
// is malformed. Several headers that are all valid count as the strictest.
// 503 says that nothing was done. A request whose client has left already is
// refused too, for the log alone.
//
// At the deadline the answer is 504, also when h does not look at its context: h
// runs on the goroutine it would run on anyway, and nothing that it writes after its
// deadline goes out, Write returns an error that matches http.ErrHandlerTimeout.
// When h returns within c.Grace the connection is kept; else the answer is written
// in its place and the connection closed, an HTTP/2 stream reset behind the answer.
// A response that had begun is cut, so that the client does not take it for a whole
// one. What h set as headers is lost in a 504 that h does not live to see; what
// handlers further out set is not.
//
// A small body, of up to 4 KiB and a known length, is read before h runs when the
// Mode is Enforce, so that over HTTP/1.1 the end of the client is noticed; while a larger one is not read to
// its end, it is not, which net/http decides.
func Handler(h http.Handler, c Config) http.Handler {
	if h == nil {
		panic("curfewhttp: Handler: nil handler")
	}
	c = c.settle()
	var forms []wire.Form
	if !c.Edge {
		forms = slices.Clone(c.Forms)
	}
	if c.RequestStart != "" {
		forms = append(forms, wire.RequestStart(c.RequestStart))
	}
	names := make([]string, len(forms))
	for i, f := range forms {
		names[i] = http.CanonicalHeaderKey(f.Header())
	}
	return &handler{
		next: h, config: c, grace: c.Grace, forms: forms, names: names,
		peers:  budget.Within(c.Max).Named("route maximum"),
		absent: budget.Within(c.Default).Named("route default"),
		untold: untold(c),
		share:  share{of: c.RefuseAtMost},
		hurry:  hurry{above: c.HurriedShare},
	}
}

// untold returns the names of the headers that say something about time and that h does
// not see.
func untold(c Config) []string {
	if !c.Edge {
		return nil
	}
	names := []string{AttemptHeader}
	for _, f := range append(defaultForms(), c.Forms...) {
		names = append(names, http.CanonicalHeaderKey(f.Header()))
	}
	return names
}

type handler struct {
	next          http.Handler
	config        Config
	grace         time.Duration
	forms         []wire.Form  // that are believed
	names         []string     // of their headers, as a http.Header has them
	untold        []string     // names of those of an edge, which are taken off
	peers, absent budget.Limit // of a request with a budget, and without one
	share         share
	hurry         hurry
	checked       sync.Once // the server's WriteTimeout
}

// done is the ending of the context of a request that was answered.
var done = &ctxnode.Ending{
	Err:      context.Canceled,
	For:      func(n *ctxnode.Node) error { return &budget.Cause{Kind: budget.Closed, Scope: n.Path()} },
	Nameless: &ctxnode.Ending{Err: context.Canceled, Cause: &budget.Cause{Kind: budget.Closed}},
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.config.Mode == Observe {
		h.observe(w, r)
		return
	}
	g := &guard{h: h, w: w, r: r, began: time.Now()}
	err := h.enter(g)
	if err != nil {
		if h.config.Mode == Enforce {
			h.refuse(g, err)
			return
		}
		if h.wouldRefuse(g, err) != nil {
			h.next.ServeHTTP(w, r)
			return
		}
	}
	defer h.end(g)
	h.extendWriteTimeout(g)
	inner := r.WithContext(h.context(g))
	if h.config.Problem != nil && h.config.Mode == Enforce {
		inner.Header = r.Header.Clone() // Problem reads r's while h may change its own
	}
	h.strip(inner)
	g.open()
	g.takeBody(inner)
	// net/http removes the temporary files of an upload by the request it made, and
	// who counts requests further out asks it for the pattern that a mux in h chose.
	defer func() { r.MultipartForm, r.Pattern = inner.MultipartForm, inner.Pattern }()
	if g.expired() {
		return // while its body was read
	}
	if q := h.config.Queue; q != nil {
		if err := g.queue(q, inner.Context()); err != nil {
			g.notStarted(err)
			return
		}
		defer q.leave()
	}
	g.begun.Store(true)
	h.next.ServeHTTP((*writer)(g), inner)
}

// end is deferred: h has returned, or panics.
func (h *handler) end(g *guard) {
	v := recover()
	if e := g.node.Ending(); e != nil {
		g.ended = e
		g.overrun = time.Since(e.At)
	}
	g.node.End(done)
	g.node.Stop()
	cut := g.finish(v != nil)
	h.report(g, v != nil)
	switch pe, _ := v.(*scope.PanicError); {
	case v == nil && cut:
		panic(http.ErrAbortHandler)
	case v == nil:
	case pe != nil && errors.Is(pe, http.ErrAbortHandler):
		// net/http knows it by identity, also when a task raised it.
		panic(http.ErrAbortHandler)
	default:
		panic(v)
	}
}

// enter reads what the caller gives, and starts g's context on it.
func (h *handler) enter(g *guard) error {
	peer, err := h.read(g.r, g.began)
	h.received(g, peer)
	if err != nil {
		return err
	}
	g.peerLimited = peer.Limited
	limit := h.absent
	if peer.Limited {
		g.peerLeft = peer.Left
		limit = h.peers
	}
	g.waited = peer.Waited
	if peer.Limited || peer.Waited > 0 {
		limit = peer.Limit(limit)
	}
	if h.config.Reserve > 0 {
		limit = limit.Reserve(h.config.Reserve)
	}
	useful := h.useful()
	if useful > 0 && h.share.mayRefuse() {
		limit = limit.Require(useful)
	} else {
		useful = 0
	}
	if err := h.start(g, limit); err != nil {
		g.needed = useful
		if budget.KindOf(err) == budget.LocalBudgetRejected {
			h.share.refused()
		}
		return err
	}
	return nil
}

// start starts g's context under limit.
func (h *handler) start(g *guard, limit budget.Limit) error {
	g.client.Context = g.r.Context()
	g.node.Owner, g.node.Lazy = g, !h.tells()
	g.limit = limit
	if s := h.config.Stream; s != nil {
		return s.start(g, limit)
	}
	return ctxnode.Hooks.Enter(&g.node, &g.client, &g.limit, g.began)
}

// context returns the context that h sees.
func (h *handler) context(g *guard) context.Context {
	ctx := context.Context(&g.node.View)
	if g.first != nil {
		ctx = g.first
	}
	return h.ledger(g, ctx)
}

// read returns what r says about its time.
func (h *handler) read(r *http.Request, now time.Time) (wire.Peer, error) {
	for _, name := range h.names {
		if r.Header[name] != nil {
			return wire.Read(r.Header.Values, now, h.forms...)
		}
	}
	return wire.Peer{}, nil // without a look at each form, which costs
}

// strip takes what the caller of an edge says about time off what h sees, so that a
// proxy inside does not pass it on.
func (h *handler) strip(inner *http.Request) {
	own := false
	for _, name := range h.untold {
		if inner.Header[name] == nil {
			continue
		}
		if !own {
			inner.Header, own = inner.Header.Clone(), true
		}
		delete(inner.Header, name)
	}
}

// useful returns the least time with which beginning makes sense.
func (h *handler) useful() time.Duration {
	if h.config.Useful > 0 || h.config.Observed == nil {
		return h.config.Useful
	}
	// Typical is kept for a while: a Quantile would add up the window for each request.
	return min(h.config.Observed.Typical(), h.config.Max-h.config.Reserve)
}

// A share is a token bucket that lets some share of requests be refused.
type share struct {
	of     float64
	credit atomic.Int64 // in millionths of a refusal
}

const perRefusal = 1_000_000

// mayRefuse earns the share of one request and reports whether it may be refused.
func (s *share) mayRefuse() bool {
	if s.of == 1 {
		return true
	}
	c := s.credit.Add(int64(s.of * perRefusal))
	if most := int64(10 * perRefusal); c > most {
		s.credit.CompareAndSwap(c, most)
	}
	return c >= perRefusal
}

func (s *share) refused() {
	if s.of < 1 {
		s.credit.Add(-perRefusal)
	}
}
