package checkpoint

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/ctxnode"
)

// A Point is where a loop looks whether to go on. It belongs to one goroutine; make
// one for each. There is nothing to close: what a Point is registered for goes with
// it, when it is collected or when its context ends.
type Point struct {
	// The word that the end of ctx sets: 0, then ctxnode.Flagged.
	ended *atomic.Uint32
	left  int64 // turns until the clock is read

	turns    int64 // that left was set to
	most     int64 // turns between two readings
	start    time.Time
	read     time.Duration // when the clock was read last, since start
	gap      time.Duration
	deadline time.Duration // since start
	bounded  bool
	node     *ctxnode.Node // whose end ends ctx; nil for a foreign one
	ctx      context.Context
	err      error // what it answers ever after
}

const (
	// look is how far apart readings of the clock are meant to be.
	look = time.Microsecond
	// maxTurns bounds how far a loop that becomes slow all at once gets until the
	// next reading. An empty loop makes about so many turns in a microsecond.
	maxTurns = 1 << 12
	// maxUntold bounds it for a context that does not tell of its end, so that the end
	// is seen as soon as the timer would be that sets the word of another: a deadline
	// within 10 ms where a turn has come to take one.
	maxUntold = 8
)

// never is the word of a context that never ends.
var never atomic.Uint32

// New returns a Point for work under ctx. It is made once for a loop and not once a
// turn: for a context that curfew made it costs as much as reading the clock a few
// times, and several times that for another one, with which it is registered
// (BenchmarkNew). With a context of another library whose Done is of its own, and not
// that of a std context, nothing is registered, and a turn costs a few nanoseconds
// (BenchmarkTurn). A nil ctx panics.
func New(ctx context.Context) *Point {
	if ctx == nil {
		panic("checkpoint: New: nil context")
	}
	p := &Point{ctx: ctx, left: 1, turns: 1, most: maxTurns, start: time.Now()}
	if d, ok := ctx.Deadline(); ok {
		p.deadline, p.bounded = d.Sub(p.start), true
	}
	switch p.node = ctxnode.EndOf(ctx); {
	case p.node != nil:
		p.ended = p.node.Flag()
	case ctx.Done() == nil:
		p.ended = &never
	case !ctxnode.Tells(ctx):
		// AfterFunc would have a goroutine wait for its end, and what lets that one go,
		// when p is collected, closes a channel: from outside of the bubble of a
		// synctest test, which is fatal.
		p.ended, p.most = &never, maxUntold
	default:
		p.follow(ctx)
	}
	return p
}

// follow has a foreign ctx set a word of p's own at its end. The registration holds
// that word and not p, so that p can be collected before ctx ends; ctx then forgets
// the word too. A Stop or Close was tried on call sites instead: it is one more line
// in every loop, and what forgets it leaks for as long as ctx lives.
func (p *Point) follow(ctx context.Context) {
	word := new(atomic.Uint32)
	p.ended = word
	stop := context.AfterFunc(ctx, func() { word.Store(ctxnode.Flagged) })
	runtime.AddCleanup(p, func(stop func() bool) { stop() }, stop)
}

// Err returns nil while the work may go on, and why ctx ended once it has:
// context.Cause(ctx), or a *budget.Cause of kind DeadlineExceeded when the deadline
// has passed and ctx is about to end. After the first error it returns that error
// at every call.
//
// The end of a context that curfew made, such as by its CancelFunc or by the failure
// of a sibling, is seen at the first call after it. So is a deadline, or within about
// a microsecond of it where its timer is late. The end of any other context arrives
// from another goroutine, and is seen within about a microsecond of turns, or at the
// next call where a turn takes longer; where New registered nothing, within eight turns.
func (p *Point) Err() error {
	// One comparison for both: the clock is due when left reaches 0, and once the
	// context has ended no number of turns is above the word. This must inline, which
	// TestErrIsInlined holds. Looking at the clock every so many turns alone would be
	// late by as many turns when a loop becomes slow, and the word alone by as much as
	// the timer that sets it.
	if p.left--; int64(p.ended.Load()) < p.left {
		return nil
	}
	return p.look()
}

// Gap returns the longest time so far between two readings of the clock, the first
// of which New made. Calls of Err are at most that far apart, so it says how late a
// cancel could have been noticed. It is about a microsecond while turns are short.
func (p *Point) Gap() time.Duration { return p.gap }

// look reads the clock and asks ctx.
func (p *Point) look() error {
	if p.err != nil {
		p.left = 0
		return p.err
	}
	now := time.Since(p.start)
	p.pace(now)
	if p.bounded && now >= p.deadline {
		if p.node != nil {
			p.node.ExpireIfDue() // for everybody under it, and with the right cause
		}
		p.err = budget.Require(p.ctx, 0)
	} else if p.ctx.Err() != nil {
		p.err = context.Cause(p.ctx)
	}
	if p.err != nil {
		p.left = 0
	}
	return p.err
}

// pace sets how many turns to go until the next reading of the clock: at most twice
// as many as before, and at once as few as turns have become slow.
func (p *Point) pace(now time.Duration) {
	took := now - p.read
	p.read = now
	p.gap = max(p.gap, took)
	next := min(2*p.turns, p.most)
	if took > 0 {
		next = min(next, (p.turns-p.left)*int64(look)/int64(took))
	}
	p.turns = max(next, 1)
	p.left = p.turns
}
