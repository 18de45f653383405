package scope

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/ctxnode"
)

// A Root owns the work of a process that no request waits for: servers, consumers
// of queues, and what a request leaves to be done after its answer. It also holds
// the live tree of all scopes opened below it. It moves one way:
//
//	open ──Drain──▶ stopping ──most of the time gone──▶ cancelled ──▶ closed
//
// Go and Serve start work while it is open and return an error that matches
// ErrClosed from then on. All methods may be called from any goroutine.
//
// Work of a Root has no caller to raise a panic for: a panic is reported, and then
// ends the process.
type Root struct {
	core     core
	env      env
	labels   labelCache
	stopping chan struct{} // closed by Drain
	failed   chan struct{} // closed when a Serve has failed
	drained  chan struct{} // closed when Drain is done

	// Protected by core.node.Mu.
	draining bool
	failure  error // of the first Serve that failed
	cut      []*TaskError
	drainBy  time.Time // when its cleanups have to be over
	report   error     // of Drain
}

// NewRoot returns an open Root. A process needs one, made where it starts; the
// name, which must not be empty, stands first in paths.
func NewRoot(name string) *Root {
	if name == "" {
		panic("scope: NewRoot: empty name")
	}
	r := &Root{
		stopping: make(chan struct{}),
		failed:   make(chan struct{}),
		drained:  make(chan struct{}),
	}
	r.env.root = r
	c := &r.core
	c.handle, c.unusual = Scope{c, &plain}, &nothingUnusual
	c.env, c.place = &r.env, &treePlace{began: time.Now()}
	c.node.Name, c.node.Owner = name, c
	c.node.Start(context.WithValue(context.Background(), envKey{}, &r.env), time.Time{}, false)
	c.node.Done() // a Root may be asked for it in a synctest bubble that it outlives
	return r
}

// Context returns a context from which servers derive those of their requests, as
// http.Server.BaseContext: scopes opened under it stand in the live tree. It has
// no deadline, and ends when Drain cancels.
func (r *Root) Context() context.Context { return &r.core.node.View }

// Go starts f in the background, with the values of ctx, without its end and its
// deadline, under a limit that starts now: waiting counts. It is for what a
// request leaves to be done after its answer.
//
// Go returns without waiting for f. Its error says that f was not started: the
// Root drains, with a *budget.Cause of kind Shutdown that matches ErrClosed, and
// whoever still answers a request does the work itself or says that it is not
// done, with 503; or there is no time for it under limit, as in [budget.Enter];
// Inherited is budget.ErrNoDeadline, since there is nobody to inherit from. An
// error of f goes to Trace.TaskFailed or to slog.Default. An empty name, a nil ctx
// and a nil f panic.
func (r *Root) Go(ctx context.Context, name string, limit budget.Limit, f func(context.Context) error) error {
	mustBeTask("Root.Go", name, f == nil)
	if ctx == nil {
		panic("scope: Root.Go: nil context")
	}
	ctx = context.WithValue(ctx, envKey{}, r.envFor(ctx))
	return r.start(&task{name: name, work: plainWork(f), mode: background}, func(n *ctxnode.Node) error {
		return ctxnode.Hooks.Enter(n, ctxnode.Rebase(ctx, &r.core.node.View), &limit, time.Now())
	})
}

// Serve starts f, which goes on for as long as the process does, and has no limit
// until Drain. A loop in f ends when [Stopping] says so; each unit of its work
// opens a Run of its own.
//
// Serve returns without waiting for f, with an error that matches ErrClosed when
// the Root is closed. An error of f goes to Trace.TaskFailed or to slog.Default,
// and ends the wait of DrainAfter. An empty name and a nil f panic.
func (r *Root) Serve(name string, f func(context.Context) error) error {
	mustBeTask("Root.Serve", name, f == nil)
	return r.start(&task{name: name, work: plainWork(f), mode: background | serving}, func(n *ctxnode.Node) error {
		n.Start(ctxnode.Rebase(r.core.node.Parent(), &r.core.node.View), time.Time{}, false)
		return nil
	})
}

// SetTrace makes t the Trace of the Root's own work and of all scopes below that
// have none of their own. It is for the lines right after NewRoot.
func (r *Root) SetTrace(t *Trace) { r.env.trace = t }

// envFor returns who looks on at work that is started with the values of ctx.
func (r *Root) envFor(ctx context.Context) *env {
	old := envOf(ctx)
	if old == nil {
		return &r.env
	}
	e := env{trace: old.trace, test: old.test, root: r}
	if e.trace == nil {
		e.trace = r.env.trace
	}
	if e.test == nil {
		e.test = r.env.test
	}
	return &e
}

