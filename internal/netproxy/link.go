package netproxy

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A link is one client's connection.
type link struct {
	proxy          *Proxy
	client, server net.Conn // no server behind a deaf proxy
	listening      atomic.Bool
	answers        atomic.Int32 // the Fate of what comes back, if not Pass
	once           sync.Once
}

// end closes both ends.
func (l *link) end() {
	l.once.Do(func() {
		_ = l.client.Close()
		if l.server != nil {
			_ = l.server.Close()
		}
	})
}

func (l *link) over() {
	l.end()
	l.proxy.mu.Lock()
	defer l.proxy.mu.Unlock()
	delete(l.proxy.open, l)
}

func (l *link) up() {
	defer l.over()
	l.pump(l.server, l.client, func(b []byte) Fate {
		if l.listening.Swap(false) {
			l.proxy.turns.Add(1)
		}
		fate := l.proxy.ask(&l.proxy.onSend, b)
		switch fate {
		case Unanswered:
			l.answers.Store(int32(Drop))
			return Pass
		case Silenced:
			l.answers.Store(int32(Lost))
			return Pass
		}
		return fate
	})
}

func (l *link) down() {
	defer l.over()
	l.pump(l.client, l.server, func(b []byte) Fate {
		l.listening.Store(true)
		if fate := Fate(l.answers.Load()); fate != Pass {
			return fate
		}
		return l.proxy.ask(&l.proxy.onAnswer, b)
	})
}

// ask asks the function in f, which mu guards.
func (p *Proxy) ask(f *func([]byte) Fate, b []byte) Fate {
	p.mu.Lock()
	defer p.mu.Unlock()
	if *f == nil {
		return Pass
	}
	return (*f)(b)
}

// pump passes on what from says, as fate has it, until one of both is at its end.
func (l *link) pump(to, from net.Conn, fate func([]byte) Fate) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && !l.proxy.lossy.Load() {
			b, goesOn := buf[:n], true
			switch fate(b) {
			case Drop:
				return
			case Half:
				b, goesOn = b[:n-min(3, (n+1)/2)], false
			case Last:
				goesOn = false
			case Lost:
				b = nil
			}
			if d := time.Duration(l.proxy.delay.Load()); d > 0 {
				time.Sleep(d)
			}
			if _, err := to.Write(b); err != nil || !goesOn {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
