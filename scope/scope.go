package scope

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/ctxnode"
)

const (
	// defaultCleanupTime is what all cleanups of a scope have together when its
	// Limit does not say.
	defaultCleanupTime = time.Second
	// cleanupGrace is the most that a cleanup has to return after its context
	// ended, before it counts as deaf.
	cleanupGrace = 10 * time.Millisecond
	// defaultPanicGrace is how long a panicked task waits for its owner.
	defaultPanicGrace = time.Second
	// stragglerGrace is how long after its context's end a task may run before
	// it counts as a straggler.
	stragglerGrace = 100 * time.Millisecond
)

// ErrClosed is what Go and Fork panic with, wrapped, when the scope is over,
// and what the cause of a scope's context matches from then on.
var ErrClosed = errors.New("scope: closed")

// ErrGoexit is the failure of a task that ended by runtime.Goexit, which is
// what testing.T.FailNow calls.
var ErrGoexit = errors.New("scope: task called runtime.Goexit")

// A Scope owns tasks. It moves one way:
//
//	open ──body returned──▶ closing ──last task ended──▶ cleaning ──▶ closed
//	  └── meanwhile, at any time, its context may end: a task failed, the
//	      deadline passed, the parent ended, Cancel was called
//
// Go and Fork start work while the scope is open or closing, skip it once the
// context has ended, and panic from cleaning on. All methods may be called from
// any goroutine. A Scope is valid only inside its Run; it cannot be made or
// copied usefully elsewhere.
//
// In, Limit, Optional, Service and Restart return a handle onto the same scope
// with a setting for the tasks started through it.
type Scope struct {
	c *core
	*settings
}

// settings are those of a handle, for the tasks started through it. They do not
// change.
type settings struct {
	in      context.Context // values, and an earlier end, for tasks; nil: the scope's own
	limit   budget.Limit
	limited bool
	mode    mode
	restart *Backoff // nil: a task is started once
}

// plain are the settings of the handle that a body gets.
var plain settings

// with returns a handle onto s with settings of its own, which the caller may change
// until others see it.
func (s *Scope) with() *Scope {
	h := &struct {
		Scope
		settings
	}{Scope: *s, settings: *s.settings}
	h.Scope.settings = &h.settings
	return &h.Scope
}

// A core is a scope's one piece of state. Its size is part of what a scope costs: what
// few scopes have stands in unusual.
//
// The order of its fields is, too. Who starts tasks and who ends them are often two
// processors, and a cache line that one of them writes for each task must hold nothing
// that the other one looks at for each.
type core struct {
	// Written before the scope has tasks; slots also by SetSlots.

	env    *env                  // who looks on; nil for nobody
	slots  atomic.Pointer[slots] // of the tree it stands in; nil for none
	handle Scope                 // what the body gets

	node ctxnode.Node // its lock stands last in it, and makes a line with what follows

	// From here to over all is protected by node.Mu, so that a failure is recorded and
	// the context ended in one step.

	// What starting a task writes.

	phase     phase // looked at
	late      bool  // the verdict is nil although the context had ended
	keepGoing bool
	ownSlots  bool          // SetSlots was called
	begun     atomic.Uint32 // see tally.go
	tasks     *task         // the live ones, the youngest first, and among them some that endedAlone
	sequence  uint64        // number of the last task, begun or skipped

	// What few look at, and what ending a task writes.

	waited    uint64     // number up to which a Wait has returned
	waiters   *waiter    // goroutines in Scope.Wait
	*unusual             // nothing is written here without ownLocked
	place     *treePlace // in the live tree of a Root; nil: in none
	body      uintptr    // where the caller's function begins, for reports; 0: the body is ours; written before
	helpers   int32      // goroutines that take items of a Map
	taskWaits int32      // goroutines in Task.Wait
	unswept   uint32     // see listedLocked

	taken   atomic.Uint32 // of an All: how many of its tasks have a goroutine that has begun
	over    atomic.Uint32 // see tally.go
	awaited atomic.Uint32 // likewise
}

// A limited is a core whose scope has a limit of its own. Most inner ones inherit.
type limited struct {
	core
	limit budget.Limit
}

// unusual is what a scope does not have in which all goes well and nothing is set.
type unusual struct {
	skipped    int
	unbegun    int // numbers that went to tasks which were not begun
	services   int // how many services are live
	cut        int // those of skipped that the verdict counts
	panicGrace time.Duration
	panics     []*PanicError
	parked     int           // panicked tasks whose goroutines wait for Run
	unwound    chan struct{} // closed when Run is about to re-raise; nil before a panic
	cleanups   []cleanup
	cleaningUp string // name of the cleanup that runs
	outcome    outcome
	missing    []missing
	stragglerWatch
}

// nothingUnusual is what all scopes share that have nothing unusual of their own.
var nothingUnusual = unusual{
	panicGrace:     defaultPanicGrace,
	stragglerWatch: stragglerWatch{grace: stragglerGrace},
}

// ownLocked gives c an unusual of its own, which alone may be written.
func (c *core) ownLocked() *unusual {
	if c.unusual == &nothingUnusual {
		own := nothingUnusual
		c.unusual = &own
	}
	return c.unusual
}