// start starts t with a context that enter makes below the Root.
func (r *Root) start(t *task, enter func(*ctxnode.Node) error) error {
	c := &r.core
	t.core = c
	t.view.Init(&c.node, t)
	t.watchBegin(c.env.spawnSite())
	c.node.Mu.Lock()
	if r.draining {
		c.node.Mu.Unlock()
		return &budget.Cause{Kind: budget.Shutdown, Scope: c.node.Name, Task: t.name, Err: ErrClosed}
	}
	c.startedLocked(t)
	c.node.Mu.Unlock()

	node := &ctxnode.Node{View: ctxnode.View{Owner: t}, Name: t.name}
	node.PutUnder(&c.node)
	if err := enter(node); err != nil {
		c.node.Mu.Lock()
		c.ownLocked().unbegun++
		t.leaveLocked(err)
		c.node.Mu.Unlock()
		return err
	}
	c.node.Mu.Lock()
	t.node = node
	c.node.Mu.Unlock()
	go t.run()
	return nil
}

// background notes the outcome of the Root's own task t.
func (c *core) background(t *task, err error) {
	r := c.env.root
	if err == nil {
		return
	}
	// The end says why, not err: most code returns ctx.Err().
	e := t.ending()
	cut := e != nil && budget.KindOf(e.Cause) == budget.Shutdown && matches(err, e)
	switch {
	case cut && t.mode&serving != 0:
		return // to end is what was asked of it
	case cut: // but this was to be done, and is not
		c.node.Mu.Lock()
		r.cut = append(r.cut, &TaskError{Task: t.name, Err: err, Induced: true})
		c.node.Mu.Unlock()
	case t.mode&serving != 0:
		c.node.Mu.Lock()
		if r.failure == nil {
			r.failure = &TaskError{Task: t.name, Err: err}
			close(r.failed)
		}
		c.node.Mu.Unlock()
	}
	if tr := envOf(t.context()).trace; tr != nil && tr.TaskFailed != nil {
		tr.TaskFailed(c.node.Name, t.name, err)
		return
	}
	logSome(slog.LevelError, "scope: background task failed", "root", c.node.Name, "task", t.name, "error", err)
}

// Cleanup registers f to run when everything else has ended, as [Scope.Cleanup]
// does: the last registered first, each within its share of the time that Drain
// has left. On a Root that is closed it panics with an error that matches
// ErrClosed.
func (r *Root) Cleanup(name string, f func(context.Context) error) { r.core.handle.Cleanup(name, f) }

// Stopping returns a channel that is closed when the Root whose work ctx belongs
// to begins to drain, well before that cancels ctx: what serves takes nothing new
// from then on and brings to an end what it has begun. Without a Root the channel
// is nil, which blocks for ever.
func Stopping(ctx context.Context) <-chan struct{} {
	if ctx == nil {
		panic("scope: Stopping: nil context")
	}
	if e := envOf(ctx); e != nil && e.root != nil {
		return e.root.stopping
	}
	return nil
}

