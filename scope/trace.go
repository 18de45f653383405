package scope

import (
	"context"
	"reflect"
	"time"

	"github.com/curfew-go/curfew/scope/internal/lab"
)

// A Trace is a set of functions that scopes call when something happens. Any of
// them may be nil. They are called on the goroutine on which it happened, must
// return quickly, and may be called from several goroutines at once. A scope that
// has no Trace, and does not stand below a [Root], pays nothing for them.
type Trace struct {
	// TaskStarted is called on the task's goroutine before its function.
	TaskStarted func(scope, task string)
	// TaskEnded is called when a task has ended, with its error and with the
	// time that it went on after its context had ended, zero when it was faster.
	// The losers of a race are tasks too: their overrun is how long it took to
	// stop them.
	TaskEnded func(scope, task string, err error, overrun time.Duration)
	// TaskSkipped is called for a task that Go or Fork did not start because
	// the scope's context had ended with cause.
	TaskSkipped func(scope, task string, cause error)
	// TaskRestarted is called when a task failed with err and will be started
	// again after the wait.
	TaskRestarted func(scope, task string, err error, wait time.Duration)
	// TaskPanicked is called as soon as a task or a cleanup has panicked, long
	// before Run re-raises it. Without it the panic goes to slog.Default at
	// level Error.
	TaskPanicked func(*PanicError)
	// TaskFailed is called for the error of work started by Root.Go or
	// Root.Serve, which has no caller to return it to. Without it the error goes
	// to slog.Default at level Error.
	TaskFailed func(root, task string, err error)
	// Straggler is called for a task or a body that still runs a grace after its
	// context ended. Without it the report goes to slog.Default at level Warn.
	Straggler func(Straggler)
	// OrphanEnded is called when a task that was abandoned has ended after all.
	OrphanEnded func(scope, task string, err error, overrun time.Duration)
	// CleanupLeftBehind is called for a cleanup that did not end within its
	// share of the scope's cleanup time and goes on running. Without it the
	// report goes to slog.Default at level Warn.
	CleanupLeftBehind func(scope, cleanup string, after time.Duration)
}

// WithTrace returns a context whose scopes, and all below them, call t, and then
// what a Trace of ctx has for the same event. The reports that go to slog.Default
// when nobody takes them go to t alone from then on, for those that t takes.
func WithTrace(ctx context.Context, t *Trace) context.Context {
	if ctx == nil {
		panic("scope: WithTrace: nil context")
	}
	if t == nil {
		panic("scope: WithTrace: nil Trace")
	}
	e := env{trace: t}
	if old := envOf(ctx); old != nil {
		e = *old
		e.trace = composed(t, old.trace)
	}
	return context.WithValue(ctx, envKey{}, &e)
}

// composed returns a Trace that calls the functions of a, then those of b.
func composed(a, b *Trace) *Trace {
	if b == nil {
		return a
	}
	both := *a
	va, vb := reflect.ValueOf(&both).Elem(), reflect.ValueOf(b).Elem()
	for i := range va.NumField() {
		first, then := va.Field(i), vb.Field(i)
		switch {
		case then.IsNil():
		case first.IsNil():
			first.Set(then)
		default:
			f := reflect.ValueOf(first.Interface())
			first.Set(reflect.MakeFunc(first.Type(), func(args []reflect.Value) []reflect.Value {
				f.Call(args)
				return then.Call(args)
			}))
		}
	}
	return &both
}

// An env is what a context brings to the scopes below it: who looks on.
type env struct {
	trace *Trace
	root  *Root // in whose tree the scopes stand
	test  *lab.Test
}

type envKey struct{}

// envOf returns who looks on at what is opened under ctx, nil for nobody.
func envOf(ctx context.Context) *env {
	e, _ := ctx.Value(envKey{}).(*env)
	return e
}
