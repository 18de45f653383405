package curfewhttp

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/budget/ledger"
	"github.com/curfew-go/curfew/internal/ctxnode"
)

// A guard is one request on its way through a Handler: its context, the writer and
// the body that h sees, and the answer at the deadline.
//
//	       deadline                 h returns within the grace: its goroutine answers
//	open ───────────▶ refusing ──┬─────────────────────────────▶ over
//	  │                          └▶ the grace is over: the timer answers, closes ──▶ over
//	  └────────── h returns ──────────────────────────────────────▶ over
//
// h runs on net/http's own goroutine. While it does, a timer may write too, so what
// both touch is under two locks. mu is the writer's: it is held while bytes are
// written, which takes as long as the client likes. fence covers what the timer does
// without mu, which is to give a blocked writer or reader a deadline, against the end
// of the request, after which net/http's own writer must not be touched any more: it
// serves another one. Whoever holds fence waits for nothing.
//
// It is one struct, and a request costs two allocations for it and for its copy.
type guard struct {
	node   ctxnode.Node
	client ctxnode.Client // in which node is started
	limit  budget.Limit
	h      *handler
	w      http.ResponseWriter
	r      *http.Request // as it came
	began  time.Time

	// What is set before h runs, and not changed while it does.
	refused     bool // there is no context
	peerLimited bool // the request brought a budget
	peerLeft    time.Duration
	waited      time.Duration // in the queue of a proxy
	needed      time.Duration // the useful time that it did not have
	account     *ledger.Ledger
	first       *firstByte  // of a stream; nil otherwise
	idle        *time.Timer // of a stream that may not stay idle; nil otherwise

	body     requestBody
	refusing atomic.Bool            // expire has run: what h waits for is freed, the grace runs
	started  atomic.Bool            // a status has been given to net/http, by h or by the answer
	begun    atomic.Bool            // h runs
	broken   atomic.Bool            // Error was called when it was too late to answer
	verdict  atomic.Pointer[Result] // what Error, or the answer, says
	replied  Result                 // what verdict points to after the answer; written once, before

	unbegun error           // why h was not run after all
	ended   *ctxnode.Ending // how the context had ended when h returned; nil when it had not
	overrun time.Duration   // how long h ran on after that

	mu       sync.Mutex
	header   http.Header // h's own; nil until it asks
	status   int
	bytes    int64
	answered bool // by the deadline's answer, not by h
	outlived bool // h had written all, and was not waited for
	aborted  bool // it had started, and was cut
	lost     bool // h was refused a write, so what it sent is not whole
	hijacked bool // written under fence too
	gone     bool // the client is, and the header map may still be read: see commit

	fence  sync.Mutex
	opened bool        // all is set for the deadline to come
	waiter *waiter     // while it waits for its turn in a Queue
	late   bool        // it came before
	back   bool        // h has returned: its goroutine answers, when it has mu
	over   bool        // it has it; written under mu too
	grace  *time.Timer // nil until the deadline
	bounds bool        // a deadline for writing was set and not taken back
	jogged bool        // a deadline for reading was set, so the connection is not used again
}

// errDeadline is what h is told that writes after its deadline. It matches
// http.ErrHandlerTimeout and context.DeadlineExceeded.
var errDeadline = lateWrite{}

type lateWrite struct{}

func (lateWrite) Error() string {
	return "curfewhttp: the request's deadline has passed: nothing is written any more"
}
func (lateWrite) Timeout() bool { return true }
func (lateWrite) Is(target error) bool {
	return target == http.ErrHandlerTimeout || target == context.DeadlineExceeded
}

// defaultGrace is how long a handler may take to return once its context has ended,
// before somebody else answers in its place. Within it the connection is kept and
// an HTTP/2 stream ends cleanly, which only the handler's goroutine can bring about.
const defaultGrace = 20 * time.Millisecond

// answerBound bounds how long the timer's own answer may wait for the client to read.
const answerBound = time.Second

// longAgo is a deadline that ends what waits.
var longAgo = time.Unix(1, 0)

// Ended is told that the context has ended, by whoever ended it, and must not wait.
func (g *guard) Ended(e *ctxnode.Ending, watched bool) bool {
	g.wakeQueued()
	if e.Err != context.DeadlineExceeded {
		return watched // the client has left, or h is done: there is nobody to answer
	}
	g.expire()
	return watched
}

