package scope

import (
	"context"
	"time"
)

// A Trace is a set of functions that scopes call when something happens. Any of
// them may be nil. They are called on the goroutine on which it happened, must
// return quickly, and may be called from several goroutines at once.
type Trace struct {
	// TaskSkipped is called for a task that Go or Fork did not start because
	// the scope's context had ended with cause.
	TaskSkipped func(scope, task string, cause error)
	// TaskPanicked is called as soon as a task or a cleanup has panicked, long
	// before Run re-raises it. Without it the panic goes to slog.Default at
	// level Error.
	TaskPanicked func(*PanicError)
	// CleanupLeftBehind is called for a cleanup that did not end within its
	// share of the scope's cleanup time and goes on running. Without it the
	// report goes to slog.Default at level Warn.
	CleanupLeftBehind func(scope, cleanup string, after time.Duration)
}

type traceKey struct{}

// WithTrace returns a context whose scopes, and all below them, call t.
func WithTrace(ctx context.Context, t *Trace) context.Context {
	return context.WithValue(ctx, traceKey{}, t)
}

// traceOf is asked only when something has happened: a scope that goes well
// never pays for the look-up.
func traceOf(ctx context.Context) *Trace {
	t, _ := ctx.Value(traceKey{}).(*Trace)
	return t
}
