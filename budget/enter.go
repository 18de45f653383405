package budget

import (
	"context"
	"time"

	"github.com/curfew-go/curfew/internal/ctxnode"
)

func init() {
	ctxnode.Hooks.Enter = func(n *ctxnode.Node, parent context.Context, limit any, now time.Time) error {
		return enter(n, parent, limit.(*Limit), now)
	}
	ctxnode.Hooks.CleanupTime = func(n *ctxnode.Node) time.Duration {
		l, _ := n.Limit.(*Limit)
		if l == nil {
			return 0
		}
		return l.cleanup()
	}
	ctxnode.Hooks.Expired = func(n *ctxnode.Node) error {
		return &Cause{Kind: DeadlineExceeded, Scope: n.EndPath(), Limit: chain(limitsOf(&n.View))}
	}
	ctxnode.Hooks.Foreign = func(n *ctxnode.Node, parent context.Context) error {
		return parentCause(n.Path(), parent)
	}
}

// An entry is what Enter and Detached allocate: a node and the limit its causes
// speak of.
type entry struct {
	node  ctxnode.Node
	limit Limit
}

// cancelled is the ending of a context whose CancelFunc was called.
var cancelled = &ctxnode.Ending{
	Err:      context.Canceled,
	For:      func(n *ctxnode.Node) error { return &Cause{Kind: Cancelled, Scope: n.Path()} },
	Nameless: &ctxnode.Ending{Err: context.Canceled, Cause: &Cause{Kind: Cancelled}},
}

func (e *entry) cancel() { e.node.Leave(cancelled) }

// Enter begins work under limit: it returns a context that ends at
// min(parent's deadline, limit) − reserve − cleanup, when ctx ends, or when the
// returned function is called, which must happen when the work is over. The end
// of a ctx that curfew did not make arrives from another goroutine, a moment
// after it.
//
// The error is a *Cause when there is no time to begin: ExpiredOnArrival when
// the limit or ctx's deadline has passed, LocalBudgetRejected when less is left
// than the limit keeps back or requires, and ctx's own cause when ctx was
// cancelled. It is ErrNoDeadline when the limit is Inherited and ctx has no
// deadline. After an error the returned context has ended with that error as
// its cause; the function is never nil.
func Enter(ctx context.Context, limit Limit) (context.Context, context.CancelFunc, error) {
	e := &entry{limit: limit}
	if err := enter(&e.node, ctx, &e.limit, time.Time{}); err != nil {
		deadline, _ := ctx.Deadline()
		if _, own, ok := e.limit.settle(time.Now(), deadline); ok && (deadline.IsZero() || own.Before(deadline)) {
			deadline = own // what it was refused for: a ledger says how much was left
		}
		e.node.StartEnded(ctx, deadline, endingOf(err))
		return &e.node.View, func() {}, err
	}
	return &e.node.View, e.cancel, nil
}

// Detached returns a context with the values of ctx, without its end and its
// deadline, that ends after d or when the returned function is called, which
// must happen when the work is over. It is the one way to outlive a request or
// to shield a critical section: bounded, and visible where it is used. With a
// d of zero or less the context has ended already, as ExpiredOnArrival.
func Detached(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	e := &entry{limit: Within(d).Named("detached")}
	e.node.Limit = &e.limit
	if d <= 0 {
		e.node.StartEnded(ctx, time.Now(), endingOf(&Cause{Kind: ExpiredOnArrival, Limit: e.limit.String()}))
		return &e.node.View, func() {}
	}
	e.node.StartDetached(ctx, time.Now().Add(d))
	return &e.node.View, e.cancel
}

// Remaining reports how much time is left until the deadline of ctx. It is zero
// or negative once the deadline has passed, and ok is false when ctx has none.
// Remaining never blocks, and two calls may differ because time passes.
func Remaining(ctx context.Context) (left time.Duration, ok bool) {
	d, ok := ctx.Deadline()
	if !ok {
		return 0, false
	}
	return time.Until(d), true
}

// Require returns nil when ctx is alive and at least need is left until its
// deadline, or it has none. It is the check before a side effect or an
// expensive step. Otherwise the error is why ctx ended, or a *Cause of kind
// DeadlineExceeded when the deadline has just passed, or LocalBudgetRejected
// when less than need is left. A negative need panics.
func Require(ctx context.Context, need time.Duration) error {
	mustNotBeNegative("Require", need)
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	left, ok := Remaining(ctx)
	if !ok || left >= need && left > 0 {
		return nil
	}
	c := &Cause{Kind: LocalBudgetRejected, Limit: chain(limitsOf(ctx))}
	if left <= 0 {
		c.Kind = DeadlineExceeded
	}
	if v := ctxnode.Find(ctx); v != nil {
		c.Scope, c.Task = v.Node().Path(), v.Task()
	}
	return c
}

