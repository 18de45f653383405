package curfewhttp

import (
	"context"
	"crypto/tls"
	"net/http/httptrace"
	"time"

	"github.com/curfew-go/curfew/budget/ledger"
)

// An outPhase is how far an attempt is. Connecting may go through its phases in any
// order, as addresses are tried.
type outPhase uint8

const (
	phaseNone outPhase = iota // the base does not say
	phasePool
	phaseResolve
	phaseConnect
	phaseTLS
	phaseWrite
	phaseFirstByte
	phaseBody
)

var phaseNames = [...]string{"", "pool_wait", "resolve", "connect", "tls", "write", "first_byte", "body"}

// traced returns the attempt's context with the hooks that keep phase, beside those
// that the request brings.
func (a *outAttempt) traced() context.Context {
	return httptrace.WithClientTrace(a, &httptrace.ClientTrace{
		GetConn:           func(string) { a.enter(phasePool) },
		DNSStart:          func(httptrace.DNSStartInfo) { a.enter(phaseResolve) },
		ConnectStart:      func(string, string) { a.enter(phaseConnect) },
		TLSHandshakeStart: func() { a.enter(phaseTLS) },
		TLSHandshakeDone:  func(_ tls.ConnectionState, err error) { a.handshaken(err) },
		GotConn: func(httptrace.GotConnInfo) {
			a.enter(phaseWrite)
			// A free connection may be long in coming. What is left is said when it
			// is there, before the head is written, and again for another one.
			if a.told {
				a.header.Set(Header, a.t.leftNow(a.Context))
			}
		},
		WroteRequest: func(info httptrace.WroteRequestInfo) {
			if info.Err == nil {
				a.enter(phaseFirstByte)
			}
		},
	})
}

// enter begins a phase, if it can come after the present one: a dial that goes on
// although another connection became free says nothing about the request any more,
// and the end of writing may be told late.
func (a *outAttempt) enter(p outPhase) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch p {
	case phasePool:
		a.asked = true
	case phaseResolve, phaseConnect, phaseTLS:
		if a.phase > phaseTLS {
			return
		}
	case phaseWrite:
		a.got = true
	case phaseFirstByte:
		if a.phase != phaseWrite {
			return
		}
	}
	if a.over || a.phase == phaseBody {
		return
	}
	a.spendLocked()
	a.phase = p
}

// spendLocked puts the time of the present phase into the ledger.
func (a *outAttempt) spendLocked() {
	now := time.Now()
	took := now.Sub(a.since)
	a.since = now
	switch {
	case a.phase == phasePool:
		a.entry.Stage(ledger.PoolWait, took)
	case a.phase == phaseNone || a.phase >= phaseWrite:
		a.entry.Stage(ledger.Work, took)
	default:
		a.entry.Stage(ledger.Connect, took)
	}
}

// handshaken says that the TLS handshake of a connection is over that was dialled for
// the attempt. One that failed is still what the attempt waited for.
func (a *outAttempt) handshaken(err error) {
	a.mu.Lock()
	dialled := a.dialled
	a.dialled = nil
	if err == nil && a.phase == phaseTLS && !a.over {
		a.spendLocked()
		a.phase = phasePool
	}
	a.mu.Unlock()
	for _, f := range dialled {
		f()
	}
}

// end ends the attempt with what its caller sees. Only the first call counts.
func (a *outAttempt) end(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over {
		return
	}
	a.spendLocked()
	a.over = true
	a.entry.Done(err)
}

func (a *outAttempt) phaseName() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return phaseNames[a.phase]
}
