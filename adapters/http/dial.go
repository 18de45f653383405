package curfewhttp

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/curfew-go/curfew/budget"
)

// A Dialer makes an http.Transport's dials end with the request that asked for them.
// Those of net/http run on when a request has ended, since another one may find
// their connection useful: towards a peer that swallows packets they pile up. The
// DialContext of a Dialer goes into the http.Transport that is a Transport's Base;
// for requests that come by another way it only bounds.
//
//	base := http.DefaultTransport.(*http.Transport).Clone()
//	base.DialContext = (&curfewhttp.Dialer{Share: 0.3, Cap: time.Second}).DialContext
//	client := &http.Client{Transport: &curfewhttp.Transport{Base: base}}
//
// The zero Dialer is ready to use, and adds no bound but the request's end. It must
// not be changed while in use; many goroutines may share it.
type Dialer struct {
	// Dial makes the connection; that of a net.Dialer when nil.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Cap is the most time that a connection may take, with resolving its name and
	// its TLS handshake. Zero: as long as the request has; negative panics.
	Cap time.Duration
	// Share is how much of what is left to the request a connection may take, so that
	// there is time for another attempt; from 0 to 1, anything else panics. The
	// smaller one of Share and Cap counts. Zero: all.
	Share float64
}

// DialContext connects to addr, in a context that ends when ctx does, with the
// request, or when the connection takes more than its bound. That is a
// *budget.Cause of kind DependencyTimeout, whose Phase says how far it was. A TLS
// handshake that follows ends at the same time, with the error of a socket's timeout
// when it was the bound.
func (d *Dialer) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	if d.Cap < 0 {
		panic(fmt.Sprintf("curfewhttp: DialContext: negative Cap %v", d.Cap))
	}
	if !(d.Share >= 0 && d.Share <= 1) {
		panic(fmt.Sprintf("curfewhttp: DialContext: Share %v is not in [0, 1]", d.Share))
	}
	dial := d.Dial
	if dial == nil {
		dial = standard.DialContext
	}
	// net/http takes the end off the context, and leaves the values.
	a, _ := ctx.Value(outAttemptKey{}).(*outAttempt)
	request := ctx
	if a != nil {
		request = a.Context
		a.enter(phaseConnect)
	}
	if err := budget.Require(request, 0); err != nil {
		return nil, err
	}
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if a != nil {
		defer context.AfterFunc(request, func() { cancel(context.Cause(request)) })()
	}
	began := time.Now()
	bound, bounded := d.bound(request)
	late := &budget.Cause{Kind: budget.DependencyTimeout, Limit: "connect " + bound.String()}
	if bounded {
		defer time.AfterFunc(bound, func() { cancel(late) }).Stop()
	}
	conn, err := dial(inner, network, addr)
	if err != nil {
		switch cause := context.Cause(inner); {
		case cause == late:
			c := *late // which the contexts of a dial that goes on still have
			if c.Phase = phaseNames[phaseConnect]; a != nil {
				c.Phase = a.phaseName()
			}
			return nil, &c
		case cause != nil:
			return nil, cause
		}
		return nil, err
	}
	if a != nil && a.secure {
		a.guard(conn, began, bound, bounded)
	}
	return conn, nil
}

// standard dials as http.DefaultTransport does, but for its timeout.
var standard = net.Dialer{KeepAlive: 30 * time.Second}

// bound returns the most time that a connection for request may take.
func (d *Dialer) bound(request context.Context) (time.Duration, bool) {
	bound, ok := d.Cap, d.Cap > 0
	if left, bounded := budget.Remaining(request); bounded && d.Share > 0 {
		if share := time.Duration(float64(left) * d.Share); !ok || share < bound {
			bound, ok = share, true
		}
	}
	return bound, ok
}

// guard ends conn with the attempt, or when its bound has passed, while its TLS
// handshake goes on. net/http bounds that by a time of its own alone.
func (a *outAttempt) guard(conn net.Conn, began time.Time, bound time.Duration, bounded bool) {
	if bounded {
		conn.SetDeadline(began.Add(bound)) // a connection without deadlines has no bound
	}
	stop := context.AfterFunc(a.Context, func() { conn.Close() })
	free := sync.OnceFunc(func() {
		stop()
		if bounded {
			conn.SetDeadline(time.Time{})
		}
	})
	a.mu.Lock()
	a.dialled = append(a.dialled, free)
	a.mu.Unlock()
}
