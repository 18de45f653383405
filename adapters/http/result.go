package curfewhttp

import (
	"net/http"
	"strings"

	"github.com/curfew-go/curfew/budget"
)

// ResultHeader is the name of the response header in which a Handler says what
// became of the budget that the request brought. A response to a request with a
// budget that does not bear it comes from somebody who does not honour budgets.
// It is a token with parameters, as structured fields are (RFC 9651):
//
//	X-Request-Deadline-Result: ok
//	X-Request-Deadline-Result: expired_on_arrival;not-started
//	X-Request-Deadline-Result: deadline_exceeded;own-limit;retried
//
// An edge does not send it.
const ResultHeader = "X-Request-Deadline-Result"

// A Result is what ResultHeader says.
type Result struct {
	// Kind is None for a request that was answered, else the kind of its
	// failure. A kind that this version does not know is Failed.
	Kind budget.Kind
	// NotStarted says that no part of the work was begun, so that the request may
	// be sent again whatever its method is.
	NotStarted bool
	// OwnLimit says that the peer ran into a limit of its own, shorter than the
	// budget it was given, so that more time may be left here.
	OwnLimit bool
	// Retried says that the peer, or one behind it, tried more than once or was
	// denied another attempt: nobody above repeats the call.
	Retried bool
}

const (
	resultOK         = "ok"
	resultNotStarted = ";not-started"
	resultOwnLimit   = ";own-limit"
	resultRetried    = ";retried"
)

// String returns r as the header says it.
func (r Result) String() string {
	text := resultOK
	if r.Kind != budget.None {
		text = r.Kind.String()
	}
	if r.NotStarted {
		text += resultNotStarted
	}
	if r.OwnLimit {
		text += resultOwnLimit
	}
	if r.Retried {
		text += resultRetried
	}
	return text
}

// maxResult is longer than any result of ours; what is longer is not one.
const maxResult = 128

// ResultOf returns what a response's header says; ok is false when it bears no
// ResultHeader, several, or a malformed one. Parameters that this version does
// not know are passed over.
func ResultOf(h http.Header) (r Result, ok bool) {
	values := h[ResultHeader]
	if len(values) != 1 || len(values[0]) > maxResult {
		return Result{}, false
	}
	token, params, _ := strings.Cut(values[0], ";")
	kind, ok := kindNamed(token)
	if !ok {
		return Result{}, false
	}
	r.Kind = kind
	for param := range strings.SplitSeq(params, ";") {
		switch ";" + strings.TrimSpace(param) {
		case resultNotStarted:
			r.NotStarted = true
		case resultOwnLimit:
			r.OwnLimit = true
		case resultRetried:
			r.Retried = true
		}
	}
	return r, true
}

// kindNamed returns the kind that name stands for, Failed for one that is not
// known; ok is false when name cannot be a kind's.
func kindNamed(name string) (k budget.Kind, ok bool) {
	if name == resultOK {
		return budget.None, true
	}
	if name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz_") != "" {
		return budget.None, false
	}
	for k := budget.Failed; k <= budget.Closed; k++ {
		if k.String() == name {
			return k, true
		}
	}
	return budget.Failed, true
}
