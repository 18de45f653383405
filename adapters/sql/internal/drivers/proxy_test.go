package drivers

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// A proxy passes connections on to a server and counts the turns: how often a client
// began to write after it had read. Its methods may be called from any goroutine.
type proxy struct {
	listener net.Listener
	target   string
	turns    atomic.Int64
	conns    atomic.Int64
	deaf     atomic.Bool // new connections are accepted and not served
	lossy    atomic.Bool // nothing passes any more, and nothing is closed
	wait     sync.WaitGroup

	mu     sync.Mutex
	onSend func(p []byte) cut // guarded by mu; asked for all that clients send
}

// A cut says what becomes of something that a client sends.
type cut int

const (
	pass  cut = iota
	drop      // the connection ends, and the server gets nothing of it
	half      // the server gets half of it, then the connection ends
	after     // the server gets it, and the connection ends before its answer
)

func newProxy(tb testing.TB, target string) *proxy {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	p := &proxy{listener: listener, target: target}
	open := make(chan struct{})
	p.wait.Go(func() { p.accept(open) })
	tb.Cleanup(func() {
		close(open)
		listener.Close()
		p.wait.Wait()
	})
	return p
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

// sends has f decide about what clients send from now on.
func (p *proxy) sends(f func([]byte) cut) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.onSend = f
}

func (p *proxy) decide(b []byte) cut {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.onSend == nil {
		return pass
	}
	return p.onSend(b)
}

func (p *proxy) accept(open <-chan struct{}) {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.conns.Add(1)
		server := net.Conn(nil)
		if !p.deaf.Load() && !p.lossy.Load() {
			if server, err = net.Dial("tcp", p.target); err != nil {
				client.Close()
				continue
			}
		}
		over := make(chan struct{})
		p.wait.Go(func() {
			select {
			case <-open:
			case <-over:
			}
			client.Close()
			if server != nil {
				server.Close()
			}
		})
		if server == nil {
			continue
		}
		var once sync.Once
		end := func() { once.Do(func() { close(over) }) }
		var reading, mute atomic.Bool
		reading.Store(true)
		p.wait.Go(func() {
			defer end()
			p.pass(server, client, func(b []byte) ([]byte, bool) {
				if reading.Swap(false) {
					p.turns.Add(1)
				}
				switch p.decide(b) {
				case drop:
					return nil, false
				case half:
					return b[:len(b)/2], false
				case after:
					mute.Store(true)
					return b, false
				}
				return b, true
			})
		})
		p.wait.Go(func() {
			defer end()
			p.pass(client, server, func(b []byte) ([]byte, bool) {
				reading.Store(true)
				if mute.Load() {
					return nil, false
				}
				return b, true
			})
		})
	}
}

func (p *proxy) pass(to, from net.Conn, filter func([]byte) ([]byte, bool)) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && !p.lossy.Load() {
			b, on := filter(buf[:n])
			if len(b) > 0 {
				if _, err := to.Write(b); err != nil {
					return
				}
			}
			if !on {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
