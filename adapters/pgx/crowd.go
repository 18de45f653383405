package curfewpgx

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// A crowd is the cancels of one configuration that are under way. A cancel request is
// a connection and a process of the server, and of hundreds at once none is ready in its share
// of the slush. So only a few are sent; the others wait for one connection, over which a
// statement signals all of them with pg_cancel_backend.
//
// Whom it signals is proven by the port of the client that the server sees: a process id
// alone is another's behind a pooler or a balancer. Who is not found there sends a request.
type crowd struct {
	config *pgconn.Config // nil: nobody is found, as behind a pooler

	mu      sync.Mutex
	alone   int                 // guarded by mu: requests being sent
	waiting map[string][]*place // guarded by mu, by server; one that is there has a goroutine
	blind   time.Time           // guarded by mu: nobody was found; not tried again until then
}

const (
	fewAlone  = 2
	blindness = time.Minute
	mostPlace = 500 // in one statement
)

// A place is where a request waits in a crowd.
type place struct {
	pid     uint32
	port    int // of the client
	request *request
	done    chan struct{} // closed when there is nothing more to wait for
	found   bool          // written before done is closed: it sends no request of its own
}

// newCrowd is called before cfg is changed.
func newCrowd(cfg *pgx.ConnConfig, pooler bool) *crowd {
	c := &crowd{waiting: make(map[string][]*place)}
	if !pooler {
		c.config = cfg.Config.Copy()
		c.config.ValidateConnect, c.config.AfterConnect = nil, nil
	}
	return c
}

// cancel asks the server to cancel what conn runs, and waits until it did or ctx, of
// which r is the request, is over. server is conn's other end.
func (c *crowd) cancel(ctx context.Context, conn *pgconn.PgConn, server net.Addr, r *request) {
	p, alone := c.enter(conn, server, r)
	if p != nil && p.wait(ctx) {
		return
	}
	if alone {
		defer c.leave()
	}
	_ = conn.CancelRequest(ctx) // r knows more of it than the error
}

// enter returns a place to wait at, or reports that the request is one of few.
func (c *crowd) enter(conn *pgconn.PgConn, server net.Addr, r *request) (p *place, alone bool) {
	here, tcp := conn.Conn().LocalAddr().(*net.TCPAddr)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.alone < fewAlone {
		c.alone++
		return nil, true
	}
	if !tcp || c.config == nil || time.Now().Before(c.blind) {
		return nil, false
	}
	p = &place{pid: conn.PID(), port: here.Port, request: r, done: make(chan struct{})}
	waiting, running := c.waiting[server.String()]
	c.waiting[server.String()] = append(waiting, p)
	if !running {
		go c.run(server)
	}
	return p, false
}

func (c *crowd) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.alone--
}

// wait reports whether p needs no request of its own any more.
func (p *place) wait(ctx context.Context) bool {
	select {
	case <-p.done:
		return p.found
	case <-p.request.answered:
	case <-ctx.Done():
	}
	if p.request.mayStrike() {
		late := time.NewTimer(time.Until(p.request.until))
		defer late.Stop()
		select {
		case <-p.done:
		case <-late.C:
		}
	}
	return true // there is no time for one, or no need
}

// run serves those who wait for server, and ends when nobody does.
func (c *crowd) run(server net.Addr) {
	ctx, cancel := context.WithTimeout(context.Background(), linger)
	defer cancel()
	conn, err := pgconn.ConnectConfig(ctx, c.configFor(server))
	for {
		places := c.take(server)
		if len(places) == 0 {
			break
		}
		found := 0
		if err == nil {
			found, err = signal(ctx, conn, places)
		}
		if found == 0 {
			c.mu.Lock()
			c.blind = time.Now().Add(blindness)
			c.mu.Unlock()
		}
		for _, p := range places {
			close(p.done)
		}
	}
	if conn != nil {
		_ = conn.Close(ctx)
	}
}

// configFor is for the very server, whatever names lead to it.
func (c *crowd) configFor(server net.Addr) *pgconn.Config {
	config := c.config.Copy()
	host, port, _ := net.SplitHostPort(server.String())
	n, _ := strconv.ParseUint(port, 10, 16)
	config.Host, config.Port = host, uint16(n)
	for _, f := range config.Fallbacks { // with TLS and without
		f.Host, f.Port = config.Host, config.Port
	}
	config.LookupFunc = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil }
	return config
}

// take returns some of those who wait, and none when all have had their turn.
func (c *crowd) take(server net.Addr) []*place {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.waiting[server.String()]
	places := all[:min(len(all), mostPlace)]
	if len(places) == 0 {
		delete(c.waiting, server.String())
		return nil
	}
	c.waiting[server.String()] = all[len(places):]
	return places
}

// signal has the server signal all whose calls still need it, and returns how many need no
// request of their own. A request whose signal is not certain stays one that may strike.
func signal(ctx context.Context, conn *pgconn.PgConn, places []*place) (found int, err error) {
	var values strings.Builder
	sent := make(map[uint32]*place, len(places))
	for _, p := range places {
		if !p.request.begin() {
			p.found = true
			continue
		}
		if len(sent) > 0 {
			values.WriteByte(',')
		}
		fmt.Fprintf(&values, "(%d,%d)", p.pid, p.port)
		sent[p.pid] = p
	}
	if len(sent) == 0 {
		return len(places), nil
	}
	results, err := conn.Exec(ctx, "select a.pid, pg_catalog.pg_cancel_backend(a.pid)"+
		" from pg_catalog.pg_stat_activity a join (values "+values.String()+") v (pid, port)"+
		" on a.pid = v.pid and a.client_port = v.port").ReadAll()
	if err != nil {
		// The server may hear of it yet, whatever a request of their own did meanwhile.
		for _, p := range sent {
			p.found = true
		}
		return 0, err
	}
	for _, row := range results[0].Rows {
		pid, err := strconv.ParseUint(string(row[0]), 10, 32)
		if p := sent[uint32(pid)]; err == nil && p != nil {
			p.found = true
			p.request.end()
			delete(sent, p.pid)
		}
	}
	for _, p := range sent {
		p.request.notSent()
	}
	return len(places) - len(sent), nil
}
