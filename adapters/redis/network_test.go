package curfewredis_test

import (
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"
)

// A network lies between members and a server, and does to what they say what it
// is told to.
type network struct {
	addr string

	mu    sync.Mutex
	mode  mode   // under mu, as up
	up    string // the server's address
	conns map[net.Conn]bool
}

type mode int

const (
	pass           mode = iota
	swallow             // nothing reaches the server, and connections stay open
	loseReplies         // one in three
	repeatReplies       // one in three
	repeatRequests      // one in three: what the client has said at once
	delayRequests       // one in three, until nobody waits for it any more
)

func newNetwork(t testing.TB, up string) *network {
	n := &network{up: up, conns: map[net.Conn]bool{}}
	n.addr = listen(t, n.serve)
	return n
}

func (n *network) set(m mode) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mode = m
}

// to leads to another server, and cuts all connections to the one before.
func (n *network) to(up string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.up = up
	for c := range n.conns {
		_ = c.Close()
	}
}

func (n *network) now() mode {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.mode
}

func (n *network) serve(conn net.Conn) {
	n.mu.Lock()
	to := n.up
	n.mu.Unlock()
	up, err := net.DialTimeout("tcp", to, 10*time.Second) // a frozen server may have no room
	if err != nil {
		return
	}
	n.mu.Lock()
	n.conns[up] = true
	moved := n.up != to
	n.mu.Unlock()
	if moved {
		_ = up.Close()
	}
	defer func() {
		n.mu.Lock()
		delete(n.conns, up)
		n.mu.Unlock()
		_ = up.Close()
	}()
	go func() {
		defer conn.Close()
		n.copy(conn, up, func(m mode) (times int, late time.Duration) {
			switch {
			case m == loseReplies && rand.IntN(3) == 0:
				return 0, 0
			case m == repeatReplies && rand.IntN(3) == 0:
				return 2, 0
			}
			return 1, 0
		})
	}()
	n.copy(up, conn, func(m mode) (times int, late time.Duration) {
		switch {
		case m == swallow:
			return 0, 0
		case m == repeatRequests && rand.IntN(3) == 0:
			return 2, 0
		case m == delayRequests && rand.IntN(3) == 0:
			return 1, rand.N(300 * time.Millisecond)
		}
		return 1, 0
	})
}

// copy brings what src says to dst, as often and as late as fate has it.
func (n *network) copy(dst io.Writer, src io.Reader, fate func(mode) (times int, late time.Duration)) {
	buffer := make([]byte, 16384)
	for {
		k, err := src.Read(buffer)
		if err != nil {
			return
		}
		times, late := fate(n.now())
		if late > 0 {
			time.Sleep(late) // in real time: it is the network's
		}
		for range times {
			if _, err := dst.Write(buffer[:k]); err != nil {
				return
			}
		}
	}
}
