package scope

import (
	"context"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/curfew-go/curfew/internal/ctxnode"
)

// A task is one function running in a scope. It moves one way:
//
//	new ──▶ running ──▶ done      its function returned, or called Goexit
//	 │         ├──────▶ done      it panicked: its goroutine stays parked until Run re-raises
//	 │         └──────▶ abandoned ──▶ done    it did not obey, and its scope goes on without it
//	 └──▶ done (skipped)          the scope's context had ended
//
// Its first half is one cache line, with what running and ending it looks at, often on
// another processor than the one that started it; that one goes on to write into the
// other half, when it links the next task.
type task struct {
	core *core
	work work
	node *ctxnode.Node        // of a task with a limit or an earlier end; else nil
	more *more                // what few tasks have; nil for the others
	fate atomic.Pointer[fate] // nil: it has returned nil, if it is done, and nobody waits for it alone

	profiles uint32 // how many profiles had been taken when it began; written before
	stage    atomic.Uint32
	helped   bool // it runs on a goroutine that takes items of a Map; its own

	// Protected by the core's node.Mu.
	mode      mode
	done      bool // it has ended; of one that did so alone its stage tells: see overLocked
	panicking bool // its goroutine is parked until Run re-raises
	covered   bool // a Task.Wait has returned its outcome
	abandoned bool // its scope no longer waits for it
	reported  bool // as a straggler

	name       string
	view       ctxnode.View // its context, when it has no node of its own
	prev, next *task        // in the core's list of live tasks; under its node.Mu
	seq        uint64       // likewise
}

// A fate is what few tasks have. It is under the core's node.Mu, but for a task that
// ends alone: until its stage says so nobody reads the outcome, and nobody else writes it.
type fate struct {
	err   error         // the outcome, once done; see errLocked
	ended chan struct{} // closed when done; nil until somebody waits
}

func (t *task) fateLocked() *fate {
	if t.fate.Load() == nil {
		t.fate.CompareAndSwap(nil, &fate{}) // endsAlone takes no lock
	}
	return t.fate.Load()
}

// doneLocked says what became of t.
func (t *task) doneLocked(err error) {
	t.done = true
	if err != nil {
		t.fateLocked().err = err
	}
	if f := t.fate.Load(); f != nil && f.ended != nil {
		close(f.ended)
	}
}

// The stages of a task decide whose word counts when it ends while somebody else
// abandons it or begins to wait for it. But for the steps of endsAlone and endsWell
// they change under the core's node.Mu.
//
//	running ──▶ awaited ──┬──▶ settling   its function is over, and the outcome will count
//	   │  └───────────────┴──▶ left       it is abandoned
//	   └──▶ endedAlone, echoedErr, echoedCause, echoedCut
const (
	running uint32 = iota
	awaited        // somebody waits for this very task
	settling
	left
	endedAlone  // it returned nil, and took no lock to say so
	echoedErr   // so did this one, with the error of its ended context
	echoedCause // and this one, with the cause
	echoedCut   // and this one, with the verdict of a scope inside that says no more
)

// advance moves t to a stage unless it has settled, was left or has ended.
func (t *task) advance(to uint32) bool {
	return t.stage.CompareAndSwap(running, to) || t.stage.CompareAndSwap(awaited, to)
}

// overLocked reports whether t has ended.
func (t *task) overLocked() bool { return t.done || t.stage.Load() >= endedAlone }

// errLocked returns the outcome of a task that is over.
func (t *task) errLocked() error {
	switch t.stage.Load() {
	case echoedErr:
		return t.core.node.Ending().Err
	case echoedCause:
		return t.core.node.Ending().Cause
	}
	if f := t.fate.Load(); f != nil {
		return f.err
	}
	return nil
}

// A work is what a task does: the caller's function, with or without a value.
type work interface {
	call(ctx context.Context, t *task) error // t is whose work it is
	origin(t *task) any                      // the caller's function itself, for reports
}

type plainWork func(context.Context) error

func (f plainWork) call(ctx context.Context, _ *task) error { return f(ctx) }
func (f plainWork) origin(*task) any                        { return (func(context.Context) error)(f) }

// A mode says what a task's outcome means to its scope, and when it ends.
type mode uint8

