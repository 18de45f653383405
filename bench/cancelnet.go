package bench

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
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
		Name: fmt.Sprintf("%d in network reads", named), Parent: "background", Main: "returned-ns",
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

// deadlineCase lets the deadline end n parked tasks: late-ns is from the instant of
// the deadline until the last of them has observed it, returned-ns until the group
// returned. A sample whose tasks were not all parked in time is left out.
func deadlineCase(n, named int) Case {
	until := func(name string, start func(at time.Time, n int, task func(context.Context) error)) System {
		return System{name, func() Work {
			return Work{Sample: func() []Metric {
				var parked, left atomic.Int64
				left.Store(int64(n))
				var seen time.Time
				at := time.Now().Add(20*time.Millisecond + time.Duration(n)*2*time.Microsecond)
				var late atomic.Bool
				start(at, n, func(ctx context.Context) error {
					if parked.Add(1); time.Until(at) < time.Millisecond {
						late.Store(true)
					}
					<-ctx.Done()
					if left.Add(-1) == 0 {
						seen = time.Now()
					}
					return ctx.Err()
				})
				if late.Load() || parked.Load() < int64(n) {
					return nil
				}
				return []Metric{{"late-ns", float64(seen.Sub(at))}, {"returned-ns", float64(time.Since(at))}}
			}}
		}}
	}
	return Case{
		Name: fmt.Sprintf("%d until the deadline", named), Parent: "background", Main: "returned-ns",
		Systems: []System{
			until("curfew", func(at time.Time, n int, task func(context.Context) error) {
				_ = scope.Run(context.Background(), "bench", budget.Until(at), func(_ context.Context, s *scope.Scope) error {
					for range n {
						s.Go("task", task)
					}
					return nil
				})
			}),
			until("errgroup", func(at time.Time, n int, task func(context.Context) error) {
				ctx, cancel := context.WithDeadline(context.Background(), at)
				defer cancel()
				g, ctx := errgroup.WithContext(ctx)
				for range n {
					g.Go(func() error { return task(ctx) })
				}
				_ = g.Wait()
			}),
		},
	}
}
