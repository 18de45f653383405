package dialect

import (
	"database/sql"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/curfew-go/curfew/adapters/sql/internal/sqltext"
)

// PostgreSQL is the Dialect of PostgreSQL behind a driver that sends a text without
// arguments in the simple protocol, as jackc/pgx and lib/pq do, and that sets no
// limits itself.
func PostgreSQL() Dialect { return postgres{} }

// CurfewPGX is the Dialect of PostgreSQL behind a connector that curfewpgx has set up, which
// limits all that is sent, and so leaves nothing to do. It is recognized when no Dialect is named.
func CurfewPGX() Dialect { return postgres{inStream: true} }

// postgres limits by statement_timeout local to the transaction.
type postgres struct {
	inStream bool // curfewpgx does it, in the driver's own stream
}

func (postgres) Name() string { return "postgresql" }

func setLocal(d time.Duration) string {
	if d == 0 {
		return "set local statement_timeout to default;"
	}
	return "set local statement_timeout to " + strconv.FormatInt(min(d.Milliseconds(), 1<<31-1), 10) + ";"
}

func (p postgres) Limit(s Statement, d time.Duration) Statement {
	s.LockWait = 0
	if p.inStream {
		s.Armed = d > 0
		return s
	}
	first, rest := sqltext.FirstWord(s.Query)
	sets := s.InTx && setsLimit(first, s.Query)
	s = limitLocally(s, d, first, rest)
	if sets {
		s.InForce = -1
	}
	return s
}

// limitLocally has the limit in front of s where it holds and is not in force.
func limitLocally(s Statement, d time.Duration, first, rest string) Statement {
	merge := s.Exec && !s.HasArgs && !s.Prepared
	switch {
	case !s.InTx && (d == 0 || !merge || standsAlone(first, rest)):
		return s
	case s.InTx && first == "rollback":
		s.InForce = -1 // to a savepoint, which undoes a limit set behind it
		return s
	case s.InTx && !shrunk(s.InForce, d, merge):
		s.Armed = d > 0
		return s
	case merge:
		s.Query = setLocal(d) + s.Query
	default:
		s.First = setLocal(d)
	}
	s.Armed = d > 0
	if s.InTx {
		s.InForce = d
	}
	return s
}

// setsLimit reports whether a statement may set the limit of the rest of the transaction: by SET or
// set_config, or as one of those that a RESET ALL resets.
func setsLimit(first, query string) bool {
	return first == "reset" || strings.Contains(strings.ToLower(query), "statement_timeout")
}

// shrunk reports whether want must be set where have is in force: when that would cut a
// statement short, or let it run too long; where setting it takes a turn, by more than
// 5 ms and more than 10%.
func shrunk(have, want time.Duration, merge bool) bool {
	switch {
	case want == 0:
		return have != 0
	case have <= 0 || want > have:
		return true
	case merge:
		return have != want
	}
	return have-want > max(5*time.Millisecond, have/10)
}

// standsAlone reports whether a statement may not share an implicit transaction with
// another one, or moves between transactions.
func standsAlone(first, rest string) bool {
	switch first {
	case "", "vacuum", "reindex", "cluster", "checkpoint", "call", "do", "set", "reset", "lock",
		"begin", "start", "commit", "end", "rollback", "abort", "savepoint", "release",
		"prepare", "discard", "deallocate", "listen", "unlisten":
		return true
	case "create", "drop", "alter":
		second, _ := sqltext.FirstWord(rest)
		switch second {
		case "database", "tablespace", "system", "subscription":
			return true
		}
		return strings.Contains(strings.ToLower(rest), "concurrently")
	}
	return false
}

func (p postgres) Begin(t Transaction, d time.Duration) string {
	if p.inStream || d == 0 {
		return ""
	}
	begin := "begin"
	switch sql.IsolationLevel(t.Options.Isolation) {
	case sql.LevelDefault:
	case sql.LevelReadUncommitted:
		begin += " isolation level read uncommitted"
	case sql.LevelReadCommitted:
		begin += " isolation level read committed"
	case sql.LevelRepeatableRead, sql.LevelSnapshot:
		begin += " isolation level repeatable read"
	case sql.LevelSerializable:
		begin += " isolation level serializable"
	default:
		return "" // the driver knows what to say
	}
	if t.Options.ReadOnly {
		begin += " read only"
	}
	return begin + ";" + strings.TrimSuffix(setLocal(d), ";")
}

// Commit asks for deferred constraints beforehand: they run in COMMIT, which no
// statement limit bounds, and in a statement, which one does. In a failed transaction it fails
// with 25P02, where COMMIT alone would roll back and call that a success.
func (p postgres) Commit(t Transaction, d time.Duration) (text string, armed bool) {
	if !t.ByText {
		return "", false
	}
	text = "set constraints all immediate;commit"
	if shrunk(t.InForce, d, true) {
		text = setLocal(d) + text
	}
	return text, d > 0
}

func (p postgres) Rollback(t Transaction) string {
	if !t.ByText {
		return ""
	}
	return "rollback"
}

func (postgres) Mark() string { return "select pg_current_xact_id_if_assigned()::text" }

func (postgres) Status(mark string) string {
	if _, err := strconv.ParseUint(mark, 10, 64); err != nil {
		mark = "0"
	}
	return "select pg_xact_status('" + mark + "'::xid8)"
}

// LimitsAll says that all that is sent is limited, whatever it is.
func (p postgres) LimitsAll() bool { return p.inStream }

// Judge reads SQLSTATE. Source: PostgreSQL documentation, appendix A. That nothing was
// sent is not believed: pgx 5.12 says so of a text without arguments whose connection
// broke behind it, and database/sql then sent a write three times, measured.
func (postgres) Judge(err error) Verdict {
	var coded interface{ SQLState() string }
	if !errors.As(err, &coded) {
		return Verdict{}
	}
	v := Verdict{Code: coded.SQLState(), TxFailed: true}
	switch v.Code {
	case "57014":
		// A cancel too: which of the two is known by what was sent.
		v.Reason = LimitRanOut
	case "55P03":
		v.Reason = LockTimeout
	}
	v.NotCommitted = true
	for _, unsure := range []string{"08", "40003", "57P", "58", "XX"} {
		// The connection is at its end, or the server: after the record of the commit
		// may be written.
		if strings.HasPrefix(v.Code, unsure) {
			v.NotCommitted = false
		}
	}
	return v
}