// open lets the deadline come, which may have been faster than what has been done
// since the context was started.
func (g *guard) open() {
	g.fence.Lock()
	g.opened = true
	late := g.late
	g.fence.Unlock()
	if late {
		g.expire()
	}
}

// expired reports whether the deadline has passed, so that h writes nothing any more.
// Whoever waits for the context's Done may get here before expire does.
func (g *guard) expired() bool {
	if g.refusing.Load() {
		return true
	}
	e := g.node.Ending()
	return e != nil && e.Err == context.DeadlineExceeded && g.h.config.Mode == Enforce
}

// given returns how much time the request had from the start.
func (g *guard) given() time.Duration {
	if g.refused {
		return g.peerLeft
	}
	var deadline time.Time
	if g.first != nil {
		deadline = g.first.deadline
	} else {
		deadline, _ = g.node.Deadline()
	}
	return deadline.Sub(g.began)
}

// expire is the first step: h writes nothing any more, what it waits for in the
// connection is freed, and the timer of the second step runs.
func (g *guard) expire() {
	g.fence.Lock()
	defer g.fence.Unlock()
	if g.late = true; !g.opened || g.over || g.hijacked || g.h.config.Mode != Enforce || !g.refusing.CompareAndSwap(false, true) {
		return
	}
	rc := http.NewResponseController(g.w)
	if g.started.Load() && g.r.ProtoMajor < 2 {
		// A Write that waits for the client. What it has not sent by now is late. On
		// HTTP/2 this would reset the stream, also of an h that is about to end it.
		g.bounds = rc.SetWriteDeadline(longAgo) == nil
	}
	if g.body.left.Load() {
		g.jogged = true
		// Never without a body: there net/http itself reads, and takes a read that
		// fails for the end of the client, of this request and of the next one.
		_ = rc.SetReadDeadline(longAgo)
	}
	if g.waiter == nil { // else its goroutine is about to answer
		g.grace = time.AfterFunc(g.h.grace, g.answerForDeaf)
	}
}

// answerForDeaf is the second step, for an h that has not returned within the grace.
func (g *guard) answerForDeaf() {
	g.fence.Lock()
	back := g.back
	g.fence.Unlock()
	if back {
		return
	}
	g.safely(func() { g.h.deaf(g) })

	rc := http.NewResponseController(g.w)
	held := !g.mu.TryLock()
	g.fence.Lock()
	switch {
	case g.back, g.hijacked:
	case held && g.started.Load(): // h waits for a client that does not read
		g.bounds = rc.SetWriteDeadline(longAgo) == nil
	default:
		g.bounds = rc.SetWriteDeadline(time.Now().Add(answerBound)) == nil
	}
	g.fence.Unlock()
	if held {
		g.mu.Lock()
	}
	defer g.mu.Unlock()
	g.fence.Lock()
	back = g.back
	g.fence.Unlock()
	if back || g.hijacked {
		return
	}
	whole := g.started.Load() && g.whole()
	switch {
	case whole:
		g.outlived = true
	case g.started.Load():
		g.aborted = true
		g.cut(rc)
		return
	case !g.safely(func() { g.answer(g.why()) }) && !g.started.Load():
		g.started.Store(true)
		g.w.WriteHeader(http.StatusGatewayTimeout)
	}
	_ = rc.Flush()
	switch {
	case g.r.ProtoMajor >= 2:
		// Only h's goroutine can end a stream. A reset behind the whole body is the
		// next best; curfewhttp.Transport takes it for the end.
		_ = rc.SetWriteDeadline(longAgo)
	case whole: // the header did not say that the next request must not come here
		g.cut(rc)
	}
}

// safely runs f, in which the functions of Config are called, on the goroutine of a
// timer, where a panic would end the process. It reports whether there was none.
func (g *guard) safely(f func()) (well bool) {
	defer func() {
		if v := recover(); v != nil {
			text := fmt.Sprintf("curfewhttp: panic in a function of Config: %v\n%s", v, debug.Stack())
			if s, _ := g.r.Context().Value(http.ServerContextKey).(*http.Server); s != nil && s.ErrorLog != nil {
				s.ErrorLog.Print(text)
			} else {
				log.Print(text)
			}
		}
	}()
	f()
	return true
}

// whole reports whether all of the reply that h said there would be is written. Some
// of it may wait in net/http for h to return. The caller holds mu.
func (g *guard) whole() bool {
	switch {
	case g.status == 0 || g.lost:
		return false
	case g.r.Method == http.MethodHead, g.status == http.StatusNoContent, g.status == http.StatusNotModified:
		return true
	}
	declared := g.w.Header().Get("Content-Length")
	return declared != "" && declared == strconv.FormatInt(g.bytes, 10)
}

