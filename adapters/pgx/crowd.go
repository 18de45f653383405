package curfewpgx

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// A crowd is the cancels of one configuration that are under way. A cancel request is
// a connection and a process of the server, and of hundreds at once none is ready in its share
// of the slush. So only a few are sent; more than these wait for one connection, over which
// statements signal all of them with pg_cancel_backend.
//
// Whom it signals is proven by the port of the client that the server sees: a process id
// alone is another's behind a pooler or a balancer. Who is not found there sends a request.
type crowd struct {
	config   *pgconn.Config // nil: nobody is found, as behind a pooler
	counters *counters

	mu     sync.Mutex
	inside int               // guarded by mu: calls that are being cancelled
	queues map[string]*queue // guarded by mu, by server; each has a goroutine
	blind  time.Time         // guarded by mu: nobody was found; not tried again until then
}

const (
	patient = 2 // calls at once that have no more time than one has
	few     = 4 // calls at once that have a connection each: a session costs a server as much as two, and is ready later
)

// A queue is those who wait for one server.
type queue struct {
	places []*place      // guarded by the crowd's mu
	more   chan struct{} // of capacity 1: somebody came since the last take
}

// A place is where a request waits in a queue.
type place struct {
	pid     uint32
	port    int // of the client
	request *request
	done    chan struct{} // closed when there is nothing more to wait for
	found   bool          // written before done is closed: it sends no request of its own
}

// newCrowd is called before cfg is changed.
func newCrowd(cfg *pgx.ConnConfig, pooler bool, n *counters) *crowd {
	c := &crowd{counters: n, queues: make(map[string]*queue)}
	if !pooler {
		c.config = cfg.Config.Copy()
		c.config.ValidateConnect, c.config.AfterConnect = nil, nil
	}
	return c
}

// join notes that a call is being cancelled, until it leaves.
func (c *crowd) join() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inside++
}

func (c *crowd) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inside--
}

// cancel asks the server to cancel what conn runs, and waits until it did or the time of r,
// which ctx carries, is over. server is conn's other end. The caller has joined.
func (c *crowd) cancel(ctx context.Context, conn *pgconn.PgConn, server net.Addr, r *request) {
	if p := c.enter(conn, server, r); p != nil && p.wait() {
		return
	}
	r.at(nil)
	ctx, cancel := r.context(ctx)
	defer cancel()
	_ = conn.CancelRequest(ctx) // r knows more of it than the error
}

// ahead begins the connection of a request that is not due yet, if r has one of its own. The first of what it
// returns waits until r is over and reports whether there was one; the second ends it. The caller has joined.
func (c *crowd) ahead(conn *pgconn.PgConn, r *request) (wait func() bool, cancel context.CancelFunc) {
	c.mu.Lock()
	own := c.inside <= few && c.config != nil // a pooler does not fork
	c.mu.Unlock()
	if !own {
		return func() bool { return false }, func() {}
	}
	ctx, cancel := r.context(context.WithValue(context.Background(), requestKey{}, r))
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = conn.CancelRequest(ctx)
	}()
	return func() bool {
		c.mu.Lock()
		many := c.inside > patient
		c.mu.Unlock()
		if many {
			r.stretch()
		}
		<-over
		return true
	}, cancel
}

// enter returns a place to wait at, or nil for one who sends a request of its own.
func (c *crowd) enter(conn *pgconn.PgConn, server net.Addr, r *request) *place {
	here, tcp := conn.Conn().LocalAddr().(*net.TCPAddr)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inside > patient {
		r.stretch()
	}
	if c.inside <= few || !tcp || c.config == nil || time.Now().Before(c.blind) {
		return nil
	}
	p := &place{pid: conn.PID(), port: here.Port, request: r, done: make(chan struct{})}
	r.at(p)
	q, running := c.queues[server.String()]
	if !running {
		q = &queue{more: make(chan struct{}, 1)}
		c.queues[server.String()] = q
		go c.run(q, server)
	}
	q.places = append(q.places, p)
	select {
	case q.more <- struct{}{}:
	default:
	}
	return p
}

// wait reports whether p needs no request of its own any more.
func (p *place) wait() bool {
	late := time.NewTimer(time.Until(p.request.limits().until))
	defer late.Stop()
	select {
	case <-p.done:
		return p.found
	case <-p.request.answered:
		if !p.request.mayStrike() {
			return true
		}
	case <-late.C:
		return true // there is no time for one
	}
	select {
	case <-p.done:
	case <-late.C:
	}
	return true
}

// take returns some of those who wait, and none when all have had their turn.
func (c *crowd) take(q *queue) []*place {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-q.more:
	default:
	}
	n := min(len(q.places), mostPlaces)
	places := q.places[:n]
	q.places = q.places[n:]
	return places
}

// quit reports whether q, where nobody waits, is not used any more.
func (c *crowd) quit(q *queue, server net.Addr) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(q.places) > 0 {
		return false
	}
	delete(c.queues, server.String())
	return true
}

// see notes that nobody will be found for a while.
func (c *crowd) see(nobody time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.blind = time.Now().Add(nobody)
}
