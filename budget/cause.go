package budget

import (
	"context"
	"errors"
	"strings"
)

// ErrNoDeadline is the error of work entered with Inherited under a parent that
// has no deadline. It is a mistake of the program: give the work a limit.
var ErrNoDeadline = errors.New("budget: no deadline: Inherited needs a parent that has one")

// A Cause says why a context ended or why work was not begun. context.Cause of
// a context that curfew ended answers a *Cause. It is not changed after it was
// made, and shared by all contexts that the same event ended.
//
// A Cause matches context.DeadlineExceeded or context.Canceled by its Kind
// alone, and everything else through Err. So the timeout that a sibling ran
// into never makes my error look like a timeout of mine.
type Cause struct {
	Kind  Kind
	Limit string // the limits that led to the deadline, the tightest first, joined by " < "; empty when no deadline was involved
	Scope string // path of the scope that ended, such as "checkout/order"; may be empty
	Task  string // name of the task that ended it; empty when no task did
	Phase string // where a dependency was, such as "connect"; may be empty
	Err   error  // the error behind it; may be nil
}

// Error returns the whole cause in one line. Of URLs in the text of Err it leaves out
// user names, passwords and queries, and the host where it cannot be told from those;
// of data source names, "user:password@" and what follows "password=" and the like.
// The rest of that text is as Err has it.
func (c *Cause) Error() string {
	if c == nil {
		return "budget: no cause"
	}
	var b strings.Builder
	b.WriteString("budget: ")
	b.WriteString(strings.ReplaceAll(c.Kind.String(), "_", " "))
	sep := ": "
	for _, part := range [...]struct{ what, value string }{
		{"scope ", c.Scope}, {"task ", c.Task}, {"phase ", c.Phase}, {"limit ", c.Limit},
	} {
		if part.value != "" {
			b.WriteString(sep)
			b.WriteString(part.what)
			b.WriteString(part.value)
			sep = ", "
		}
	}
	if c.Err != nil {
		b.WriteString(": ")
		b.WriteString(withoutSecrets(c.Err.Error()))
	}
	return b.String()
}

// Is reports whether the cause matches target: the std sentinels by Kind alone,
// everything else through Err. There is no Unwrap on purpose.
func (c *Cause) Is(target error) bool {
	if c == nil {
		return false
	}
	if target == context.Canceled || target == context.DeadlineExceeded {
		return target == c.Kind.Sentinel()
	}
	return c.Err != nil && errors.Is(c.Err, target)
}

// As finds target in Err.
func (c *Cause) As(target any) bool { return c != nil && c.Err != nil && errors.As(c.Err, target) }

// Timeout reports whether time ran out; with Temporary it makes a *Cause a
// net.Error, as context.DeadlineExceeded is one.
func (c *Cause) Timeout() bool {
	return c != nil && (c.Kind.Sentinel() == context.DeadlineExceeded || c.Kind == DependencyTimeout)
}

// Temporary reports the same as Timeout, as context.DeadlineExceeded does.
func (c *Cause) Temporary() bool { return c.Timeout() }
