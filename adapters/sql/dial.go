package curfewsql

import (
	"context"
	"database/sql/driver"
	"errors"
	"sync"
	"time"
)

// Dials are logins that outlive who asked for them. A login that is given up with its caller begins
// anew with the next one, so that limits shorter than a login never get a connection, and so that one of
// a server that hangs has to come when the server is back. Here the next caller takes what the
// one before it has left:
//
//	under way ──connected──▶ ready ──wanted──▶ handed over
//	    └──────── error, or nobody wants it in time ────────▶ closed
//
// Each call of connect takes a login that is left before it begins one, so that a pool with a bound has no
// more connections than that, logins counted; but for those that hang, see freshFor.
type dials struct {
	connect func(dialling, connected context.Context) (driver.Conn, error)
	open    context.Context // ends with the connector

	mu     sync.Mutex
	free   []*dial // guarded by mu: that nobody waits for, none of them failed
	closed bool    // guarded by mu
}

const (
	// dialFor is how long a login may go on behind the first who left it.
	dialFor = 3 * time.Second
	// spareFor is how long a connection that is ready waits for somebody who wants it.
	spareFor = 2 * time.Second
	// freshFor is the age from which a login may be one that hangs, where another would not: the
	// address may have moved. Whoever takes an older one begins another beside it.
	freshFor = time.Second
	// mostSpare bounds what nobody waits for. A server that comes back serves them all at
	// once, and the first is there the later.
	mostSpare = 8
)

// A dial is one login.
type dial struct {
	began  time.Time
	cancel context.CancelFunc
	done   chan struct{} // closed when conn and err are set
	conn   driver.Conn
	err    error

	panicked any // not nil: what the driver's Connect panicked with; err is set too

	left    time.Time   // guarded by dials.mu: when somebody first left it
	dropped bool        // guarded by dials.mu: conn is to be closed
	timer   *time.Timer // guarded by dials.mu: not nil while it is free
}

// A dialling is the ctx of a login: it has the deadline of who began it, by which drivers and
// net.Dialer share the time among addresses, and does not end with it.
type dialling struct {
	context.Context
	at      time.Time
	bounded bool
}

func (d dialling) Deadline() (time.Time, bool) { return d.at, d.bounded }

// get returns a connection. Its error is that of ctx or of a login that began within the call.
func (s *dials) get(ctx context.Context) (driver.Conn, error) {
	d, own := s.claim(), false
	var old *dial
	var aged <-chan time.Time
	switch {
	case d == nil:
		d, own = s.begin(ctx), true
	case !d.isDone():
		timer := time.NewTimer(freshFor - time.Since(d.began))
		defer timer.Stop()
		aged = timer.C
	}
	for {
		var oldDone <-chan struct{}
		if old != nil {
			oldDone = old.done
		}
		select {
		case <-d.done:
			if d.err != nil && !own { // it says how it was then
				d, own = s.begin(ctx), true
				continue
			}
			s.leave(old)
			if d.panicked != nil {
				panic(d.panicked) // where it would be without us
			}
			return d.conn, d.err
		case <-oldDone:
			if old.err != nil {
				old = nil
				continue
			}
			s.leave(d)
			return old.conn, nil
		case <-aged:
			if !own {
				old, d, own = d, s.begin(ctx), true
			}
		case <-ctx.Done():
			s.leave(old)
			s.leave(d)
			return nil, ctx.Err()
		}
	}
}

func (s *dials) begin(ctx context.Context) *dial {
	connected, cancel := context.WithCancel(context.WithoutCancel(ctx))
	d := &dial{began: time.Now(), cancel: cancel, done: make(chan struct{})}
	at, bounded := ctx.Deadline()
	stop := context.AfterFunc(s.open, cancel)
	go func() {
		conn, err := driver.Conn(nil), errNoReturn
		defer func() {
			panicked := recover()
			stop()
			cancel()
			s.finish(d, conn, err, panicked)
		}()
		conn, err = s.connect(dialling{connected, at, bounded}, connected)
	}()
	return d
}

var errNoReturn = errors.New("curfewsql: Connect of the driver did not return")

func (s *dials) finish(d *dial, conn driver.Conn, err error, panicked any) {
	s.mu.Lock()
	d.conn, d.err, d.panicked = conn, err, panicked
	close(d.done)
	drop := d.dropped
	if d.timer != nil {
		if err != nil {
			s.removeLocked(d)
		} else {
			d.timer.Reset(spareFor)
		}
	}
	s.mu.Unlock()
	if drop && conn != nil {
		_ = conn.Close()
	}
}

// claim returns one that nobody waits for: one that is ready, or else the first that may not hang, or else
// the first.
func (s *dials) claim() *dial {
	s.mu.Lock()
	defer s.mu.Unlock()
	var best *dial
	for _, d := range s.free {
		if best == nil || d.before(best) {
			best = d
		}
	}
	if best != nil {
		s.removeLocked(best)
	}
	return best
}

// leave has d wait for somebody else. A nil d is none.
func (s *dials) leave(d *dial) {
	if d == nil {
		return
	}
	s.mu.Lock()
	if d.left.IsZero() {
		d.left = time.Now()
	}
	wait := dialFor - time.Since(d.left)
	if d.isDone() {
		wait = spareFor
	}
	if d.isDone() && d.err != nil {
		s.mu.Unlock()
		return
	}
	if s.closed || len(s.free) >= mostSpare || wait <= 0 {
		s.drop(d)
		return
	}
	d.timer = time.AfterFunc(wait, func() { s.expire(d) })
	s.free = append(s.free, d)
	s.mu.Unlock()
}

// expire ends d unless somebody waits for it.
func (s *dials) expire(d *dial) {
	s.mu.Lock()
	if s.removeLocked(d) {
		s.drop(d)
		return
	}
	s.mu.Unlock()
}

// drop ends d. It is called with s.mu held, and unlocks it.
func (s *dials) drop(d *dial) {
	d.dropped = true // finish closes what is not there yet
	done := d.isDone()
	s.mu.Unlock()
	d.cancel()
	if done && d.conn != nil {
		_ = d.conn.Close()
	}
}

// removeLocked reports whether d was free.
func (s *dials) removeLocked(d *dial) bool {
	for i, one := range s.free {
		if one == d {
			d.timer.Stop()
			d.timer = nil
			s.free = append(s.free[:i:i], s.free[i+1:]...)
			return true
		}
	}
	return false
}

// close ends all that nobody waits for.
func (s *dials) close() {
	s.mu.Lock()
	s.closed = true
	for len(s.free) > 0 {
		d := s.free[0]
		s.removeLocked(d)
		s.drop(d)
		s.mu.Lock()
	}
	s.mu.Unlock()
}

// before reports whether d is to be claimed rather than other.
func (d *dial) before(other *dial) bool {
	rank := func(d *dial) int {
		switch {
		case d.isDone():
			return 0
		case time.Since(d.began) < freshFor:
			return 1
		}
		return 2
	}
	if a, b := rank(d), rank(other); a != b {
		return a < b
	}
	return d.began.Before(other.began)
}

func (d *dial) isDone() bool {
	select {
	case <-d.done:
		return true
	default:
		return false
	}
}
