package scope

import (
	"context"
	"log/slog"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"sync"
	"time"

	"github.com/curfew-go/curfew/internal/ctxnode"
)

// What tasks and scopes do when somebody looks on: a Trace, the tree of a Root, a
// test. All of it is reached only in scopes that have an env, but for the regions
// of runtime/trace.

// trace returns the Trace of c's scope, nil when it has none.
func (c *core) trace() *Trace {
	if c.env == nil {
		return nil
	}
	return c.env.trace
}

// watchBegin notes, before t is counted, what the tree and tests show of it.
func (t *task) watchBegin(spawn []uintptr) {
	m := t.extra()
	m.spawn = spawn
	if t.core.env.root != nil {
		m.began = time.Now()
	}
	t.disturbable()
}

// callWatched runs t's function.
func (t *task) callWatched() error {
	c := t.core
	e := c.env
	ctx := t.context()
	if e.root != nil {
		e.root.labels.set(t)
	}
	if tr := e.trace; tr != nil && tr.TaskStarted != nil {
		tr.TaskStarted(c.node.Path(), t.title())
	}
	if trace.IsEnabled() {
		defer trace.StartRegion(ctx, t.title()).End()
	}
	return t.work.call(ctx, t)
}

func (t *task) tellEnded(err error, overrun time.Duration) {
	if tr := t.core.trace(); tr != nil && tr.TaskEnded != nil {
		tr.TaskEnded(t.core.node.Path(), t.title(), err, overrun)
	}
}

func (t *task) tellRestarted(err error, wait time.Duration) {
	c := t.core
	if tr := c.trace(); tr != nil && tr.TaskRestarted != nil {
		tr.TaskRestarted(c.node.Path(), t.title(), err, wait)
		return
	}
	slog.Default().Warn("scope: task restarts", "scope", c.node.Path(), "task", t.title(), "error", err, "wait", wait)
}

// spawnSite returns the calls that led to the start of a task, when a test wants
// to know.
func (e *env) spawnSite() []uintptr {
	if e.test == nil {
		return nil
	}
	pcs := make([]uintptr, 16)
	return pcs[:runtime.Callers(3, pcs)]
}

// withTraceTask begins a task of runtime/trace for a scope, when a trace is being
// taken.
func withTraceTask(ctx context.Context, name string) (context.Context, func()) {
	if !trace.IsEnabled() {
		return ctx, func() {}
	}
	ctx, task := trace.NewTask(ctx, name)
	return ctx, task.End
}

// opener returns the task, or else the scope's body, in which v was handed out;
// both are nil when there is none.
func opener(v *ctxnode.View) (*task, *core) {
	for ; v != nil; v = v.Node().Above() {
		switch o := v.Owner.(type) {
		case *task:
			return o, nil
		case *core:
			return nil, o
		}
	}
	return nil, nil
}

// labelCache holds the pprof labels of tasks, built once for each pair of scope
// and task names: to build them costs more than to start the task.
type labelCache struct {
	mu    sync.RWMutex
	known map[labelKey]context.Context
}

type labelKey struct{ scope, task string }

// maxLabels bounds the cache, for names that are made up as they go.
const maxLabels = 4096

// set gives the calling goroutine the labels "scope" and "task" beside those that
// t's context has.
func (l *labelCache) set(t *task) {
	ctx, key := t.context(), labelKey{t.core.node.Name, t.title()}
	own := false
	pprof.ForLabels(ctx, func(string, string) bool { own = true; return false })
	if own {
		pprof.SetGoroutineLabels(pprof.WithLabels(ctx, key.labels()))
	} else {
		pprof.SetGoroutineLabels(l.of(key))
	}
}

// relabelCaller gives a goroutine that has run t for its scope's body the labels
// back which it had before, as far as curfew knows them.
func (t *task) relabelCaller() {
	root := t.core.env.root
	if root == nil {
		return
	}
	if above, _ := opener(t.core.node.Above()); above != nil {
		root.labels.set(above)
	} else {
		pprof.SetGoroutineLabels(t.context())
	}
}

func (l *labelCache) of(k labelKey) context.Context {
	l.mu.RLock()
	ctx, ok := l.known[k]
	l.mu.RUnlock()
	if ok {
		return ctx
	}
	ctx = pprof.WithLabels(context.Background(), k.labels())
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.known) >= maxLabels {
		clear(l.known)
	}
	if l.known == nil {
		l.known = map[labelKey]context.Context{}
	}
	l.known[k] = ctx
	return ctx
}

func (k labelKey) labels() pprof.LabelSet { return pprof.Labels("scope", k.scope, "task", k.task) }
