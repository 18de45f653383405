// Package owner is the door through which package race starts attempts in the
// scope that owns them.
package owner

import (
	"context"
	"time"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/ctxnode"
)

// A Work is what one attempt does, and who is told of it.
type Work interface {
	// Call is the attempt. Its error is nobody's failure.
	Call(ctx context.Context) error
	// Finished is called once, on the attempt's goroutine unless it was never
	// begun or was abandoned: with what Call returned, scope.ErrGoexit, a
	// *scope.PanicError, why it was not begun, or an error that matches
	// scope.ErrAbandoned. It is not called for work done Here that unwinds the
	// caller's goroutine. It must not block. After a panic or an abandoned
	// attempt Call may still be running, or nobody is left to.
	Finished(err error)
	// WonAlone reports, once Call has returned nil, that it has decided the race, of
	// which nothing is left but who waits for it. Finished is then called when the
	// scope has let go of the attempt, and not at all for one that ran Here.
	WonAlone() bool
	// ContextEnded is called when the attempt's context, which is n's, has ended before
	// the attempt has. It must not block.
	ContextEnded(n *ctxnode.Node)
	// Origin is the caller's function, for reports.
	Origin() any
}

// A Scope owns attempts: it does not end before they have.
type Scope interface {
	// Start starts w as a task with that name, under ctx, on a goroutine of its own.
	Start(ctx context.Context, name string, w Work) Attempt
	// Enter makes the task alone, and its context, which begins now, under ctx and
	// limit, as of now, which is the present when it is zero. After an error there is
	// none. Else Go or Here has to be called. limit must not change.
	Enter(ctx context.Context, name string, w Work, limit *budget.Limit, now time.Time) (Attempt, error)
	// Lend gives the slot of the calling task away until back is called.
	Lend() (back func())
}

// An Attempt is one that was started, or entered.
type Attempt interface {
	// Go starts one that was entered on a goroutine of its own.
	Go()
	// Here runs one that was entered on the calling goroutine: it returns when its
	// Work has finished. In a scope that abandons its stragglers it is Go. It reports
	// whether it was not.
	Here() bool
	// Node is where its context comes from.
	Node() *ctxnode.Node
	// Lose ends the attempt's context, with a cause of kind race_lost.
	Lose(why error)
}

// What package scope puts in here.
var (
	// Of returns the scope that owns what is started under ctx, nil for none:
	// the innermost one, and only when its end is that of ctx. A service's attempts
	// are its own affair: the scope must not wait for them before it ends the service.
	Of func(ctx context.Context) Scope
	// Within opens a scope for one race, for a ctx that nobody owns.
	Within func(ctx context.Context, name string, origin any, body func(Scope) error) error
	// Keep makes the context of the attempt that ctx belongs to outlive it, and
	// reports whether there is one.
	Keep func(ctx context.Context) (release func(), ok bool)
	// WorkOf returns what the innermost attempt does to which ctx belongs, nil for
	// none.
	WorkOf func(ctx context.Context) Work
)
