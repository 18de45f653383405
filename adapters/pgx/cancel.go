package curfewpgx

import (
	"context"
	"errors"
	"math"
	"net"
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
// A request is a connection for which the server forks, and that is most of the time that it takes. So the
// connection is begun a tenth of the way to it, and closed if the answer comes before the request is due.
// Where more than two calls are cancelled at once, all of it takes up to five times as long, a second
// at most and never beyond the deadline. A request that was not ready in time is sent when the
// connection is given up. At a deadline that the server knows, the middle ones are left out. An answer at any
// step ends the climb, but for a request already sent: its end is awaited until the socket's. The driver
// calls the two methods in turn, never at once.
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
	last := began.Add(max(l.patience(), min(manyTimes*l.patience(), time.Second)))
	forDeadline := errors.Is(ctx.Err(), context.DeadlineExceeded)
	if call.slush > 0 {
		// Timers come late on a busy machine. That shortens the steps, not the caller's time.
		if at, ok := call.user.Deadline(); ok {
			if forDeadline || at.Before(end) {
				end = at
			}
			if forDeadline || at.Before(last) {
				last = at
			}
		}
	}
	if least := began.Add(leastLimit); end.Before(least) {
		end = least
	}
	if last.Before(end) {
		last = end
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
	sendBy := func(end time.Time) time.Time { return began.Add(end.Sub(began) * 60 / 100) }
	r := &request{
		answered: make(chan struct{}),
		due:      make(chan struct{}),
		conn:     l.conn.Conn(),
		longer:   bounds{sendBy(last), last},
		bounds:   bounds{sendBy(end), end},
	}
	l.request, l.done = r, make(chan struct{})
	slush := end.Sub(began)
	l.crowd.join()
	go func() {
		defer close(l.done)
		defer l.crowd.leave()
		grace := slush * 20 / 100
		if r.isAnswered(began.Add(grace / 10)) {
			return
		}
		ahead, cancel := l.crowd.ahead(l.conn, r)
		defer cancel()
		if r.isAnswered(began.Add(grace)) {
			cancel()
			ahead()
			return
		}
		if s != nil && !forDeadline {
			s.Cancelling()
		}
		close(r.due)
		if !ahead() {
			l.crowd.cancel(context.WithValue(context.Background(), requestKey{}, r), l.conn, server, r)
		}
	}()
}

// manyTimes is how much longer the steps may take when many are cancelled at once. To give up a
// connection and log in anew costs a server what a hundred cancels cost, so that those who
// gave theirs up are what the others wait for (docs/decisions/pgx.md).
const manyTimes = 5

// HandleUnwatchAfterCancel ends the climb. It returns once no cancel request is
// under way; after one whose end was not seen the connection is closed.
func (l *ladder) HandleUnwatchAfterCancel() {
	if l.request != nil {
		l.request.answer()
		<-l.done
		s, ours := l.conn.Conn().(*stream.Conn)
		// Where we close the connection the driver sends no request of its own.
		unheard := ours && l.request.unheard() && (s.Lost() != nil || s.Unended() && l.request.mayStrike())
		if l.request.mayStrike() || l.request.unheard() && !time.Now().Before(l.request.limits().until) {
			l.crowd.counters.unheard.Add(1)
		}
		if unheard {
			go l.cancelBehind(s.Conn.RemoteAddr(), l.request)
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
func (l *ladder) cancelBehind(server net.Addr, before *request) {
	if before.heard() {
		return
	}
	end := time.Now().Add(linger) // nobody waits for it
	r := &request{answered: make(chan struct{}), due: make(chan struct{}), bounds: bounds{end, end}}
	close(r.due)
	l.crowd.join()
	defer l.crowd.leave()
	l.crowd.cancel(context.WithValue(context.Background(), serverKey{}, server), l.conn, server, r)
}

// serverKey is the key of the server's address, which a connection that was given up does not tell.
type serverKey struct{}

// patience is the slush of a call that has no deadline.
func (l *ladder) patience() time.Duration {
	d := l.slush.Of(math.MaxInt64)
	return min(max(d, leastLimit), time.Second)
}
