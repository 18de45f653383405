package retrybudget

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// ErrDenied is what every *DeniedError matches.
var ErrDenied = errors.New("retrybudget: denied")

// A DeniedError says that another attempt was wanted and not made. It comes at
// once, without waiting. It matches ErrDenied, and through Unwrap both the
// error of the last attempt and what stood in the way.
//
// Layers above must not repeat the call: see RetriedBelow.
type DeniedError struct {
	Target   string
	Attempts int           // made before; zero when Gate refused the first
	Why      string        // in words
	Wait     time.Duration // how long to leave the target alone, which is what Pause waits; zero when the call has ended
	Last     error         // of the last attempt; nil when there was none
	Cause    error         // what Gate returned, or why the context ended during the wait; nil when it was neither
}

// Error says all of it, one after the other.
func (e *DeniedError) Error() string {
	text := fmt.Sprintf("retrybudget: %s: denied after %s: %s", printable(e.Target), plural(e.Attempts, "attempt"), e.Why)
	for _, err := range e.Unwrap() {
		text += ": " + err.Error()
	}
	return text
}

// Is reports whether target is ErrDenied.
func (e *DeniedError) Is(target error) bool { return target == ErrDenied }

// Unwrap returns Cause and Last, those that there are.
func (e *DeniedError) Unwrap() []error { return those(e.Cause, e.Last) }

// RetriedBelow says that the layer of this error decided about retries, so that
// no layer above repeats what it tried or was denied: three layers of three
// attempts each would make 27 calls of one. Do asks every error for this
// method, anywhere in its tree, and error types of adapters may have it.
func (e *DeniedError) RetriedBelow() bool { return true }

// A RetriedError says that a call failed after more than one attempt. A call
// that failed at its first, and was not to be repeated, returns that error bare.
type RetriedError struct {
	Target   string
	Attempts int   // two or more
	Last     error // of the last attempt
	Earlier  error // of the one before, when the call had ended by then, so that Last may say only that; nil otherwise
}

// Error says all of it, one after the other.
func (e *RetriedError) Error() string {
	text := fmt.Sprintf("retrybudget: %s: failed after %s", printable(e.Target), plural(e.Attempts, "attempt"))
	for _, err := range e.Unwrap() {
		text += ": " + err.Error()
	}
	return text
}

// Unwrap returns Last and Earlier, those that there are.
func (e *RetriedError) Unwrap() []error { return those(e.Last, e.Earlier) }

// RetriedBelow says that no layer above repeats the call, as for DeniedError.
func (e *RetriedError) RetriedBelow() bool { return true }

// Pause waits as long as a *DeniedError in err's tree suggests, and not at all
// without one. It is for loops that go on for ever, such as a worker's: where
// the budget is empty nothing else would slow them down. The error is the cause
// of ctx's end, if that comes first; nil otherwise.
func Pause(ctx context.Context, err error) error {
	mustHave(ctx, "Pause")
	var denied *DeniedError
	if errors.As(err, &denied) {
		return sleep(ctx, denied.Wait)
	}
	return sleep(ctx, 0)
}

// sleep waits for d, or for the end of ctx, whose cause it returns.
func sleep(ctx context.Context, d time.Duration) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// printable returns target as it is when it cannot break a line of a log, and
// quoted otherwise: it may come from outside.
func printable(target string) string {
	if utf8.ValidString(target) && strings.IndexFunc(target, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return target
	}
	return strconv.Quote(target)
}

func those(errs ...error) []error {
	there := make([]error, 0, len(errs))
	for _, err := range errs {
		if err != nil {
			there = append(there, err)
		}
	}
	return there
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