// enter resolves l against parent, from now on, and starts n on the work deadline. A
// zero now is the present.
func enter(n *ctxnode.Node, parent context.Context, l *Limit, now time.Time) error {
	if parent == nil {
		panic("budget: nil context")
	}
	if n.Under() == nil && l.adopts() {
		if n.Limit = l; n.Adopt(parent, now) {
			return nil
		}
		n.Limit = nil
	}
	var present time.Time // what the clock says; zero when it was not asked
	if now.IsZero() {
		present = time.Now()
		now = present
	}
	base, hasBase := bounding(n, parent).Deadline()
	if hasBase && base == base.Round(0) {
		base = now.Add(base.Sub(now)) // from here on it is monotonic
	}
	l, own, ok := l.settle(now, base)
	if e := parent.Err(); e != nil {
		c := parentCause("", parent)
		if e != context.DeadlineExceeded {
			return c
		}
		return refuse(n, parent, ExpiredOnArrival, l, true, c)
	}
	if !hasBase && !ok {
		return ErrNoDeadline
	}

	deadline, parents := base, true
	if ok && (!hasBase || own.Before(base)) {
		deadline, parents = own, false
	}
	left := deadline.Sub(now)
	if left <= 0 {
		return refuse(n, parent, ExpiredOnArrival, l, parents, nil)
	}
	rest := left - min(l.keep(left), left)
	rest -= min(l.cleanup(), rest)
	if rest <= 0 || rest < l.require {
		return refuse(n, parent, LocalBudgetRejected, l, parents, nil)
	}
	n.Limit = l
	n.StartAt(present, parent, deadline.Add(rest-left), !parents || rest < left)
	return nil
}

// refuse returns the cause of work that is not begun under l. parents says
// that the parent's deadline, not l, left too little time.
func refuse(n *ctxnode.Node, parent context.Context, kind Kind, l *Limit, parents bool, behind error) *Cause {
	c := &Cause{Kind: kind, Scope: n.Name, Err: behind}
	limits := limitsOf(bounding(n, parent))
	if v := ctxnode.Find(parent); v != nil {
		if path := v.Path(); path != "" && n.Name != "" {
			c.Scope = path + "/" + n.Name
		} else {
			c.Scope = path + n.Name
		}
	}
	if !l.silent() {
		if parents {
			limits = append(limits, l.names()...)
		} else {
			limits = append(l.names(), limits...)
		}
	}
	c.Limit = chain(limits)
	return c
}

// parentDeadline stands in a chain for a deadline that curfew did not set.
const parentDeadline = "parent deadline"

// parentCause returns why parent ended, as a *Cause: its own one when curfew
// ended it, else a new one that says what kind of parent end scope met.
func parentCause(scope string, parent context.Context) *Cause {
	cause := context.Cause(parent)
	if c, ok := cause.(*Cause); ok && c != nil {
		return c
	}
	c := &Cause{Kind: ParentCancelled, Scope: scope}
	if _, ok := parent.(*ctxnode.Client); ok {
		c.Kind = ClientCancelled
	}
	if parent.Err() == context.DeadlineExceeded {
		c.Kind, c.Limit = DeadlineExceeded, parentDeadline
	}
	if cause != c.Kind.Sentinel() {
		c.Err = cause
	}
	return c
}

// bounding returns the context whose deadline bounds n below parent: parent, or
// the node that n is under when that has the earlier one.
func bounding(n *ctxnode.Node, parent context.Context) context.Context {
	under := n.Under()
	if under == nil {
		return parent
	}
	if d, ok := parent.Deadline(); ok {
		if u, ok := under.Deadline(); !ok || !u.Before(d) {
			return parent
		}
	}
	return &under.View
}

// limitsOf lists the limits that led to the deadline of ctx, the tightest
// first: going outwards, each that tightened what was above it. A context whose
// deadline is not that of the view it leads to, because std set one of its own
// or dropped ours, ends the list: what bounds it is not known.
func limitsOf(ctx context.Context) []string {
	var limits []string
	for {
		deadline, ok := ctx.Deadline()
		if !ok {
			return limits
		}
		v := ctxnode.Find(ctx)
		if v == nil {
			return append(limits, parentDeadline)
		}
		n := v.Node()
		if own, ok := n.Deadline(); !ok || !own.Equal(deadline) {
			return append(limits, parentDeadline)
		}
		ctx = bounding(n, n.Parent())
		above, ok := ctx.Deadline()
		tightens := !ok || deadline.Before(above) || n.Detached()
		if l, _ := n.Limit.(*Limit); l != nil && !l.silent() && tightens {
			limits = append(limits, l.names()...)
		}
		if n.Detached() {
			return limits
		}
	}
}

// endingOf returns the ending of a context that was refused with err.
func endingOf(err error) *ctxnode.Ending {
	e := &ctxnode.Ending{Cause: err, Err: context.Canceled}
	if c, ok := err.(*Cause); ok && c.Kind.Sentinel() == context.DeadlineExceeded {
		e.Err = context.DeadlineExceeded
	}
	return e
}
