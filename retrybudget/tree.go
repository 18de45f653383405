package retrybudget

import (
	"errors"
	"slices"
)

// RetriedBelow reports whether a layer below has decided about retries of err, or of
// any of the errors joined in it: it tried more than once, or was denied another
// attempt. Do does not repeat such a call; an adapter tells its caller, as
// curfewhttp does in a header. RetriedBelow looks through wrapping, and through the
// verdict of a scope.
func RetriedBelow(err error) bool {
	type below interface{ RetriedBelow() bool }
	return slices.ContainsFunc(sayings[below](err), below.RetriedBelow) ||
		// An error that answers errors.As alone shows one of each type: ours it
		// shows whatever stands before them.
		errors.As(err, new(*RetriedError)) || errors.As(err, new(*DeniedError))
}

// saysSafe returns what the errors in err's tree with a method SafeToRetry say
// together, which is yes if all do. ok is false when there is none.
func saysSafe(err error) (safe, ok bool) {
	type says interface{ SafeToRetry() bool }
	all := sayings[says](err)
	ran := func(s says) bool { return !s.SafeToRetry() }
	return !slices.ContainsFunc(all, ran), len(all) > 0
}

// sayings returns the errors in err's tree that are a T. Below one of them it
// looks no further, as errors.As: what wraps an error knows more than that does.
// Unlike errors.As it looks at all that were joined: that one of two calls did
// not run says nothing about the other.
func sayings[T any](err error) []T {
	if said, ok := err.(T); ok {
		return []T{said}
	}
	var found []T
	switch w := err.(type) {
	case interface{ Unwrap() error }:
		found = sayings[T](w.Unwrap())
	case interface{ Unwrap() []error }:
		for _, below := range w.Unwrap() {
			found = append(found, sayings[T](below)...)
		}
	}
	var said T
	if as, ok := err.(interface{ As(any) bool }); ok && as.As(&said) {
		found = append(found, said) // perhaps one of those again, which changes nothing
	}
	return found
}
