package scope

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/curfew-go/curfew/budget"
)

// An Error is why a scope did not succeed. Run returns it when something failed
// or something was cut: a task was skipped, or a task or the body returned an
// error that matches its own ended context. When nothing failed and nothing was
// cut Run returns nil, even past the deadline.
//
// errors.Is and errors.As search all of it. Errors that tasks returned because
// they were cancelled do not match context.Canceled or context.DeadlineExceeded,
// though: those two are answered by Cause, and by failures that match them by
// themselves.
type Error struct {
	// Scope is the path of the scope.
	Scope string
	// Cause is what ended the scope's context first: the first failure, with
	// kind Failed, the deadline, the parent, or a Cancel. It is never nil.
	Cause *budget.Cause
	// Failures are the real errors up to and including the one that ended the
	// scope, each a *TaskError. The body's own failure always stands first.
	// It is empty when no failure ended the scope.
	Failures []error
	// Late is what came back after the scope had ended, each a *TaskError: real
	// errors first, then those of tasks that were cut short. What several tasks or
	// scopes say alike may be one entry in many places: entries must not be changed,
	// the list may be.
	Late []error
	// Cleanup are the errors of cleanups, each a *TaskError. They never replace
	// the verdict; when nothing else went wrong Cause has kind Failed.
	Cleanup []error

	core     *core // whose verdict it is
	wrapping error // what the body made of a failure; nil when nothing
	skipped  int
	cut      *fate // set: all that it says is that the end of the scope's context cut it short, see fateOf
}

// few is how many errors or names a text lists before it counts the rest.
const few = 5

// maxText is how long a verdict's text gets: nested ones repeat each other.
const maxText = 4 << 10

// Error returns the cause in one line, then what else went wrong, at most four
// kilobytes of it.
func (e *Error) Error() string {
	if e == nil || e.Cause == nil {
		return "scope: no error"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "scope: %s: ", e.Scope)
	told := e.writeHeadline(&b)
	var cut []string
	others := 0
	for _, f := range append(e.Failures[:len(e.Failures):len(e.Failures)], e.Late...) {
		te, ok := f.(*TaskError)
		switch {
		case f == told:
		case ok && te.Induced:
			cut = append(cut, te.cutNames()...)
		case others < few && ok && e.wrapping != nil && errors.Is(e.wrapping, te.Err):
			// the headline tells of it
		default:
			if others++; others <= few {
				b.WriteString("; also " + text(f))
			}
		}
	}
	if others > few {
		fmt.Fprintf(&b, "; and %d more errors", others-few)
	}
	if len(cut) > 0 {
		b.WriteString("; cut short: " + summary(cut))
	}
	if e.skipped > 0 {
		fmt.Fprintf(&b, "; not begun: %d", e.skipped)
	}
	for i, f := range e.Cleanup {
		if i == few {
			fmt.Fprintf(&b, "; and %d more cleanups", len(e.Cleanup)-few)
			break
		}
		if te, ok := f.(*TaskError); ok {
			fmt.Fprintf(&b, "; cleanup %q: %s", te.Task, text(te.Err))
		}
	}
	if b.Len() > maxText {
		return b.String()[:maxText] + "…"
	}
	return b.String()
}

// writeHeadline writes what ended the scope, and returns the failure it told of.
func (e *Error) writeHeadline(b *strings.Builder) (told error) {
	switch {
	case e.wrapping != nil:
		b.WriteString(text(e.wrapping))
	case e.Cause.Kind != budget.Failed:
		cause := *e.Cause
		if cause.Scope == e.Scope {
			cause.Scope = "" // said already
		}
		b.WriteString(strings.TrimPrefix(cause.Error(), "budget: "))
	case len(e.Failures) > 0:
		told = e.Failures[0]
		for _, f := range e.Failures {
			if te, ok := f.(*TaskError); ok && te.Task == e.Cause.Task {
				told = f
			}
		}
		b.WriteString(text(told))
	case e.Cause.Err != nil:
		b.WriteString(text(e.Cause.Err))
	default:
		b.WriteString("cleanup failed")
	}
	return told
}

// cutNames names what was cut short: the task, or where its error is the verdict of
// a scope inside it, what was cut there.
func (e *TaskError) cutNames() []string {
	inner, ok := e.Err.(*Error)
	if !ok || inner == nil {
		return []string{e.name()}
	}
	var names []string
	for _, f := range inner.Late {
		if te, ok := f.(*TaskError); ok && te.Induced {
			for _, name := range te.cutNames() {
				names = append(names, fmt.Sprintf("%s in scope %q", name, lastOf(inner.Scope)))
			}
		}
	}
	if names == nil {
		return []string{e.name()}
	}
	return names
}

// lastOf returns the last element of a path.
func lastOf(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// summary lists a few names and counts the rest.
func summary(names []string) string {
	if len(names) <= few {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), len(names)-few)
}

// text is err's text, without the stack that a panic's has.
func text(err error) string {
	if pe, ok := err.(*PanicError); ok {
		return pe.headline()
	}
	return err.Error()
}

// Unwrap returns Failures, Late and Cleanup for errors.Is and errors.As. Cause
// is answered by Is and As: it wraps the same failure, and to search that twice
// in every one of many nested scopes would take for ever.
func (e *Error) Unwrap() []error {
	if e == nil {
		return nil
	}
	return slices.Concat(e.Failures, e.Late, e.Cleanup)
}

