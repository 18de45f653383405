// Package pgtest holds what tests of the PostgreSQL adapter share.
package pgtest

import (
	"bytes"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// A Proxy passes connections on to a server and counts the turns: how often a
// client began to write after it had read. Its methods may be called from any
// goroutine.
type Proxy struct {
	listener net.Listener
	target   string
	turns    atomic.Int64
	conns    atomic.Int64
	deaf     atomic.Bool
	cut      atomic.Int32
	wait     sync.WaitGroup
}

// NewProxy starts a proxy in front of the address target. It ends with the test.
func NewProxy(tb testing.TB, target string) *Proxy {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &Proxy{listener: listener, target: target}
	open := make(chan struct{})
	p.wait.Go(func() { p.accept(open) })
	tb.Cleanup(func() {
		close(open)
		listener.Close()
		p.wait.Wait()
	})
	return p
}

// Addr returns where the proxy listens, as host:port.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Turns returns how many turns there were so far, on all connections.
func (p *Proxy) Turns() int64 { return p.turns.Load() }

// Conns returns how many connections were made so far.
func (p *Proxy) Conns() int64 { return p.conns.Load() }

// Deafen has new connections accepted and never served, as behind a firewall
// that drops their packets. Those there are go on.
func (p *Proxy) Deafen() { p.deaf.Store(true) }

// A Cut is how a Proxy ends the connection of a client that commits.
type Cut int32

const (
	None        Cut = iota
	Before          // COMMIT does not reach the server
	Half            // a part of it does
	During          // it does, and both ends are closed at once
	After           // its answer is lost
	Stalled         // its answer is held back, and the connection stays
	HeldRequest     // COMMIT is held back, and the connection stays
)

// CutAtCommit has the connection that sends the next COMMIT ended so.
func (p *Proxy) CutAtCommit(how Cut) { p.cut.Store(int32(how)) }

func (p *Proxy) accept(open <-chan struct{}) {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.conns.Add(1)
		server := net.Conn(nil)
		if !p.deaf.Load() {
			if server, err = net.Dial("tcp", p.target); err != nil {
				client.Close()
				continue
			}
		}
		p.wait.Go(func() { // the test's end ends both
			<-open
			client.Close()
			if server != nil {
				server.Close()
			}
		})
		if server != nil {
			l := &link{proxy: p, client: client, server: server}
			l.reading.Store(true)
			p.wait.Go(l.up)
			p.wait.Go(l.down)
		}
	}
}

// A link is one client's connection.
type link struct {
	proxy          *Proxy
	client, server net.Conn
	reading        atomic.Bool
	lose           atomic.Int32 // After or Stalled, once COMMIT was passed on
}

// up passes on what the client writes.
func (l *link) up() {
	defer l.server.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := l.client.Read(buf)
		if n > 0 {
			if l.reading.Swap(false) {
				l.proxy.turns.Add(1)
			}
			if !l.pass(buf[:n]) {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (l *link) pass(p []byte) bool {
	if bytes.Contains(p, []byte("commit\x00")) {
		switch how := Cut(l.proxy.cut.Swap(int32(None))); how {
		case Before:
			l.client.Close()
			return false
		case HeldRequest:
			return true
		case Half:
			_, _ = l.server.Write(p[:len(p)-3])
			l.client.Close()
			return false
		case During:
			_, _ = l.server.Write(p)
			l.client.Close()
			return false
		case After, Stalled:
			l.lose.Store(int32(how))
		}
	}
	_, err := l.server.Write(p)
	return err == nil
}

// down passes on what the server writes.
func (l *link) down() {
	defer l.client.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := l.server.Read(buf)
		if n > 0 {
			l.reading.Store(true)
			switch Cut(l.lose.Load()) {
			case After:
				if bytes.Contains(buf[:n], []byte("COMMIT\x00")) {
					return
				}
			case Stalled:
			default:
				if _, err := l.client.Write(buf[:n]); err != nil {
					return
				}
			}
		}
		if err != nil {
			return
		}
	}
}
