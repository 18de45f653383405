package budget

import (
	"context"
	"errors"
	"net/http"
	"os"
	"slices"
)

// A Kind says in one word why work ended. The zero Kind is None: it did not.
type Kind uint8

// The kinds. What each means to callers and protocols stands in one table, in
// this file; Kind's methods read it.
const (
	None                Kind = iota // no error
	Failed                          // the work itself returned an error
	Cancelled                       // the work's owner cancelled it
	UserCancelled                   // a person asked for it to stop; for callers of Cancel to set
	ClientCancelled                 // the client left
	DeadlineExceeded                // time ran out while the work ran
	ExpiredOnArrival                // time had run out before the work began; it did not begin
	LocalBudgetRejected             // too little time was left to begin; it did not begin
	DependencyTimeout               // a dependency ran into a limit of its own; for callers to set
	SiblingFailed                   // another task of the scope failed
	RaceLost                        // another attempt won
	ParentCancelled                 // a parent context, not made by curfew, was cancelled
	Overloaded                      // the receiver has no room; for callers to set
	Shutdown                        // the process is going down; for callers to set
	Closed                          // the scope is over
)

// Retry says whether a caller may try again after an error of some kind.
type Retry uint8

// The answers of Kind.Retry.
const (
	RetryNo       Retry = iota // not, with this budget or another
	RetryJudge                 // the caller's own judgement of the error decides
	RetryFresh                 // only with a fresh budget: the work did not begin
	RetryIfBudget              // when enough of the budget is left
	RetryYes                   // yes
)

// gRPC status codes, by number so that nobody inherits a gRPC module.
// Source: https://grpc.io/docs/guides/status-codes/
const (
	grpcOK               = 0
	grpcCancelled        = 1
	grpcUnknown          = 2
	grpcDeadlineExceeded = 4
	grpcUnavailable      = 14
)

// statusClientClosed is what logs write for a client that left; no client ever
// sees it.
const statusClientClosed = 499

var kinds = [...]struct {
	name     string
	sentinel error
	http     int
	grpc     uint32
	retry    Retry
}{
	None:                {"none", nil, http.StatusOK, grpcOK, RetryNo},
	Failed:              {"failed", nil, http.StatusInternalServerError, grpcUnknown, RetryJudge},
	Cancelled:           {"cancelled", context.Canceled, http.StatusInternalServerError, grpcCancelled, RetryNo},
	UserCancelled:       {"user_cancelled", context.Canceled, http.StatusConflict, grpcCancelled, RetryNo},
	ClientCancelled:     {"client_cancelled", context.Canceled, statusClientClosed, grpcCancelled, RetryNo},
	DeadlineExceeded:    {"deadline_exceeded", context.DeadlineExceeded, http.StatusGatewayTimeout, grpcDeadlineExceeded, RetryNo},
	ExpiredOnArrival:    {"expired_on_arrival", context.DeadlineExceeded, http.StatusServiceUnavailable, grpcDeadlineExceeded, RetryFresh},
	LocalBudgetRejected: {"local_budget_rejected", context.DeadlineExceeded, http.StatusServiceUnavailable, grpcDeadlineExceeded, RetryFresh},
	DependencyTimeout:   {"dependency_timeout", nil, http.StatusGatewayTimeout, grpcDeadlineExceeded, RetryIfBudget},
	SiblingFailed:       {"sibling_failed", context.Canceled, http.StatusInternalServerError, grpcCancelled, RetryNo},
	RaceLost:            {"race_lost", context.Canceled, http.StatusInternalServerError, grpcCancelled, RetryNo},
	ParentCancelled:     {"parent_cancelled", context.Canceled, http.StatusInternalServerError, grpcCancelled, RetryNo},
	Overloaded:          {"overloaded", nil, http.StatusServiceUnavailable, grpcUnavailable, RetryYes},
	Shutdown:            {"shutdown", nil, http.StatusServiceUnavailable, grpcUnavailable, RetryYes},
	Closed:              {"closed", context.Canceled, http.StatusInternalServerError, grpcCancelled, RetryNo},
}

// valid returns k, or Failed for a number that is no kind.
func (k Kind) valid() Kind {
	if int(k) < len(kinds) {
		return k
	}
	return Failed
}

// String returns the kind as telemetry writes it, such as "deadline_exceeded".
func (k Kind) String() string { return kinds[k.valid()].name }

// Sentinel returns the standard library's error that an error of this kind
// matches, context.Canceled or context.DeadlineExceeded; nil when none.
func (k Kind) Sentinel() error { return kinds[k.valid()].sentinel }

// HTTPStatus returns the status that tells this kind to a client. 499, for a
// client that left, is for logs: no client sees it.
func (k Kind) HTTPStatus() int { return kinds[k.valid()].http }

// GRPCCode returns the gRPC status code of this kind, by number.
func (k Kind) GRPCCode() uint32 { return kinds[k.valid()].grpc }

// Retry returns whether a caller may try again.
func (k Kind) Retry() Retry { return kinds[k.valid()].retry }

// KindOf classifies err: None for nil, the kind of the first *Cause in its
// tree, else by what it matches: context.DeadlineExceeded, context.Canceled,
// a network timeout (DependencyTimeout), and Failed for anything else.
//
// For an error of scope.Run it is the kind of what ended the scope; when that
// was the failure of a task, it is the kind of the task's own error, so that a
// handler answers 504 when a required call ran out of time. The scope had begun
// by then: a step inside it that was not begun makes it DeadlineExceeded, never
// ExpiredOnArrival or LocalBudgetRejected, and a dependency that is Overloaded
// or in Shutdown makes it Failed. Those four say that nothing was done, which
// invites a retry, and something may have been.
//
// Outside a scope KindOf speaks of the step that returned err: after a side
// effect, a refusal of the next step does not mean that nothing was done.
func KindOf(err error) Kind {
	if err == nil {
		return None
	}
	c, _ := errors.AsType[*Cause](err)
	switch {
	case c != nil:
		if c.Kind == Failed && c.Err != nil {
			return begun(KindOf(c.Err))
		}
		return c.Kind
	case errors.Is(err, context.DeadlineExceeded):
		return DeadlineExceeded
	case errors.Is(err, context.Canceled):
		return Cancelled
	case errors.Is(err, os.ErrDeadlineExceeded), timedOut(err):
		return DependencyTimeout
	}
	return Failed
}

// begun returns what the failure of a step of kind k makes of work that had
// begun.
func begun(k Kind) Kind {
	switch k {
	case ExpiredOnArrival, LocalBudgetRejected:
		return DeadlineExceeded
	case Overloaded, Shutdown:
		return Failed
	}
	return k
}

// timedOut reports whether an error in err's tree says that it is a timeout.
// errors.As would stop at the first that could say so, and *url.Error asks only
// the error right below it.
func timedOut(err error) bool {
	if t, ok := err.(interface{ Timeout() bool }); ok && t.Timeout() {
		return true
	}
	switch err := err.(type) {
	case interface{ Unwrap() error }:
		return timedOut(err.Unwrap())
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(err.Unwrap(), timedOut)
	}
	return false
}