// Is answers for the cause and for what the body added to a failure.
func (e *Error) Is(target error) bool {
	if e == nil || e.Cause == nil {
		return false
	}
	if isSentinel(target) {
		return target == e.Cause.Kind.Sentinel()
	}
	return target == error(e.Cause) ||
		e.causeSaysMore() && errors.Is(e.Cause.Err, target) ||
		among(e.wrapping, e.recorded, func(err error) bool { return isItself(err, target) })
}

// As answers for the cause and for what the body added to a failure.
func (e *Error) As(target any) bool {
	if e == nil || e.Cause == nil {
		return false
	}
	if _, ok := target.(**budget.Cause); ok || e.Cause.Kind != budget.Failed {
		if assign(e.Cause, target) {
			return true // also as a net.Error, unless a failure may be one
		}
	}
	return e.causeSaysMore() && errors.As(e.Cause.Err, target) ||
		among(e.wrapping, e.recorded, func(err error) bool { return asItself(err, target) })
}

// causeSaysMore reports whether the cause wraps an error that does not stand
// among the failures.
func (e *Error) causeSaysMore() bool {
	return e.Cause.Err != nil && (e.Cause.Kind != budget.Failed || len(e.Failures) == 0)
}

// recorded reports whether err is this scope's own verdict or a failure in it.
func (e *Error) recorded(err error) bool {
	if w, ok := err.(*Error); ok && w != nil && w.core == e.core {
		return true
	}
	for _, list := range [...][]error{e.Failures, e.Late} {
		for _, f := range list[:min(few, len(list))] { // the rest costs time, not truth
			if te, ok := f.(*TaskError); ok && identical(te.Err, err) {
				return true
			}
		}
	}
	return false
}

// among reports whether yes holds for err or for an error that it wraps,
// without going into what skip names, and never into a cause: a cause that was
// passed on wraps a failure that is searched where it was recorded.
func among(err error, skip, yes func(error) bool) bool {
	if err == nil || skip != nil && skip(err) {
		return false
	}
	if _, ok := err.(*budget.Cause); ok {
		return false
	}
	if te, ok := err.(*TaskError); ok {
		return te != nil && among(te.Err, skip, yes)
	}
	if _, verdict := err.(*Error); !verdict && yes(err) {
		return true
	}
	switch w := err.(type) {
	case interface{ Unwrap() error }:
		return among(w.Unwrap(), skip, yes)
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(w.Unwrap(), func(err error) bool { return among(err, skip, yes) })
	}
	return false
}

// isItself is errors.Is without what err wraps.
func isItself(err, target error) bool {
	if reflect.TypeOf(target).Comparable() && err == target {
		return true
	}
	is, ok := err.(interface{ Is(error) bool })
	return ok && is.Is(target)
}

// asItself is errors.As without what err wraps.
func asItself(err error, target any) bool {
	if assign(err, target) {
		return true
	}
	as, ok := err.(interface{ As(any) bool })
	return ok && as.As(target)
}

// assign sets what target points to to err, if err is of its type.
func assign(err error, target any) bool {
	to := reflect.ValueOf(target).Elem()
	if !reflect.TypeOf(err).AssignableTo(to.Type()) {
		return false
	}
	to.Set(reflect.ValueOf(err))
	return true
}

// identical reports whether a and b are the same pointer.
func identical(a, b error) bool {
	t := reflect.TypeOf(a)
	return t != nil && t.Kind() == reflect.Pointer && t == reflect.TypeOf(b) && a == b
}

func isSentinel(err error) bool {
	return err == context.Canceled || err == context.DeadlineExceeded
}

// A TaskError is the error that one task, the body or one cleanup brought back.
type TaskError struct {
	Task    string // its name; empty for the body
	Err     error  // what it returned; a *PanicError when it panicked, ErrGoexit after a Goexit
	Induced bool   // it was cut short: Err only says that the scope had ended

	behind *budget.Cause // what ended the task's own context, where Err does not say
}

// Error names the task and its error.
func (e *TaskError) Error() string {
	if limit := e.limit(); limit != "" {
		return fmt.Sprintf("%s: %s (limit %s)", e.name(), text(e.Err), limit)
	}
	return e.name() + ": " + text(e.Err)
}

// limit is what the task ran into, where Err does not say.
func (e *TaskError) limit() string {
	if e.behind == nil {
		return ""
	}
	return e.behind.Limit
}

func (e *TaskError) name() string {
	if e.Task == "" {
		return "body"
	}
	return fmt.Sprintf("task %q", e.Task)
}

// Unwrap returns Err, or nil when the error was induced: see Is.
func (e *TaskError) Unwrap() error {
	if e.Induced {
		return nil
	}
	return e.Err
}

// Is answers for an induced error, which must not make the verdict look like a
// cancellation or a timeout when something else ended the scope.
func (e *TaskError) Is(target error) bool {
	return e.Induced && !isSentinel(target) &&
		among(e.Err, nil, func(err error) bool { return isItself(err, target) })
}

// As answers for an induced error, as Is does.
func (e *TaskError) As(target any) bool {
	return e.Induced && among(e.Err, nil, func(err error) bool { return asItself(err, target) })
}
