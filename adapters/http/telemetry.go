package curfewhttp

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/budget/ledger"
	"github.com/curfew-go/curfew/budget/meter"
	"github.com/curfew-go/curfew/budget/wire"
	"github.com/curfew-go/curfew/scope"
)

// tells reports whether anybody wants to know how requests end.
func (h *handler) tells() bool { return h.config.Recorder != nil || h.config.Log != nil }

func (h *handler) add(name string, labels ...meter.Label) {
	if h.config.Recorder != nil {
		h.config.Recorder.Add(name, 1, labels...)
	}
}

func (h *handler) record(name string, d time.Duration, labels ...meter.Label) {
	if h.config.Recorder != nil {
		h.config.Recorder.Record(name, float64(d)/float64(time.Millisecond), labels...)
	}
}

func (h *handler) route() meter.Label { return meter.Label{Key: "route", Value: h.config.Route} }

// received counts what a request brought.
func (h *handler) received(g *guard, peer wire.Peer) {
	if peer.Limited {
		h.hurry.arrived(peer.Left, h.config.Hurried)
	}
	if h.config.Recorder == nil {
		return
	}
	source := meter.Label{Key: "source", Value: "default"}
	switch {
	case peer.Limited:
		source.Value = "peer"
	case h.config.Mode == Observe:
		source.Value = "none"
	}
	if h.config.Caller != nil {
		h.add(meter.Received, source, meter.Label{Key: "caller", Value: h.config.Caller(g.r)})
	} else {
		h.add(meter.Received, source)
	}
	if peer.Limited {
		h.record(meter.RemainingIn, peer.Left, h.route())
	}
}

// ledger returns ctx with the account of the request, if anybody wants one.
func (h *handler) ledger(g *guard, ctx context.Context) context.Context {
	if h.config.Log == nil && !h.config.ServerTiming {
		return ctx
	}
	ctx, g.account = ledger.New(ctx, h.config.Route)
	g.account.Stage(ledger.Queue, g.waited)
	return ctx
}

var resultIsOK = []string{resultOK}

// before adds what the caller is told in headers. It is called right before a status
// goes out, and never for an informational one.
func (h *handler) before(header http.Header, g *guard, status int) {
	if h.config.Edge {
		delete(header, ResultHeader) // of a service behind, when h is a proxy
		delete(header, "Server-Timing")
		return
	}
	if g.peerLimited && h.config.Mode == Enforce {
		switch result := g.verdict.Load(); {
		case result != nil:
			header.Set(ResultHeader, result.String())
		case header[ResultHeader] != nil: // h is a proxy: what it brought is more exact
		case status >= http.StatusInternalServerError:
			header.Set(ResultHeader, Result{Kind: budget.Failed}.String())
		default:
			header[ResultHeader] = resultIsOK[:1:1]
		}
	}
	if h.config.ServerTiming && g.account != nil {
		if text := g.account.ServerTiming(); text != "" {
			header.Add("Server-Timing", text)
		}
	}
}

// wouldRefuse tells of a request that Enforce would have refused, and gives it the
// route's maximum. The error is that its client has left.
func (h *handler) wouldRefuse(g *guard, why error) error {
	h.refused(g, why)
	return h.start(g, budget.Within(h.config.Max).Named("route maximum"))
}

// refused tells of a request that is, or would be, refused.
func (h *handler) refused(g *guard, why error) {
	if h.config.Refused != nil {
		h.config.Refused(g.r, why)
	}
	reason := "malformed"
	if kind := budget.KindOf(why); kind != budget.Failed {
		reason = kind.String()
	}
	if h.config.Recorder != nil { // else nobody would see labels that are allocated
		h.add(meter.Refused, meter.Label{Key: "reason", Value: reason}, meter.Label{Key: "mode", Value: h.config.Mode.String()})
	}
	if h.config.Log != nil {
		h.config.Log.LogAttrs(context.Background(), slog.LevelWarn, "curfewhttp: refused",
			slog.String("route", h.config.Route), slog.String("reason", reason),
			slog.String("mode", h.config.Mode.String()), slog.String("why", why.Error()))
	}
}

// refuse answers a request that h does not get to see.
func (h *handler) refuse(g *guard, why error) {
	h.refused(g, why)
	g.refused = true
	if g.r.ProtoMajor < 2 && g.r.ContentLength != 0 {
		// net/http would read the body before it answers.
		g.w.Header().Set("Connection", "close")
		_ = http.NewResponseController(g.w).SetReadDeadline(time.Now().Add(answerBound))
	}
	g.status, g.bytes = h.reply(g.w, g, why)
}

// notStarted notes why h does not get to see a request that is under way.
func (g *guard) notStarted(why error) {
	g.unbegun = why
	g.h.refused(g, why)
}

// deaf tells of a handler that still runs after the grace.
func (h *handler) deaf(g *guard) {
	h.add(meter.Straggler, h.route())
	if h.config.Log != nil {
		h.config.Log.LogAttrs(context.Background(), slog.LevelWarn, "curfewhttp: the handler does not look at its context",
			slog.String("route", h.config.Route), slog.Duration("after", h.grace))
	}
}

