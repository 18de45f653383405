package ledger

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/curfew-go/curfew/budget"
)

// A Stage is what time was spent on.
type Stage uint8

// The stages. Their telemetry names are queue, pool_wait, connect and work.
const (
	Queue    Stage = iota // waiting for its turn, before the work began
	PoolWait              // waiting for a connection of a pool
	Connect               // making a connection: resolving, dialling, TLS
	Work                  // waiting for the answer
	stages   = iota
)

var stageNames = [stages]string{"queue", "pool_wait", "connect", "work"}

// String returns the stage's telemetry name, such as "pool_wait".
func (s Stage) String() string {
	if int(s) < len(stageNames) {
		return stageNames[s]
	}
	return "unknown"
}

// A Ledger is the account of one request in one hop. All methods may be called
// by any number of goroutines, and on a nil Ledger, where they do nothing.
//
// It lists the first 64 calls, and counts the rest. An entry of two calls costs
// about a microsecond altogether (BenchmarkRequest).
type Ledger struct {
	hop         string
	start       time.Time
	deadline    time.Time
	hasDeadline bool

	mu     sync.Mutex
	stages [stages]time.Duration
	few    [4]call // the first calls, so that they need no memory of their own
	many   []*call // the others
	spare  []call  // where the next of those comes from
	calls  int
	open   int           // calls that are not done
	since  time.Duration // when open became more than 0, since start
	away   time.Duration // how long it was more than 0, up to since
	closed bool
	total  time.Duration // once closed
	kind   budget.Kind
	limits string
}

type call struct {
	target string
	out    time.Duration
	begin  time.Duration // since the ledger's start
	took   time.Duration
	stages [stages]time.Duration
	kind   budget.Kind
	done   bool
}

// maxCalls is how many calls are listed.
const maxCalls = 64

type key struct{}

// New opens the ledger of a request in hop, a name such as that of the service
// or the route, and returns a context that carries it. What is left until ctx's
// deadline is what the request came with; so call it with the context in which
// the work is done, also when that was refused and has ended.
func New(ctx context.Context, hop string) (context.Context, *Ledger) {
	l := &Ledger{hop: clean(hop), start: time.Now()}
	l.deadline, l.hasDeadline = ctx.Deadline()
	return context.WithValue(ctx, key{}, l), l
}

// From returns the innermost ledger that ctx carries, and nil when there is
// none.
func From(ctx context.Context) *Ledger {
	l, _ := ctx.Value(key{}).(*Ledger)
	return l
}

// Stage adds took to a stage of the hop itself; a took of zero or less adds nothing.
// What it waited before New, such as in the queue of a proxy, is not part of its
// total.
func (l *Ledger) Stage(s Stage, took time.Duration) {
	if l == nil || int(s) >= stages {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		spend(&l.stages[s], took)
	}
}

// A Call is the entry of one call of a request: one attempt, so that a retry is
// another. The zero Call does nothing. Its methods may be called by any number
// of goroutines; once it is done, or the ledger is closed, they change nothing.
type Call struct {
	l *Ledger
	c *call
}

// Call begins a call to target, which is given remainingOut: what is passed on to
// it as left, after slush, or the limit set on its side; 0 or less when
// nothing is.
//
// target is a name, such as "inventory" or "orders-db". Of a URL or a DSN it
// keeps neither userinfo nor query, and nothing at all when it cannot tell.
func (l *Ledger) Call(target string, remainingOut time.Duration) Call {
	if l == nil {
		return Call{}
	}
	target = clean(target)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return Call{}
	}
	var c *call
	switch {
	case l.calls < len(l.few):
		c = &l.few[l.calls]
	default:
		if len(l.spare) == 0 {
			l.spare = make([]call, 8)
		}
		c, l.spare = &l.spare[0], l.spare[1:]
		if l.calls < maxCalls {
			l.many = append(l.many, c)
		}
	}
	l.calls++
	c.target, c.out, c.begin = target, max(remainingOut, 0), time.Since(l.start)
	if l.open++; l.open == 1 {
		l.since = c.begin
	}
	return Call{l, c}
}

// Stage adds took to a stage of the call, as that of a Ledger does.
func (c Call) Stage(s Stage, took time.Duration) {
	if c.l == nil || int(s) >= stages {
		return
	}
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	if !c.c.done && !c.l.closed {
		spend(&c.c.stages[s], took)
	}
}

// spend adds took, which somebody measured with clocks that may jump, to sum.
func spend(sum *time.Duration, took time.Duration) {
	if took > 0 {
		*sum = max(*sum+took, *sum) // a sum that is too large stays as it is
	}
}

// Done ends the call, with err as it was seen by the caller; of err it keeps the
// kind.
func (c Call) Done(err error) {
	if c.l == nil {
		return
	}
	kind := budget.KindOf(err)
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	if c.c.done || c.l.closed {
		return
	}
	now := time.Since(c.l.start)
	c.c.done, c.c.kind, c.c.took = true, kind, now-c.c.begin
	if c.l.open--; c.l.open == 0 {
		c.l.away += now - c.l.since
	}
}

// Close ends the ledger with what the request's work returned; of err it keeps
// the kind and the limits. What comes after changes nothing. Calls that are
// still open stay so in the account.
func (l *Ledger) Close(err error) {
	if l == nil {
		return
	}
	kind, limits := budget.KindOf(err), ""
	if c, ok := errors.AsType[*budget.Cause](err); ok && c != nil {
		limits = printable(c.Limit, maxLimits)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.closed, l.total, l.kind, l.limits = true, time.Since(l.start), kind, limits
}