// A stragglerWatch is what a scope knows of tasks that do not obey.
type stragglerWatch struct {
	grace        time.Duration
	then         Then
	ownGrace     bool // SetStragglers was called
	bodyReported bool
	watch        *ctxnode.Alarm // of the look at who still runs; nil: not armed
	watchBegan   time.Time      // when the context ended
	watchPaused  time.Duration  // what was paused until then
	watchSaw     int            // how many goroutines there were at the last look, see leavingLocked
	overrun      time.Duration  // the longest of a task
	stragglers   int
	orphans      int
	left         *task // the tasks among the orphans
}

// A treePlace is where a scope hangs in the live tree of a Root.
type treePlace struct {
	began time.Time
	above *core // whose node.Mu protects what follows; nil: it is the Root's own
	home  *task // the task of above that opened the scope; nil: the body did

	prev, next *core
	gone       bool

	inner *core // opened by the body of the scope whose place this is; under its own node.Mu
}

// innerLocked returns the first of the scopes that the body of c has opened, where
// there is a live tree.
func (c *core) innerLocked() *core {
	if c.place == nil {
		return nil
	}
	return c.place.inner
}

type phase uint8

const (
	open phase = iota
	closing
	cleaning
	closed
)

// scopeClosed ends the context of a scope whose work is over.
var scopeClosed = &ctxnode.Ending{
	Err: context.Canceled,
	For: func(n *ctxnode.Node) error {
		return &budget.Cause{Kind: budget.Closed, Scope: n.Path(), Err: ErrClosed}
	},
}

// Cancel ends the scope's context: tasks that obey it end, and Go starts no
// more. why, which may be nil, stands in the cause, whose kind is Cancelled; a
// why that is itself a *budget.Cause becomes the cause, with its own kind.
// Only the first end of a scope counts; later calls do nothing.
//
// A cancelled scope whose tasks and body all return nil has succeeded.
func (s *Scope) Cancel(why error) {
	cause := budget.Cause{Kind: budget.Cancelled, Err: why}
	if c, ok := why.(*budget.Cause); ok {
		cause.Err = nil
		if c != nil {
			cause = *c
		}
	}
	if cause.Kind == budget.None {
		cause.Kind = budget.Cancelled
	}
	if cause.Scope == "" {
		cause.Scope = s.c.node.Path()
	}
	s.c.node.CatchUp()
	s.c.node.End(ending(cause))
}

// ending is how a context ends for cause.
func ending(cause budget.Cause) *ctxnode.Ending {
	e := &struct { // one piece of memory
		ctxnode.Ending
		cause budget.Cause
	}{cause: cause}
	e.Cause, e.Err, e.At = &e.cause, context.Canceled, time.Now()
	if cause.Kind.Sentinel() == context.DeadlineExceeded {
		e.Err = context.DeadlineExceeded
	}
	return &e.Ending
}

// In returns a handle onto s that starts tasks with the values of ctx, such as
// a tracing span, and within its deadline and end. ctx must come from the
// scope's context, or from that of a task of it; for any other In panics. The
// scope's own end reaches the task even if ctx has dropped it.
func (s *Scope) In(ctx context.Context) *Scope {
	if ctx == nil {
		panic("scope: In: nil context")
	}
	if v := ctxnode.Find(ctx); v == nil || !v.Within(&s.c.node) {
		panic(fmt.Sprintf("scope: In: the context does not come from scope %q", s.c.node.Path()))
	}
	h := s.with()
	h.in = ctx
	return h
}

// Limit returns a handle onto s that starts tasks under a limit of their own,
// measured from the start of each. A task that runs into it fails the scope
// with that cause. There is no scope for which Limit can extend the deadline.
func (s *Scope) Limit(limit budget.Limit) *Scope {
	h := s.with()
	h.limit, h.limited = limit, true
	return h.checked("Limit")
}

// SetPanicGrace sets how long a panicked task waits for the body to return
// before it takes the process down with its own stack; it waits at least until
// a moment after the scope's deadline. The default is one second; a negative d
// means for ever. It is for the first lines of the body.
func (s *Scope) SetPanicGrace(d time.Duration) {
	s.c.node.Mu.Lock()
	defer s.c.node.Mu.Unlock()
	s.c.ownLocked().panicGrace = d
}

// Stats is a snapshot of a scope.
type Stats struct {
	Live       int           // tasks running now
	Started    int           // tasks begun so far, the live ones among them
	Skipped    int           // tasks not begun because the context had ended
	Missing    int           // optional tasks that failed or were skipped
	Stragglers int           // tasks reported as such, and the body
	Orphans    int           // tasks and cleanups that the scope went on without, and that still run
	Overrun    time.Duration // the longest that a task went on after its context had ended
	Late       bool          // Run returned nil although the context had ended before
	Slots      int           // of the scope or of the one above that has set them; 0: no bound
	Holding    []string      // paths of the tasks that hold slots, in the whole tree
	Waiting    []string      // paths of those that wait for one
}

// Stats returns a snapshot, also after Run has returned.
func (s *Scope) Stats() Stats {
	c := s.c
	c.node.Mu.Lock()
	st := Stats{
		Live: c.liveLocked(), Started: c.begunLocked(), Skipped: c.skipped, Missing: len(c.missing),
		Stragglers: c.stragglers, Orphans: c.orphans, Overrun: c.overrun, Late: c.late,
	}
	c.node.Mu.Unlock()
	if sl := c.slots.Load(); sl != nil {
		st.Slots = sl.size
		sl.queue.mu.Lock()
		st.Holding, st.Waiting = sl.queue.holding.paths(), sl.queue.waiting.paths()
		sl.queue.mu.Unlock()
	}
	return st
}
