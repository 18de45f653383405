package curfewpgx

import (
	"context"
	"errors"
	"io"
	"math"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/curfew-go/curfew/adapters/pgx/internal/stream"
	"github.com/curfew-go/curfew/budget/wire"
)

// ladder is what happens to a running call whose ctx has ended. Its steps are
// shares of the slush:
//
//	ended ──20%──▶ cancel request ──40%──▶ no longer sent ──40%──▶ socket ends
//
// A request that was not ready in time is sent when the connection is given up.
// At a deadline that the server knows, the middle ones are left out. An answer at any step ends the climb, but for a request already sent: its end is
// awaited until the socket's. The driver calls the two methods in turn, never at once.
type ladder struct {
	conn  *pgconn.PgConn
	slush wire.Slush
	crowd *crowd

	request *request
	done    chan struct{} // closed when the request is over
}

// HandleCancel begins the climb and returns at once.
func (l *ladder) HandleCancel(ctx context.Context) {
	began := time.Now()
	call, traced := ctx.Value(callKey{}).(*call)
	s, _ := l.conn.Conn().(*stream.Conn)
	l.request = nil
	if !traced {
		if s != nil && s.Pinging() {
			s.Ended(ctx.Err())
			s.Alone()
		}
		// WaitForNotification, where there is nothing to cancel, a pool's ping, what is sent by
		// PgConn: ended as pgx itself does. A pool puts a connection back when its
		// ping went well, also one that we would have closed behind it.
		_ = l.conn.Conn().SetDeadline(began)
		return
	}
	end := began.Add(l.patience())
	forDeadline := errors.Is(ctx.Err(), context.DeadlineExceeded)
	if call.slush > 0 {
		// Timers come late on a busy machine. That shortens the steps, not the caller's time.
		if at, ok := call.user.Deadline(); ok && (forDeadline || at.Before(end)) {
			end = at
		}
	}
	if least := began.Add(leastLimit); end.Before(least) {
		end = least
	}
	if s != nil {
		s.Ended(ctx.Err())
	}
	_ = l.conn.Conn().SetDeadline(end)
	if s != nil && forDeadline && s.Limited() {
		// The server's limit and a cancel request end a statement by the same interrupt. Where
		// one is not heard in time the other is not, and a hundred deadlines at
		// once are a hundred connections on a server that has enough to do.
		s.Alone()
		return
	}

	server := l.conn.Conn().RemoteAddr()
	if s != nil {
		server = s.Conn.RemoteAddr()
	}
	r := &request{answered: make(chan struct{}), until: end}
	l.request, l.done = r, make(chan struct{})
	slush := end.Sub(began)
	go func() {
		defer close(l.done)
		grace := time.NewTimer(slush * 20 / 100)
		defer grace.Stop()
		select {
		case <-r.answered:
			return
		case <-grace.C:
		}
		if s != nil && !forDeadline {
			s.Cancelling()
		}
		ctx, cancel := context.WithDeadline(context.WithValue(context.Background(), requestKey{}, r), began.Add(slush*60/100))
		defer cancel()
		l.crowd.cancel(ctx, l.conn, server, r)
	}()
}

// HandleUnwatchAfterCancel ends the climb. It returns once no cancel request is
// under way; after one whose end was not seen the connection is closed.
func (l *ladder) HandleUnwatchAfterCancel() {
	if l.request != nil {
		l.request.answer()
		<-l.done
		s, ours := l.conn.Conn().(*stream.Conn)
		unheard := ours && l.request.unheard()
		if unheard {
			go l.cancelBehind(s.Conn.RemoteAddr())
		}
		if unheard || l.request.mayStrike() {
			// With the background context Close does not come back to the watcher
			// that is calling us. What it writes is bounded by the socket's deadline.
			_ = l.conn.Close(context.Background())
			return
		}
	}
	if !l.conn.IsClosed() { // the driver may be closing it, under a deadline of its own
		_ = l.conn.Conn().SetDeadline(time.Time{})
	}
}

// cancelBehind sends the cancel request that there was no time for: many calls that end
// at once are many requests, and on a busy machine none of them is ready in its share of the
// slush. Without it the server works on until its own limit. The request can hit no other
// statement, since the connection is given up.
func (l *ladder) cancelBehind(server net.Addr) {
	r := &request{answered: make(chan struct{}), until: time.Now().Add(linger)} // nobody waits for it
	ctx, cancel := context.WithDeadline(context.WithValue(context.Background(), serverKey{}, server), r.until)
	defer cancel()
	l.crowd.cancel(ctx, l.conn, server, r)
}

// serverKey is the key of the server's address, which a connection that was given up does not tell.
type serverKey struct{}

// patience is the slush of a call that has no deadline.
func (l *ladder) patience() time.Duration {
	d := l.slush.Of(math.MaxInt64)
	return min(max(d, leastLimit), time.Second)
}

type requestKey struct{}

// A request is one cancel request. The server tells nothing about it but that it
// closes its connection, which it does after it has signalled the backend.
type request struct {
	answered chan struct{} // closed when the call needs no cancel any more
	until    time.Time

	mu    sync.Mutex
	moot  bool // guarded by mu: answered is closed
	sent  bool // guarded by mu
	ended bool // guarded by mu: the server closed the connection
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
	return r.sent && !r.ended
}

// unheard reports whether the call's time is over and no request was sent.
func (r *request) unheard() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.sent && !time.Now().Before(r.until)
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

func (r *request) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
}

var errMoot = errors.New("curfewpgx: nothing left to cancel")

// requestConn carries a request. The driver itself does not look at how the
// connection ends, so this does.
type requestConn struct {
	net.Conn
	request *request
	wrote   bool
	once    sync.Once // of Close, which TLS and the driver both call
}

// Read notes the end that the server makes.
func (c *requestConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err == io.EOF {
		c.request.end()
	}
	return n, err
}

func (c *requestConn) Write(p []byte) (int, error) {
	if !c.request.begin() {
		return 0, errMoot
	}
	n, err := c.Conn.Write(p)
	c.wrote = c.wrote || n > 0
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
		open := c.request.sent && !c.request.ended
		c.request.mu.Unlock()
		if !open {
			_ = c.Conn.Close()
			return
		}
		if c.drain(c.request.until) {
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
