package curfewsql

// An Outcome says what became of a transaction, or of a statement that is one by itself.
type Outcome uint8

// The outcomes.
const (
	Unknown       Outcome = iota // it may be committed, or may become so
	NotCommitted                 // nothing of it is, nor will be
	Committed                    // it is
	CommittedLate                // it is, and the answer came after the deadline
)

// String returns the outcome as telemetry writes it, such as "not_committed".
func (o Outcome) String() string {
	switch o {
	case NotCommitted:
		return "not_committed"
	case Committed:
		return "committed"
	case CommittedLate:
		return "committed_late"
	}
	return "unknown"
}

// A CommitError is the error of a Commit, also of one that was done, but too late; and
// of a statement that may write, outside of a transaction, that was sent and got no answer.
// What is Unknown must not be repeated before Resolve has said what it is, unless
// it does no harm twice.
type CommitError struct {
	Outcome Outcome
	Err     error // why, such as a *budget.Cause or the driver's error; never nil in one that was returned

	mark string // what names the transaction in the server; may be empty
	id   int64  // of the connection, proven; 0 when not
}

// Error returns the text of the error. That of a driver's error is part of it, see the
// package's documentation on what it may hold.
func (e *CommitError) Error() string {
	text := "curfewsql: not known whether it is committed"
	switch e.Outcome {
	case NotCommitted:
		text = "curfewsql: not committed"
	case Committed:
		text = "curfewsql: committed"
	case CommittedLate:
		text = "curfewsql: committed, but late"
	}
	if e.Err == nil {
		return text
	}
	return text + ": " + e.Err.Error()
}

// Unwrap returns why.
func (e *CommitError) Unwrap() error { return e.Err }
