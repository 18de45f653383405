// Package netproxy stands between a client and a server in tests: it counts how often
// they take turns, and has the network fail in the ways that networks do.
package netproxy

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A Proxy passes connections on to a server. Its methods may be called from any
// goroutine, and what they change holds for connections that are open, too.
type Proxy struct {
	listener net.Listener
	target   string
	turns    atomic.Int64
	conns    atomic.Int64
	deaf     atomic.Bool
	lossy    atomic.Bool
	delay    atomic.Int64 // nanoseconds
	wait     sync.WaitGroup

	mu       sync.Mutex
	onSend   func([]byte) Fate // guarded by mu, as all below
	onAnswer func([]byte) Fate
	open     map[*link]bool
	ended    bool
}

// A Fate says what becomes of something that one side wrote.
type Fate int

const (
	// Pass passes it on.
	Pass Fate = iota
	// Drop ends the connection, and nothing of it arrives.
	Drop
	// Half passes on all but the last bytes, up to half of it, and ends the connection.
	Half
	// Last passes it on and ends the connection at once.
	Last
	// Unanswered passes it on and ends the connection instead of what comes back first.
	Unanswered
	// Silenced passes it on. What comes back from then on is lost, and the connection stays.
	Silenced
	// Lost loses it, and the connection stays.
	Lost
)

// New starts a Proxy in front of the address target. It ends with the test, and all
// its connections with it.
func New(tb testing.TB, target string) *Proxy {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("netproxy: New: %v", err)
	}
	p := &Proxy{listener: listener, target: target, open: map[*link]bool{}}
	p.wait.Go(p.accept)
	tb.Cleanup(func() {
		_ = listener.Close()
		p.mu.Lock()
		p.ended = true
		p.mu.Unlock()
		p.each((*link).end)
		p.wait.Wait()
	})
	return p
}

// Addr returns where the proxy listens, as host:port.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Turns returns how many turns there were so far, on all connections: how often a
// client began to write after it had read.
func (p *Proxy) Turns() int64 { return p.turns.Load() }

// Conns returns how many connections were made so far.
func (p *Proxy) Conns() int64 { return p.conns.Load() }

// Deafen has new connections accepted and never served, as behind a firewall that
// drops their packets, until it is called with false. Those there are go on.
func (p *Proxy) Deafen(deaf bool) { p.deaf.Store(deaf) }

// Lose has nothing pass any more, on no connection, until it is called with false.
// Nothing is closed. What was lost meanwhile stays so.
func (p *Proxy) Lose(lossy bool) { p.lossy.Store(lossy) }

// Delay has all that is written arrive d later than it would.
func (p *Proxy) Delay(d time.Duration) { p.delay.Store(int64(d)) }

// OnSend has f decide about what clients write, piece by piece as the network brings
// it. A nil f lets all pass. f is never called twice at once, and must not call p.
func (p *Proxy) OnSend(f func([]byte) Fate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.onSend = f
}

// OnAnswer is OnSend for what the server writes.
func (p *Proxy) OnAnswer(f func([]byte) Fate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.onAnswer = f
}

// Cut ends all connections that are open.
func (p *Proxy) Cut() { p.each((*link).end) }

// Reset ends all connections that are open so that clients read a reset.
func (p *Proxy) Reset() {
	p.each(func(l *link) {
		if tcp, ok := l.client.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		l.end()
	})
}

func (p *Proxy) each(f func(*link)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.open {
		f(l)
	}
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.conns.Add(1)
		l := &link{proxy: p, client: client}
		if !p.deaf.Load() {
			if l.server, err = net.Dial("tcp", p.target); err != nil {
				_ = client.Close()
				continue
			}
		}
		p.mu.Lock()
		if p.ended {
			l.end()
		}
		p.open[l] = true
		p.mu.Unlock()
		if l.server != nil {
			l.listening.Store(true)
			p.wait.Go(l.up)
			p.wait.Go(l.down)
		}
	}
}