const (
	optional   mode = 1 << iota // a failure is a Missing
	service                     // it ends after everybody else
	attempt                     // its outcome is its race's affair
	background                  // of a Root: its failure is nobody else's affair
	serving                     // started by Root.Serve
	marker                      // no task: the place where a walk along the list stands, or see mapping
	unlisted                    // an item of a Map that is in no list: its worker points at it
)

// more is what only some tasks have.
type more struct {
	values  context.Context // where those of its context come from; nil: from its scope. Written before
	began   time.Time       // of an optional task, and when somebody looks on
	hold    *hold           // its slot; written before the task runs, or by itself
	lent    bool            // hold belongs to another task, which runs this one on its goroutine
	spawn   []uintptr       // where it was started, when somebody tests
	refused error           // of an attempt: what a test said when it was started
	items   *mapping        // of a marker: it stands for these
	inner   *core           // scopes opened in it, when somebody looks on; under the core's node.Mu
}

func (t *task) extra() *more {
	if t.more == nil {
		t.more = &more{}
	}
	return t.more
}

// TaskName is part of ctxnode.Holder.
func (t *task) TaskName() string { return t.title() }

// title returns the name of t. That of an item, or of a piece of an All, is its index,
// put into words on demand.
func (t *task) title() string {
	if t.name != "" {
		return t.name
	}
	if it, ok := t.work.(*item); ok {
		return strconv.Itoa(it.i)
	}
	return strconv.Itoa(t.place()) // all others have a name
}

// Values is part of ctxnode.Holder.
func (t *task) Values() context.Context {
	if t.more == nil {
		return nil
	}
	return t.more.values
}

// context returns the task's context.
func (t *task) context() *ctxnode.View {
	if t.node != nil {
		return &t.node.View
	}
	return &t.view
}

// ending returns how the task's context ended, nil while it is alive.
func (t *task) ending() *ctxnode.Ending { return t.context().Node().Ending() }

// run is the whole of a task's goroutine. It is not inlined, so that its frame,
// with t's address in it, stands in every stack of the goroutine.
//
//go:noinline
func (t *task) run() {
	var err error
	returned := false
	defer func() {
		if returned {
			t.end(err)
			return
		}
		if v := recover(); v != nil {
			// The stack is still there, below this frame, as long as panicked has
			// not returned: should the owner not get to re-raise the panic, the
			// process dies with it.
			t.panicked(v)
			return
		}
		t.end(ErrGoexit)
	}()
	if hooks && t.core.env != nil {
		err = t.callWatched()
	} else if f, ok := t.work.(plainWork); ok { // from here, high on the stack
		err = f(t.context())
	} else {
		err = t.work.call(t.context(), t)
	}
	returned = true
	runtime.KeepAlive(t) // what is dead is not shown
}

// runHere runs the task on the goroutine of its scope's body. A panic or a
// Goexit goes on through Run, as one of the body does. Its frame is looked for
// as that of run is.
//
//go:noinline
func (t *task) runHere() {
	var err error
	returned := false
	defer func() {
		if hooks && t.core.env != nil {
			t.relabelCaller()
		}
		if returned {
			t.endHere(err)
			return
		}
		if t.mode&unlisted != 0 {
			t.enlist()
		}
		t.core.node.Mu.Lock()
		t.leaveLocked(errBodyUnwound)
		t.core.node.Mu.Unlock()
		t.close()
	}()
	err = t.call()
	returned = true
	runtime.KeepAlive(t)
}

func (t *task) call() error {
	if hooks && t.core.env != nil {
		return t.callWatched()
	}
	return t.work.call(t.context(), t)
}

// everyLocked returns the tasks in the list, and the items that are in none, for which
// f answers true.
func (c *core) everyLocked(f func(*task) bool) (all []*task) {
	for t := c.tasks; t != nil; t = t.next {
		switch {
		case t.mode&marker == 0:
			if f(t) {
				all = append(all, t)
			}
		case t.more != nil && t.more.items != nil:
			for _, it := range t.more.items.unlistedLocked() {
				if f(it) {
					all = append(all, it)
				}
			}
		}
	}
	return all
}

func (c *core) linkLocked(t *task) {
	t.next = c.tasks
	if t.next != nil {
		t.next.prev = t
	}
	c.tasks = t
}

func (c *core) unlinkLocked(t *task) {
	if t.prev != nil {
		t.prev.next = t.next
	} else {
		c.tasks = t.next
	}
	if t.next != nil {
		t.next.prev = t.prev
	}
	t.prev, t.next = nil, nil
}