// Drain ends the Root in order: it takes no more work, closes Stopping, and waits
// for its own work and for the scopes opened under its Context, such as those of
// requests. When four fifths of the time until ctx's deadline are gone, or when ctx
// ends, it cancels what still runs, with a cause of kind shutdown; it waits until
// nine tenths are gone, then runs the cleanups in the rest. What ends earlier makes
// it return earlier.
//
// The error is nil when everything has come to its end, else a [*DrainError]: it
// names what still runs, work of Root.Go that was cancelled before it was done, and
// cleanups that failed. A Serve that ends because it was cancelled is at its end. It
// is budget.ErrNoDeadline, and nothing is done, when ctx has no deadline. A second
// call waits for the first one, at most until its own ctx ends, and returns the same
// report. A nil ctx panics, and so does a call from a task that Drain waits for,
// with the task's name.
func (r *Root) Drain(ctx context.Context) error {
	if ctx == nil {
		panic("scope: Root.Drain: nil context")
	}
	c := &r.core
	deadline, ok := ctx.Deadline()
	if !ok {
		return budget.ErrNoDeadline
	}
	for _, t := range tasksOnStack() {
		if t.context().Within(&c.node) {
			panic(fmt.Sprintf("scope: Root.Drain: task %q waits for itself", t.name))
		}
	}
	c.node.Mu.Lock()
	first := !r.draining
	r.draining = true
	c.phase = max(c.phase, closing)
	c.node.Mu.Unlock()
	if !first {
		select {
		case <-r.drained:
			return r.report
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	defer close(r.drained)
	close(r.stopping)
	left := max(time.Until(deadline), 0)
	if !c.idleBy(ctx, deadline.Add(-left/5)) {
		c.node.End(ending(budget.Cause{Kind: budget.Shutdown, Scope: c.node.Name, Err: errDrain}))
		c.idleBy(context.WithoutCancel(ctx), deadline.Add(-left/10))
	}

	runs := whoRuns(c)
	c.node.Mu.Lock()
	c.phase = cleaning
	r.drainBy = deadline
	c.node.Mu.Unlock()
	report := &DrainError{Root: c.node.Name, Left: runs}
	c.clean()
	c.node.Mu.Lock()
	report.Cleanup = asErrors(nil, c.outcome.cleanup)
	report.Cut = asErrors(nil, r.cut)
	c.node.Mu.Unlock()
	if len(report.Left)+len(report.Cut)+len(report.Cleanup) > 0 {
		r.report = report
	}
	c.node.Close(scopeClosed)
	if pe := c.releaseParked(); pe != nil {
		panic(pe) // of a cleanup
	}
	return r.report
}

var errDrain = errors.New("scope: the root drains")

// DrainAfter waits until ctx ends or a Serve has failed, and then drains within
// the time given. It is the last line of a main:
//
//	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
//	defer stop()
//	...
//	return root.DrainAfter(ctx, 20*time.Second)
//
// The error joins that of the Serve which failed and that of Drain.
func (r *Root) DrainAfter(ctx context.Context, within time.Duration) error {
	if ctx == nil {
		panic("scope: DrainAfter: nil context")
	}
	if within <= 0 {
		panic(fmt.Sprintf("scope: DrainAfter: %v: must be positive", within))
	}
	select {
	case <-ctx.Done():
	case <-r.failed:
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), within)
	defer cancel()
	err := r.Drain(drain)
	r.core.node.Mu.Lock()
	failure := r.failure
	r.core.node.Mu.Unlock()
	return errors.Join(failure, err)
}

// idleBy waits until no task of a Root runs, nor a scope opened under its context,
// and reports whether that came before the instant
// given and before the end of ctx.
func (c *core) idleBy(ctx context.Context, at time.Time) bool {
	over := false
	giveUp := func() {
		c.node.Mu.Lock()
		defer c.node.Mu.Unlock()
		over = true
		c.node.Idle.Wake()
	}
	var once sync.Once
	timer := time.AfterFunc(time.Until(at), func() { once.Do(giveUp) })
	defer timer.Stop()
	defer context.AfterFunc(ctx, func() { once.Do(giveUp) })()
	c.node.Mu.Lock()
	defer c.node.Mu.Unlock()
	for !over {
		busy := c.busyLocked()
		if !busy && c.services == 0 && c.innerLocked() == nil {
			break
		}
		c.idleLocked(busy)
	}
	return c.liveLocked() == 0 && c.innerLocked() == nil
}

// A DrainError says what did not come to its end.
type DrainError struct {
	Root    string
	Left    []Straggler // what still runs
	Cut     []error     // work of Root.Go that was cancelled before it was done, each a *TaskError
	Cleanup []error     // of cleanups, each a *TaskError
}

// Error names what was left, cut and not cleaned up.
func (e *DrainError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "scope: draining %s:", e.Root)
	for i, g := range e.Left {
		if i == few {
			fmt.Fprintf(&b, " and %d more;", len(e.Left)-few)
			break
		}
		fmt.Fprintf(&b, " %v;", g)
	}
	for i, err := range e.Cut {
		if i == few {
			fmt.Fprintf(&b, " and %d more;", len(e.Cut)-few)
			break
		}
		if te, ok := err.(*TaskError); ok {
			fmt.Fprintf(&b, " task %q cut short: %s;", te.Task, text(te.Err))
		}
	}
	for _, err := range e.Cleanup {
		if te, ok := err.(*TaskError); ok {
			fmt.Fprintf(&b, " cleanup %q: %s;", te.Task, text(te.Err))
		}
	}
	return strings.TrimSuffix(b.String(), ";")
}

// Unwrap returns what was cut and the errors of cleanups.
func (e *DrainError) Unwrap() []error { return slices.Concat(e.Cut, e.Cleanup) }

// WriteText writes the live tree: every scope opened below the Root and every task
// in it, with ages, the time left, what ended it and how long ago, who waits for a
// slot, the cleanup that runs, and orphans. It is written as it is walked, while
// the work goes on, so its parts may be of different instants.
func (r *Root) WriteText(w io.Writer) error { return r.write(w, textWriter{}) }

// WriteJSON writes the live tree as one JSON object; times are in milliseconds.
func (r *Root) WriteJSON(w io.Writer) error { return r.write(w, jsonWriter{}) }
