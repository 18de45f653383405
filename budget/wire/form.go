package wire

import (
	"fmt"
	"time"
)

// A Form is one way to write a deadline, under the name of one header. Forms are
// values: make one where it is used, or once for all goroutines. The zero Form is
// not one: to read or write with it panics.
type Form struct {
	grammar  grammar
	reversed bool // 0 means the opposite of what it is in this package
	queued   bool // the value may have aged on its way: see earlier
	skew     time.Duration
	header   string
}

type grammar uint8

const (
	grpcTimeout grammar = iota + 1
	millis
	ttl
	epochMillis
	epochNanos
	requestStart
)

// String returns the name that errors call the grammar by.
func (g grammar) String() string {
	return [...]string{"no form", "grpc-timeout", "remaining-ms", "context-ttl-ms", "epoch-ms", "epoch-ns", "request-start"}[g]
}

func form(g grammar, header string) Form {
	if header == "" {
		panic("wire: " + g.String() + ": empty header")
	}
	return Form{grammar: g, header: header}
}

// Header returns the name of the header, as given.
func (f Form) Header() string { return f.header }

// ReverseZero returns f with the opposite meaning of 0: no limit from the peer in
// place of expired on arrival, and the other way round for an f that was reversed
// before. Envoy and others mean no limit. It panics for the forms with an instant,
// which have no such zero.
func (f Form) ReverseZero() Form {
	if f.grammar >= epochMillis {
		panic(fmt.Sprintf("wire: ReverseZero: %v has no zero", f.grammar))
	}
	f.mustBeOne()
	f.reversed = !f.reversed
	return f
}

// Parse reads one value that arrived at now. Only the forms with an instant look
// at now. The error is a *FormatError, and with it the Peer says nothing.
func (f Form) Parse(value string, now time.Time) (Peer, error) { return f.parse(value, now, 0) }

// parse is Parse of a value whose request waited for so long before now.
func (f Form) parse(value string, now time.Time, waited time.Duration) (Peer, error) {
	f.mustBeOne()
	p := Peer{Limited: true}
	var err error
	switch f.grammar {
	case grpcTimeout:
		p.Left, p.Limited, err = parseGRPC(value)
	case millis:
		p.Left, err = ParseMillis(value)
	case ttl:
		p.Left, p.Limited, err = parseTTL(value)
	case epochMillis:
		p.Left, p.Skewed, err = f.parseEpochMillis(value, now, waited)
	case epochNanos:
		p.Left, p.Skewed, err = f.parseEpochNanos(value, now, waited)
	case requestStart:
		p.Limited = false
		p.Waited, err = parseStart(value, now)
	}
	if err != nil {
		if fe, ok := err.(*FormatError); ok {
			fe.Header = f.header
		}
		return Peer{}, err
	}
	if f.reversed && p.Limited && p.Left == 0 {
		p.Limited = false
	}
	if p.Limited {
		p.Header = f.header
		if f.grammar < epochMillis {
			p.Left = max(p.Left-waited, 0) // after 0 was looked for
		}
	}
	return p, nil
}

// Format writes that left remains at now, never more than that. Only the forms
// with an instant look at now. With less than a millisecond left ok is false:
// there is nothing that could be sent, and the caller fails on its own side. It is
// false as well when now is no instant that the form can say. More time than the
// form can say is written as the most it can.
//
// RequestStart writes now, whatever is left.
func (f Form) Format(left time.Duration, now time.Time) (value string, ok bool) {
	f.mustBeOne()
	if f.grammar == requestStart {
		return formatStart(now)
	}
	if left < time.Millisecond {
		return "", false
	}
	switch f.grammar {
	case grpcTimeout:
		return formatGRPC(left), true
	case epochMillis:
		return formatEpochMillis(left, now)
	case epochNanos:
		return formatEpochNanos(left, now)
	}
	return FormatMillis(left)
}

// String returns the header and the name of the grammar.
func (f Form) String() string { return f.header + " (" + f.grammar.String() + ")" }

func (f Form) mustBeOne() {
	if f.grammar == 0 {
		panic("wire: the zero Form is not a form: use GRPC, Millis or another of them")
	}
}