// report tells how a request ended.
func (h *handler) report(g *guard, panicked bool) {
	if h.config.Observed == nil && !h.tells() {
		return
	}
	took := time.Since(g.began)
	result := g.outcome(panicked)
	if h.config.Observed != nil {
		var err error
		if result.Kind != budget.None {
			err = &budget.Cause{Kind: result.Kind}
		}
		h.config.Observed.Record(took, err)
	}
	if !h.tells() {
		return
	}
	kind := meter.Label{Key: "kind", Value: result.Kind.String()}
	outcome := result.Kind.String()
	over := g.overrun
	if over > 0 && result.Kind == budget.None {
		outcome = "late"
	}
	h.add(meter.Outcome, meter.Label{Key: "outcome", Value: outcome}, h.route())
	h.record(meter.LocalTime, took, h.route())
	if result.Kind != budget.None && result.Kind != budget.Failed {
		h.add(meter.Cancelled, kind, h.route())
	}
	if over > 0 {
		h.record(meter.Wasted, over, kind, h.route())
	}
	if result.Kind == budget.DeadlineExceeded {
		h.add(meter.LimitedBy, meter.Label{Key: "limit", Value: g.limitName()})
	}
	if h.config.Log == nil {
		return
	}
	var err error
	if result.Kind != budget.None {
		err = g.failure()
	}
	g.account.Close(err)
	level := slog.LevelDebug
	if result.Kind != budget.None || over > 0 {
		level = slog.LevelWarn
	}
	h.config.Log.LogAttrs(context.Background(), level, "curfewhttp: request",
		slog.Int("status", g.logStatus(result.Kind)), slog.String("outcome", outcome),
		slog.Duration("past", over), slog.Any("ledger", g.account.LogValue()))
}

// logStatus returns the status as logs write it: 499 for a client that left.
func (g *guard) logStatus(kind budget.Kind) int {
	if kind == budget.ClientCancelled {
		return statusClientGone
	}
	return g.status
}

// limitName tells whose limit the deadline is, out of few names.
func (g *guard) limitName() string {
	switch {
	case g.first != nil && g.first.sent.Load():
		return "stream"
	case !g.peerLimited:
		return "route default"
	case g.ownLimit():
		return "route maximum"
	}
	return "peer"
}

// outcome returns what became of a request.
func (g *guard) outcome(panicked bool) Result {
	if result := g.verdict.Load(); result != nil {
		return *result
	}
	switch {
	case g.outlived: // what reset the stream was us
		return Result{}
	case g.clientGone():
		return Result{Kind: budget.ClientCancelled}
	case g.aborted, g.lateReset():
		return Result{Kind: budget.DeadlineExceeded}
	case panicked, g.status >= http.StatusInternalServerError:
		return Result{Kind: budget.Failed}
	}
	return Result{}
}

// failure returns the error for the account of a request that failed.
func (g *guard) failure() error {
	if g.ended != nil && g.ended.Cause != nil {
		return g.ended.Cause
	}
	return &budget.Cause{Kind: g.outcome(true).Kind}
}

// observe runs h as if there were no Handler, and tells what would have been.
func (h *handler) observe(w http.ResponseWriter, r *http.Request) {
	g := &guard{h: h, w: w, r: r, began: time.Now()}
	deadline := g.began.Add(h.config.Max)
	if err := h.enter(g); err != nil {
		h.refused(g, err)
	} else {
		deadline = g.began.Add(g.given())
		g.node.End(done)
		g.node.Stop()
		g.stopTimers()
	}
	returned := false
	defer func() {
		if o := h.config.Observed; o != nil && returned {
			o.Record(time.Since(g.began), nil) // whose status nobody looks at
		}
		if late := time.Since(deadline); late > 0 {
			h.add(meter.Outcome, meter.Label{Key: "outcome", Value: "late"}, h.route())
			h.record(meter.Wasted, late, meter.Label{Key: "kind", Value: budget.DeadlineExceeded.String()}, h.route())
		}
		h.record(meter.LocalTime, time.Since(g.began), h.route())
	}()
	h.next.ServeHTTP(w, r)
	returned = true
}

// A hurry watches the share of requests that arrive with little time.
type hurry struct {
	above        float64
	count, short atomic.Int64
	crossed      atomic.Bool
}

const (
	littleTime  = 50 * time.Millisecond
	hurryWindow = 1000
)

func (y *hurry) arrived(left time.Duration, told func(share float64)) {
	if told == nil {
		return
	}
	if left < littleTime {
		y.short.Add(1)
	}
	if y.count.Add(1)%hurryWindow != 0 {
		return
	}
	share := float64(y.short.Swap(0)) / hurryWindow
	if y.crossed.CompareAndSwap(share < y.above, share >= y.above) {
		told(share)
	}
}

// IncompleteHeader is the name of the response header in which [Incomplete] lists
// what a reply has to do without.
const IncompleteHeader = "X-Incomplete"

// Incomplete says in a header which optional tasks a reply has to do without, by
// name, as s.Missing returns them; it is called before the body is written, and says
// nothing when nothing is missing. Names are written so that they cannot be more
// than a list of names: what is not a letter, a digit or one of "-_.:/" is "_".
func Incomplete(w http.ResponseWriter, missing []scope.Missing) {
	if len(missing) == 0 {
		return
	}
	names := make([]string, len(missing))
	for i, m := range missing {
		names[i] = strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.:/", r) {
				return r
			}
			return '_'
		}, m.Task)
	}
	w.Header().Set(IncompleteHeader, strings.Join(names, ", "))
}
