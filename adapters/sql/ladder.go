package curfewsql

import (
	"context"
	"sync"
	"time"

	"github.com/curfew-go/curfew/budget"
)

// A ladder is the ctx that a driver gets which ends its socket when a ctx ends. It
// outlives the user's by the steps that come before, which are shares of the slush:
//
//	ended ──20%──▶ kill ──40%──▶ no longer sent ──40%──▶ socket ends
//
// An answer at any step ends the climb, but for a kill already sent, whose end is
// awaited. Without an id to kill the last step is the only one. MariaDB does not notice the end of
// a socket while it computes, so a kill for which there was no time is sent behind the call.
type ladder struct {
	context.Context // of the user, for its values and its deadline

	ender    ender         // nil: nothing is ended but the socket
	cut      *cut          // the connection's, which ends when the socket is to
	patient  int           // how much of the slush in percent is over when an end is no longer waited for
	slush    time.Duration // 0 without deadline
	armed    bool          // the server ends the call at its deadline
	patience time.Duration // the slush of a call that has no deadline
	from     time.Time     // when the slush begins; only where the timer is set

	mu     sync.Mutex
	err    error         // guarded by mu: why cut has ended
	ended  bool          // guarded by mu: the call is over
	over   chan struct{} // guarded by mu: nil before the climb, closed when ended; only run waits for it
	climb  chan struct{} // guarded by mu: nil before the climb, closed behind it
	until  time.Time     // guarded by mu: when the climb ends
	killed bool          // guarded by mu: the server has done as told
	lost   bool          // guarded by mu: a kill may still strike

	timer   *time.Timer
	unwatch func() bool
}

// An ender ends in the server what a connection runs.
type ender interface {
	// end ends it unless moot says at the last moment that there is nothing left to end, and
	// returns when it is done. sent reports whether it may have reached the server.
	end(ctx context.Context, moot func() bool) (sent bool, err error)
	// endBehind ends it for a call that had no time for end, and does not wait.
	endBehind()
}

// A cut is the end of a connection's socket.
type cut struct {
	context.Context
	cancel context.CancelFunc
}

func newCut() *cut {
	ctx, cancel := context.WithCancel(context.Background())
	return &cut{ctx, cancel}
}

func (l *ladder) Done() <-chan struct{} { return l.cut.Done() }

// Value answers from cut first, or context.AfterFunc would not know it for one of its own and wait on a
// goroutine, as in early.
func (l *ladder) Value(key any) any {
	if v := l.cut.Value(key); v != nil {
		return v
	}
	return l.Context.Value(key)
}

func (l *ladder) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// start starts the ladder of a call under user, of which left is left: at the beginning of the
// slush when there is one, and else when user ends, with patience.
func (l *ladder) start(user context.Context, left time.Duration) {
	l.Context = user
	if l.slush > 0 && l.ender != nil { // else all there is to do is to be done at the deadline
		l.from = time.Now().Add(left - l.slush)
		l.timer = time.AfterFunc(left-l.slush+l.slush*20/100, l.slushBegan)
	}
	l.unwatch = context.AfterFunc(user, l.userEnded)
}

func (l *ladder) slushBegan() { l.run(l.from, l.slush, context.DeadlineExceeded) }

func (l *ladder) userEnded() {
	began, patience := time.Now(), l.patience
	if left, bounded := budget.Remaining(l.Context); bounded && l.slush > 0 {
		patience = min(patience, left)
	}
	l.run(began, max(patience, 0), l.Context.Err())
}

// run is the climb, by whoever comes first.
func (l *ladder) run(from time.Time, slush time.Duration, why error) {
	l.mu.Lock()
	if l.ended || l.climb != nil {
		l.mu.Unlock()
		return
	}
	l.over, l.climb, l.until = make(chan struct{}), make(chan struct{}), from.Add(slush)
	l.mu.Unlock()
	defer close(l.climb)

	if l.ender != nil && l.wait(from.Add(slush*20/100)) {
		l.strike(from.Add(slush * time.Duration(l.patient) / 100))
	}
	if l.wait(l.until) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if !l.ended {
			l.err = why
			l.cut.cancel()
			if l.ender != nil && !l.killed && !(l.armed && why == context.DeadlineExceeded) {
				l.ender.endBehind()
			}
		}
	}
}

// wait reports false when the call is over before t.
func (l *ladder) wait(t time.Time) bool {
	timer := time.NewTimer(time.Until(t))
	defer timer.Stop()
	select {
	case <-l.over:
		return false
	case <-timer.C:
		return true
	}
}

func (l *ladder) strike(until time.Time) {
	ctx, cancel := context.WithDeadline(context.WithoutCancel(l.Context), until)
	defer cancel()
	sent, err := l.ender.end(ctx, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.ended
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.killed, l.lost = sent && err == nil, sent && err != nil
}

// climbs reports whether the climb has begun.
func (l *ladder) climbs() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.climb != nil
}

// finish ends the climb and returns once no kill is under way. killed says that one
// was done, lost that one may still strike or that the socket was ended.
func (l *ladder) finish() (killed, lost bool, until time.Time) {
	if l.timer != nil {
		l.timer.Stop()
	}
	l.unwatch()
	l.mu.Lock()
	l.ended = true
	climb := l.climb
	if climb != nil {
		close(l.over)
	}
	l.mu.Unlock()
	if climb != nil {
		<-climb
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.killed, l.lost || l.err != nil, l.until
}
