package curfewredis

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// attemptTime bounds an attempt to connect. It is below the shortest period of a
	// member, so that each call finds the attempt before it over.
	attemptTime = 180 * time.Millisecond

	// From so many in a row on that ran out of time, which is when a server is in
	// trouble for about three seconds, attempts become rare, and wait longer.
	eagerAttempts = 12
	firstPause    = 500 * time.Millisecond
	longestPause  = time.Second

	// ownTime is what a call must have to make its connection itself.
	ownTime = 100 * time.Millisecond

	// maxAtOnce is how many connections one attempt makes at most.
	maxAtOnce = 8

	links = 16 // of a cluster
)

var errConnecting = errors.New("no connection yet")

// A link makes the connections that calls have no time for. With a new one go-redis
// takes about five round trips until it can be used, and what it began is thrown
// away when the call ends before that, so that a server a few milliseconds away
// would never be reached. So a call that ran out of time lets an attempt be made
// that nobody waits for:
//
//	calling ──a call ran out of time──▶ connecting ──an attempt ended in time──▶ calling
//
// While connecting, calls say nothing to the server, and each may begin one attempt
// if none is running. Attempts that run out of time, and calls after attempts that
// did not, count as one row of failures, which ends with a call that is answered in
// time. A server that is down refuses, which is an answer and costs next to nothing.
type link struct {
	mu         sync.Mutex
	running    int           // calls under way; under mu, as all
	connecting bool          // see above
	attempt    chan struct{} // closed when the running one is over; nil: none
	failed     int           // in a row
	next       time.Time     // no attempt before that
}

// call makes call, unless a connection must be made before it.
func (l *link) call(ctx context.Context, connect, call func(context.Context) error) error {
	if d, ok := ctx.Deadline(); !ok || time.Until(d) > ownTime {
		return call(ctx)
	}
	if err := l.wait(ctx, connect); err != nil {
		return err
	}
	l.add(1)
	defer l.add(-1) // also after a panic
	err := call(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !late(ctx, err) {
		l.failed, l.next = 0, time.Time{}
		return err
	}
	l.connecting = true
	l.failed++
	l.beginLocked(connect)
	return err
}

func (l *link) add(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running += n
}

// wait returns nil when a call may be made.
func (l *link) wait(ctx context.Context, connect func(context.Context) error) error {
	began := time.Now()
	l.mu.Lock()
	if !l.connecting {
		l.mu.Unlock()
		return nil
	}
	l.beginLocked(connect)
	attempt := l.attempt
	l.mu.Unlock()
	if attempt == nil {
		return errConnecting
	}
	select {
	case <-attempt:
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", errConnecting, context.Cause(ctx))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	// What an attempt takes, a call takes at most. With less time left the
	// connection is better kept for the next one than lost in this.
	if d, _ := ctx.Deadline(); l.connecting || time.Until(d) < time.Since(began) {
		return errConnecting
	}
	return nil
}

// beginLocked begins an attempt, if one may be made now. The first one makes as
// many connections as calls were running: they would need them at once again.
func (l *link) beginLocked(connect func(context.Context) error) {
	now := time.Now()
	if l.attempt != nil || now.Before(l.next) {
		return
	}
	n, bound := 1, attemptTime
	if l.failed <= 1 {
		n = min(max(l.running, 1), maxAtOnce)
	}
	if l.failed >= eagerAttempts {
		bound = min(firstPause<<min(l.failed-eagerAttempts, 10), longestPause)
		bound = bound*4/5 + rand.N(bound*2/5) // lest members that lost it together come together
		l.next = now.Add(bound)
	}
	l.attempt = make(chan struct{})
	go l.try(connect, n, bound)
}

// try makes an attempt of n connections. An error that came in time is an answer,
// or a refusal.
func (l *link) try(connect func(context.Context) error, n int, bound time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	inTime := make(chan bool, n)
	for range n {
		go func() {
			var err error
			defer func() {
				_ = recover() // of a hook of the client, on a goroutine of ours
				inTime <- !late(ctx, err)
			}()
			err = connect(ctx)
		}()
	}
	answered := false
	for range n {
		answered = <-inTime || answered
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.connecting = !answered; l.connecting {
		l.failed++
	}
	close(l.attempt)
	l.attempt = nil
}

// late reports whether err came since time ran out. The deadline of a connection is
// that of ctx, and its error may come an instant before ctx has ended.
func late(ctx context.Context, err error) bool {
	var timeout net.Error
	return err != nil && (ctx.Err() != nil || errors.As(err, &timeout) && timeout.Timeout())
}

// connect returns what makes a connection to the server that has key.
func (p *Pool) connect(key string) func(context.Context) error {
	return func(ctx context.Context) error {
		if c, ok := p.client.(*redis.ClusterClient); ok {
			node, err := c.MasterForKey(ctx, key)
			if err != nil {
				return err
			}
			return node.Ping(ctx).Err()
		}
		return p.client.Ping(ctx).Err()
	}
}

var seed = maphash.MakeSeed()

// link returns that of key: one for a server, and of a cluster one of a few, since
// one of its servers may be in trouble and the others not.
func (p *Pool) link(key string) *link {
	if _, ok := p.client.(*redis.ClusterClient); ok {
		return &p.links[maphash.String(seed, key)%links]
	}
	return &p.links[0]
}
