package stream

import "time"

// mode says what a driver's call wants of the bursts it writes.
type mode uint8

const (
	untouched mode = iota // no call of the driver runs: add nothing
	unlimited             // a call without deadline: lift what is in force
	limited               // a call that must have answered by state.at
)

// state is what both directions share.
type state struct {
	ready, raw bool
	front      frontend

	mode    mode
	at      time.Time // of limited
	ended   error     // of the call's ctx
	foreign bool      // a cancel was sent that was not for the deadline
	alone   bool      // no cancel is sent for the call

	tx      byte          // status of the last ReadyForQuery: I, T or E
	inForce time.Duration // limit local to the transaction: 0 for none, unknown
	armed   bool          // the transaction has had a limit of ours
	burst   time.Time     // when the running burst was written

	locks  float64       // share of a limit that a statement may wait for one lock, 0 for all of it
	most   time.Duration // the session's own limit, 0 for none that is known
	capped bool          // the limit in force is the session's own

	check  *Check // to be asked, nil for no more
	asking *Check // in the running burst

	expected string // answers to ours that come next: see backend.go
	theirs   int    // completions of the driver's statements before behind is expected
	behind   string // answers to ours that come after those
	byName   bool   // the answer with the transaction's id is known by its column
	shift    int    // length of our text in front of the driver's simple query

	ping    bool              // the running burst is the driver's ping
	copying bool              // the server waits for the driver's data
	params  map[string]string // what the server reported of itself, nil when nobody asks
	key     []byte            // body of its BackendKeyData, nil likewise

	commit commit
	undo   bool   // what stands in front of COMMIT has failed, and a ROLLBACK is due
	undone bool   // it is sent, and its answer is the next that is expected
	fatal  []byte // body of the FATAL error that came instead of COMMIT's answer
	hasIDs bool   // the server can tell a transaction's id
	noIDs  bool   // and this is one that claims it
	xid    uint64 // the running transaction's id, 0 when not known
	wrote  bool   // the running transaction may have an id

	pid    string // of the server's process, as it said at the startup
	direct proof  // whether each transaction is that process's

	limitKept, idKept bool   // the server knows limitName, idName
	lost              bool   // it did once, and then no longer
	nameless          bool   // never use a name of ours
	unnamed           []byte // the driver's last unnamed Parse, kept when nameless or not proven
	hasUnnamed        bool   // the driver has an unnamed statement, whole in unnamed or not
	overwritten       bool   // by one of ours since
}

// proof says whether what one burst prepares is certain to be there in the next, which it is
// not behind a pooler that gives each transaction another server connection. Such a pooler makes
// up the process id that it tells at the startup, since cancel requests have to come to it
// and the client keeps one id for many servers. So where pg_backend_pid() is the id of
// the startup, there is no such pooler.
type proof uint8

const (
	unproven proof = iota
	inquired       // in the running burst
	proven
	refuted
)

// unknown is a limit in force that is ours or not; it counts as neither equal
// nor longer than any other.
const unknown time.Duration = -1

// maxLimit is the longest statement_timeout the server takes.
const maxLimit = (1<<31 - 1) * time.Millisecond

// wanted returns the limit for a burst that is written now, 0 for none.
func (s *state) wanted() time.Duration {
	if s.mode != limited {
		return 0
	}
	d := min(max(s.at.Sub(s.burst).Truncate(time.Millisecond), time.Millisecond), maxLimit)
	if s.most > 0 {
		d = min(d, s.most)
	}
	return d
}

// wait returns the lock_timeout that goes with the limit want, which is not 0.
func (s *state) wait(want time.Duration) time.Duration {
	return max(time.Duration(s.locks*float64(want)).Truncate(time.Millisecond), time.Millisecond)
}

// differs reports whether want must replace the limit in force: always when
// it is longer, for a limit too short gives a wrong answer, and when it is
// shorter by more than a tenth and 5 ms. Below that the client ends the call,
// and the statements of a transaction that share a deadline need no limit each.
func (s *state) differs(want time.Duration) bool {
	switch {
	case want == 0:
		return s.armed && s.inForce != 0
	case s.inForce <= 0 || want > s.inForce:
		return true
	}
	return s.inForce-want > max(5*time.Millisecond, s.inForce/10)
}
