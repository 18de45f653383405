package curfewhttp

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/ctxnode"
)

// A Stream is for responses that go on for longer than anyone waits for their first
// byte, such as server-sent events and WebSockets. The deadline of the request holds
// until h has written its first byte, flushed its header, or taken the connection;
// from then on the stream's own limits do.
//
// Work that was entered before the first byte keeps the deadline that it was entered
// with. So send the header first, with Flush, and open the scope of the stream then.
type Stream struct {
	// Lifetime is the most time that the stream may take, from the request's
	// arrival. It must be above zero: a stream that nothing ends is a leak.
	Lifetime time.Duration
	// Idle, when above zero, ends a stream to which h has written nothing for so long.
	// It does not count a connection that h has hijacked. A Write that takes longer is
	// taken for silence too, so that a client that does not read holds no stream; write
	// what is large in pieces.
	Idle time.Duration
}

func (s *Stream) mustBeBounded() {
	if s.Lifetime <= 0 {
		panic(fmt.Sprintf("curfewhttp: Handler: Stream without a Lifetime: %v", s.Lifetime))
	}
	if s.Idle < 0 {
		panic(fmt.Sprintf("curfewhttp: Handler: negative Stream.Idle %v", s.Idle))
	}
}

// start starts g's context for as long as the stream may live, with limit for the
// first byte.
func (s *Stream) start(g *guard, limit budget.Limit) error {
	// What of limit the stream must do its first byte in is found by entering it.
	ctx, cancel, err := budget.Enter(&g.client, limit)
	if err != nil {
		return err
	}
	first := &firstByte{g: g}
	first.deadline, _ = ctx.Deadline()
	first.cause = func() error { return ctxnode.Hooks.Expired(ctxnode.Find(ctx).Node()) }
	cancel()
	g.limit = budget.Within(s.Lifetime).Named("stream lifetime")
	if err := ctxnode.Hooks.Enter(&g.node, &g.client, &g.limit, g.began); err != nil {
		return err
	}
	first.Context = &g.node.View
	g.first = first
	first.timer = time.AfterFunc(time.Until(first.deadline), first.expire)
	if s.Idle > 0 {
		g.idle = time.AfterFunc(s.Lifetime, func() { // Reset at the first byte
			g.end(&budget.Cause{Kind: budget.DeadlineExceeded, Limit: "stream idle " + s.Idle.String(), Phase: "body"})
		})
	}
	return nil
}

// A firstByte is the context of a stream: its deadline is that of the first byte
// until there is one.
type firstByte struct {
	context.Context
	g        *guard
	deadline time.Time
	cause    func() error
	timer    *time.Timer
	sent     atomic.Bool
}

// Deadline is part of context.Context.
func (f *firstByte) Deadline() (time.Time, bool) {
	if !f.sent.Load() {
		return f.deadline, true
	}
	return f.Context.Deadline()
}

func (f *firstByte) expire() {
	if !f.sent.Load() {
		f.g.end(f.cause())
	}
}

// end ends g's context, as a deadline that has passed.
func (g *guard) end(why error) {
	g.node.End(&ctxnode.Ending{Cause: why, Err: context.DeadlineExceeded, At: time.Now()})
}

// firstByte hands over to the limits of the stream. The caller holds mu.
func (g *guard) firstByte() {
	if g.first == nil || !g.first.sent.CompareAndSwap(false, true) {
		return
	}
	g.first.timer.Stop()
	g.written()
}

// written starts the time anew in which a stream may stay idle, unless nobody is left to
// stop it. The caller holds mu.
func (g *guard) written() {
	if g.idle != nil && !g.hijacked && !g.over {
		g.idle.Reset(g.h.config.Stream.Idle)
	}
}

// stopTimers stops what a stream runs beside its context.
func (g *guard) stopTimers() {
	if g.first != nil {
		g.first.timer.Stop()
	}
	if g.idle != nil {
		g.idle.Stop()
	}
}
