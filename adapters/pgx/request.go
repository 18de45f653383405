package curfewpgx

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"time"
)

type requestKey struct{}

// A request is one cancel request: a connection of its own, or a place in a crowd. The server tells
// nothing about the former but that it closes the connection, which it does after it has
// signalled the backend.
type request struct {
	answered chan struct{} // closed when the call needs no cancel any more
	due      chan struct{} // closed when the request may be sent
	conn     net.Conn      // the call's, nil when that was given up
	longer   bounds        // if many are sent at once

	mu sync.Mutex
	bounds
	moot  bool        // guarded by mu: answered is closed
	sent  bool        // guarded by mu
	ended bool        // guarded by mu: the server has signalled
	stray bool        // guarded by mu: it was sent before, and nobody knows what became of that
	place *place      // guarded by mu: where it waits, nil when it has a connection of its own
	late  *time.Timer // guarded by mu: ends its connection when it is no longer sent; nil while it has none
}

type bounds struct {
	sendBy time.Time
	until  time.Time // the call's connection ends
}

// stretch gives the request the time that it has when many are sent at once.
func (r *request) stretch() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.conn == nil || r.moot {
		return
	}
	r.bounds = r.longer
	_ = r.conn.SetDeadline(r.until)
	if r.late != nil && r.late.Stop() {
		r.late.Reset(time.Until(r.sendBy))
	}
}

// context returns a ctx that ends when the request is no longer sent.
func (r *request) context(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	late := time.AfterFunc(time.Until(r.sendBy), cancel)
	r.late = late
	return ctx, func() {
		late.Stop()
		cancel()
	}
}

// isAnswered waits until at, and reports whether the call has its answer by then.
func (r *request) isAnswered(at time.Time) bool {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-r.answered:
		return true
	case <-timer.C:
		return false
	}
}

// limits returns how long the request may take.
func (r *request) limits() bounds {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bounds
}

// answer says that the call has its answer: a request not yet sent stays so.
func (r *request) answer() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.moot = true
	close(r.answered)
}

// mayStrike reports whether the request was sent and may still reach the server.
func (r *request) mayStrike() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stray || r.sent && !r.ended
}

// unheard reports of a request whose call was given up whether the server may never hear of it.
// One with a connection of its own is on its way, and left to it.
func (r *request) unheard() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.ended && (!r.sent || r.place != nil)
}

// begin notes that the request is being sent, and reports whether it is still needed.
func (r *request) begin() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent = r.sent || !r.moot
	return r.sent
}

// notSent undoes begin.
func (r *request) notSent() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent = false
}

// lost undoes begin for what may have been sent.
func (r *request) lost() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent, r.stray = false, true
}

func (r *request) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
}

// at notes where the request waits.
func (r *request) at(p *place) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.place = p
}

// heard waits for what becomes of the request, at most for linger, and reports whether the server
// has signalled.
func (r *request) heard() bool {
	r.mu.Lock()
	p := r.place
	r.mu.Unlock()
	if p != nil {
		late := time.NewTimer(linger)
		defer late.Stop()
		select {
		case <-p.done:
		case <-late.C:
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended
}

var errMoot = errors.New("curfewpgx: nothing left to cancel")

// requestConn carries a request. The driver itself does not look at how the
// connection ends, so this does.
type requestConn struct {
	net.Conn
	request  *request
	counters *counters
	wrote    bool
	once     sync.Once // of Close, which TLS and the driver both call
}

// Read notes the end that the server makes.
func (c *requestConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err == io.EOF {
		c.request.end()
	}
	return n, err
}

// Write waits until the request is due.
func (c *requestConn) Write(p []byte) (int, error) {
	select {
	case <-c.request.due:
	case <-c.request.answered:
	}
	if !c.request.begin() {
		return 0, errMoot
	}
	n, err := c.Conn.Write(p)
	if !c.wrote && n > 0 {
		c.wrote = true
		c.counters.requests.Add(1)
	}
	if !c.wrote && err != nil { // its time was over before the first byte
		c.request.notSent()
	}
	return n, err
}

// linger is how long a request that was given up is left open, and how long one that is sent
// behind the call may take. A pooler must
// not see it go first: pgbouncer 1.18 ended with "bad client state" when cancel connections
// were closed before it had passed the request on.
const linger = 10 * time.Second

// Close waits for the end that the server makes, until the request's time is
// up. After that the connection is closed behind the caller's back.
func (c *requestConn) Close() error {
	c.once.Do(func() {
		c.request.mu.Lock()
		open, until := c.request.sent && !c.request.ended, c.request.until
		c.request.mu.Unlock()
		if !open {
			_ = c.Conn.Close()
			return
		}
		if c.drain(until) {
			c.request.end()
			_ = c.Conn.Close()
			return
		}
		go func() {
			c.drain(time.Now().Add(linger))
			_ = c.Conn.Close()
		}()
	})
	return nil
}

// drain reads to the end of the connection and reports whether it came before until.
func (c *requestConn) drain(until time.Time) bool {
	if c.Conn.SetReadDeadline(until) != nil {
		return false
	}
	_, err := io.Copy(io.Discard, c.Conn)
	// TLS says goodbye to a server that may have gone, which answers with a reset.
	return err == nil || errors.Is(err, syscall.ECONNRESET)
}