// cut ends a stream, or closes a connection, under h. The caller holds mu.
func (g *guard) cut(rc *http.ResponseController) {
	if g.r.ProtoMajor >= 2 {
		_ = rc.SetWriteDeadline(longAgo)
		return
	}
	// The header goes out with this, if it had not: the client sees a reply that was
	// cut, and its transport does not repeat the request on its own.
	_ = rc.SetWriteDeadline(time.Now().Add(answerBound))
	if conn, _, err := rc.Hijack(); err == nil {
		_ = conn.Close()
	}
}

// answer writes the reply to a request whose time has run out. The caller holds mu,
// and nothing has been written.
func (g *guard) answer(why error) {
	g.answered = true
	if g.gone {
		return
	}
	g.fence.Lock()
	returned, jogged := g.over, g.jogged
	g.fence.Unlock()
	if g.r.ProtoMajor < 2 && (jogged || !returned || g.body.left.Load()) {
		// With a body unread net/http would read it first, and wait for h's own read;
		// with h still running the next request on the connection would wait for h.
		g.w.Header().Set("Connection", "close")
	}
	g.status, g.bytes = g.h.reply(g.w, g, why)
}

// finish ends the request after h has returned or panicked, and reports whether
// net/http has to be told to cut the reply.
func (g *guard) finish(panicked bool) (cut bool) {
	g.stopTimers()
	if g.expired() {
		g.expire() // h may have been faster, and net/http must not wait for the rest of a body
	}
	g.fence.Lock()
	g.back = true
	g.fence.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fence.Lock()
	g.over = true
	if g.grace != nil {
		g.grace.Stop()
	}
	bounds, jogged := g.bounds, g.jogged // the latter stays: net/http is about to read what is left of the body
	g.fence.Unlock()
	if g.hijacked || panicked || g.answered || g.outlived || g.aborted {
		return g.aborted
	}
	rc := http.NewResponseController(g.w)
	if bounds || g.r.ProtoMajor >= 2 && g.expired() {
		_ = rc.SetWriteDeadline(time.Now().Add(answerBound))
	}
	switch {
	case g.started.Load():
		whole := g.whole()
		if jogged && whole && !g.broken.Load() && g.r.ProtoMajor < 2 {
			// What is left of the body must not be taken for the next request.
			_ = rc.SetWriteDeadline(time.Now().Add(answerBound))
			_ = rc.Flush()
			g.cut(rc)
			return false
		}
		// What h made of a body of which it was refused the rest may look whole.
		if g.lost || g.broken.Load() || jogged && g.r.ProtoMajor < 2 || g.body.lost.Load() && !whole {
			g.aborted = true
			_ = rc.Flush() // so that the client sees a reply that was cut, not none
			return true
		}
		g.trailers()
	case g.unbegun != nil:
		g.answer(g.unbegun)
	case g.expired():
		g.answer(g.why())
	default:
		g.commit(http.StatusOK) // h wrote nothing: net/http would say 200
	}
	return false
}

// why returns what ended the request's context.
func (g *guard) why() error {
	if err := g.node.Cause(); err != nil {
		return err
	}
	return &budget.Cause{Kind: budget.DeadlineExceeded}
}

// clientGone reports whether the client has left, and lateReset that it did when its
// time was over: its own timer was faster than ours then, and the deadline is what
// ended the request.
func (g *guard) clientGone() bool { return g.cancelled() && !g.lateReset() }

func (g *guard) lateReset() bool {
	if g.refused || !g.cancelled() {
		return false
	}
	e := g.node.Ending()
	switch {
	case e == nil || e.At.IsZero():
		return false
	case e.Err == context.DeadlineExceeded: // of the first byte of a stream as well
		return true
	}
	deadline, _ := g.node.Deadline()
	if g.first != nil && !g.first.sent.Load() {
		deadline = g.first.deadline
	}
	return !e.At.Before(deadline)
}

// cancelled reports whether net/http has ended the request. What curfew ended above it,
// such as a scope.Root that is the server's BaseContext, has a cause that says so: the
// client waits.
func (g *guard) cancelled() bool {
	ctx := g.r.Context()
	if !errors.Is(ctx.Err(), context.Canceled) {
		return false
	}
	c, ended := context.Cause(ctx).(*budget.Cause)
	return !ended || c.Kind == budget.ClientCancelled
}
