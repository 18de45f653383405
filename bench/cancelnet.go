package bench

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"time"
)

// netCase parks tasks in reads of TCP connections on the loopback interface, each
// of which the end of its task's context interrupts by a deadline in the past.
func netCase(n, named int) Case {
	over := func(name string, start canceller) System {
		return System{name, func() Work {
			conns, stop := connections(n)
			var next atomic.Int64
			return Work{
				Sample: func() []Metric {
					next.Store(0)
					return measure(n, patience, start, func(ctx context.Context, release <-chan struct{}) bool {
						return readUntil(ctx, conns[next.Add(1)-1])
					})
				},
				Close: stop,
			}
		}}
	}
	return Case{
		Name: fmt.Sprintf("%d in network reads", named), Parent: "background", Main: "returned-ns", Spread: []string{"observed-ns"},
		Systems: []System{over("curfew", cancelScope), over("errgroup", cancelErrgroup), over("conc", cancelConc)},
	}
}

func readUntil(ctx context.Context, c net.Conn) bool {
	must(c.SetReadDeadline(time.Now().Add(patience)))
	stop := context.AfterFunc(ctx, func() { _ = c.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	_, _ = c.Read(make([]byte, 1))
	return ctx.Err() != nil
}

// connections opens n connections to a listener that accepts and says nothing.
func connections(n int) ([]net.Conn, func()) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	var open []net.Conn
	var mine []net.Conn
	for range n {
		c, err := net.Dial("tcp", l.Addr().String())
		must(err)
		peer, err := l.Accept()
		must(err)
		mine, open = append(mine, c), append(open, c, peer)
	}
	return mine, func() {
		for _, c := range open {
			_ = c.Close()
		}
		_ = l.Close()
	}
}
