package race

import (
	"context"
	"fmt"
	"strings"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/ctxnode"
	"github.com/curfew-go/curfew/scope"
)

// An Error is why a race returned no value. errors.Is and errors.As search the
// failures, and budget.KindOf says in one word what it comes to: the kind of what
// ended the context, or that of the failure that decided.
type Error struct {
	// Race is the path of the race, such as "checkout/price".
	Race string
	// Cause is never nil. Its kind is Failed when the attempts decided, and then
	// its Err is the failure that did: a terminal one, else the first. Otherwise
	// it is why the race's context ended, or why the race did not begin; one
	// without a deadline matches budget.ErrNoDeadline.
	Cause *budget.Cause
	// Failures are what the attempts came back with until the race was decided,
	// each a *scope.TaskError, in the order in which they came.
	Failures []error

	what string // how it was decided, for the text
}

// few is how many failures a text lists before it counts the rest.
const few = 5

// Error says how the race ended, then which attempts failed, and with what.
func (e *Error) Error() string {
	if e == nil || e.Cause == nil {
		return "race: no error"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "race: %s: %s", e.Race, e.what)
	sep := ": "
	for i, f := range e.Failures {
		if i == few {
			fmt.Fprintf(&b, "; and %d more", len(e.Failures)-few)
			break
		}
		b.WriteString(sep)
		b.WriteString(f.Error())
		sep = "; "
	}
	return b.String()
}

// Unwrap returns Failures.
func (e *Error) Unwrap() []error {
	if e == nil {
		return nil
	}
	return e.Failures
}

// Is answers for the cause.
func (e *Error) Is(target error) bool {
	return e != nil && e.Cause != nil && (target == error(e.Cause) || e.Cause.Is(target))
}

// As answers for the cause.
func (e *Error) As(target any) bool {
	if e == nil || e.Cause == nil {
		return false
	}
	if c, ok := target.(**budget.Cause); ok {
		*c = e.Cause
		return true
	}
	return e.Cause.As(target)
}

// outcome returns why the race, which is decided and was called with ctx, was not won.
func (c *contest) outcome(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	own := c.ownLocked()
	e := &Error{Race: c.path(ctx), Failures: own.failures}
	if c.verdict == ended {
		e.Cause = asCause(own.end.Cause(), e.Race)
		e.what = textOf(e.Cause)
		if len(e.Failures) > 0 {
			e.what += ", after failures"
		}
		return e
	}
	decider := own.decider
	switch {
	case decider != nil:
		e.what = "stopped by a terminal error"
	case c.need > 1:
		e.what = fmt.Sprintf("%d of %d succeeded, %d needed", c.won, c.tries, c.need)
	case len(e.Failures) == 1:
		e.what = "its only attempt failed"
	default:
		e.what = fmt.Sprintf("all %d attempts failed", len(e.Failures))
	}
	if decider == nil {
		decider = e.Failures[0]
	}
	e.Cause = &budget.Cause{Kind: budget.Failed, Scope: e.Race, Err: decider}
	return e
}

// refused returns the error of a race that did not begin under ctx.
func (c *contest) refused(ctx context.Context, err error) error {
	e := &Error{Race: c.path(ctx)}
	e.Cause = asCause(err, e.Race)
	e.what = "not begun: " + textOf(e.Cause)
	return e
}

// notOpened notes that a scope for the race alone could not be opened: the time has
// run out since the race was entered.
func (c *contest) notOpened(err error) {
	c.group.CatchUp()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.verdict == undecided {
		own := c.ownLocked()
		own.decider = &scope.TaskError{Task: c.name, Err: err}
		own.failures = append(own.failures, own.decider)
		c.loseLocked()
	}
}

// path returns the path of the race, which was called with ctx.
func (c *contest) path(ctx context.Context) string {
	if v := ctxnode.Find(ctx); v != nil && v.Path() != "" {
		return v.Path() + "/" + c.name
	}
	return c.name
}

// asCause returns err as a *budget.Cause.
func asCause(err error, path string) *budget.Cause {
	if c, ok := err.(*budget.Cause); ok && c != nil {
		return c
	}
	return &budget.Cause{Kind: budget.Failed, Scope: path, Err: err}
}

func textOf(c *budget.Cause) string { return strings.TrimPrefix(c.Error(), "budget: ") }
