package curfewsql

import (
	"context"
	"database/sql/driver"
	"errors"
	"slices"
	"strings"
	"time"
)

// A Dialect knows how one kind of database limits statements and what its errors
// mean. It is used by many goroutines at once. Whether one is done, the list in package
// sqltest decides. A Dialect may be a Killer and a Resolver as well.
type Dialect interface {
	// Name is the database's name in errors, such as "mariadb".
	Name() string
	// Limit returns s such that the server ends it after d, which is whole
	// milliseconds. A d of zero is no limit.
	Limit(s Statement, d time.Duration) Statement
	// Begin returns a text that opens a transaction limited to d, or "" to leave
	// that to the driver, as is right for a d of zero.
	Begin(t Transaction, d time.Duration) string
	// Commit returns a text that commits t within d, or "" to leave that to the driver.
	// armed says that the server ends it in time, as in Statement.
	Commit(t Transaction, d time.Duration) (text string, armed bool)
	// Rollback returns a text that rolls t back, or "" to leave that to the driver.
	Rollback(t Transaction) string
	// Judge says what err means, which is never nil and comes from the driver.
	Judge(err error) Verdict
}

// A Statement is one that a user has sent, on the way to the driver.
type Statement struct {
	Query    string
	HasArgs  bool // the user has arguments for it
	Exec     bool // no rows are wanted
	Prepared bool // it is kept, and run under other limits than the one at hand
	InTx     bool // it is part of a transaction that BeginTx began

	// InForce is the limit in force for the rest of the transaction; negative when it
	// is not known. Limit sets it when it changes it.
	InForce time.Duration
	// First is a text that Limit wants run before, at the price of a turn.
	First string
	// Armed is set by Limit when the server will end the statement in time. If it is
	// not, the driver's context ends when the slush begins.
	Armed bool
	// Lead is set by Limit for a Prepared one when Query has one argument more, in front of
	// the user's: the limit in seconds as a float64, or nil for none.
	Lead bool
}

// A Transaction is an open one, or one that is about to be opened.
type Transaction struct {
	Options driver.TxOptions
	Conn    driver.Conn   // the driver's own
	ByText  bool          // the text of Begin opened it
	InForce time.Duration // as in Statement
}

// A Reason is what a Verdict says about an error.
type Reason uint8

// The reasons.
const (
	Other       Reason = iota // nothing that concerns time
	LimitRanOut               // the server's own statement limit
	Interrupted               // somebody cancelled or killed the statement
	LockTimeout               // a lock was not to be had in the time the server waits for one
)

// A Verdict says what an error of the driver means.
type Verdict struct {
	Reason Reason
	// Code is how the server numbers the error; empty when it is not the server's.
	Code string
	// TxOver says that the server has ended the open transaction: what comes next
	// would run outside of it.
	TxOver bool
	// TxFailed says that the open transaction can only be rolled back, at least to a
	// savepoint, and that the server itself refuses all else.
	TxFailed bool
	// Unsent says that an error of the driver, such as driver.ErrBadConn, can be
	// believed that nothing was sent.
	Unsent bool
	// NotCommitted says that an error of a COMMIT leaves nothing committed.
	NotCommitted bool
}

// A Killer is a Dialect that can end a statement from another connection. Its queries
// give one row. The id of a connection is believed only when the server
// says on another connection that it holds the token, because a proxy may answer
// with an id of its own.
type Killer interface {
	// Identify asks a connection for its id, and has it take the token; the second column is
	// 1 when it did.
	Identify(token string) string
	// Prove asks for the id of the connection that holds the token.
	Prove(token string) string
	// Release gives the token back.
	Release(token string) string
	// Kill ends the statement that the connection runs, if any.
	Kill(id int64) string
	// Settle is a statement without effect, that a kill which came late may hit.
	Settle() string
}

// A Resolver is a Dialect whose server remembers what became of a transaction.
type Resolver interface {
	// Mark asks, in a transaction, for what names it; NULL when it has written
	// nothing. One row, one column.
	Mark() string
	// Status asks what became of the transaction with that mark. One row, one
	// column, a text: committed, aborted or in progress.
	Status(mark string) string
}

// detect asks inner what it speaks.
func detect(ctx context.Context, inner driver.Conn) (Dialect, error) {
	row, err := queryRow(ctx, inner, "select version()")
	if err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		if _, lite := queryRow(ctx, inner, "select sqlite_version()"); lite == nil {
			return SQLite(), nil
		}
		return nil, err
	}
	version := text(row[0])
	switch {
	case strings.Contains(version, "MariaDB"):
		return MariaDB(), nil
	case strings.HasPrefix(version, "PostgreSQL"):
		inStream, err := limitsInStream(ctx, inner)
		return postgres{inStream: inStream}, err
	case version != "" && version[0] >= '0' && version[0] <= '9':
		return MySQL(), nil
	}
	return nil, errors.New("curfewsql: no dialect for this server: see WithDialect")
}

// inTree returns the first code that read finds in the tree of err.
func inTree(err error, read func(error) (int, bool)) (code int, ok bool) {
	if err == nil {
		return 0, false
	}
	if code, ok := read(err); ok {
		return code, true
	}
	switch err := err.(type) {
	case interface{ Unwrap() error }:
		return inTree(err.Unwrap(), read)
	case interface{ Unwrap() []error }:
		for _, err := range err.Unwrap() {
			if code, ok := inTree(err, read); ok {
				return code, true
			}
		}
	}
	return 0, false
}

// firstWord returns the first word of query in lower case, passing over blanks and
// comments, and what follows it.
func firstWord(query string) (word, rest string) {
	rest = skipBlanks(query)
	for strings.HasPrefix(rest, "(") || strings.HasPrefix(rest, ";") {
		rest = skipBlanks(rest[1:])
	}
	n := 0
	for n < len(rest) && (rest[n]|0x20 >= 'a' && rest[n]|0x20 <= 'z' || rest[n] == '_') {
		n++
	}
	return strings.ToLower(rest[:n]), rest[n:]
}

// skipBlanks passes over white space and comments. A comment with "!" or "M!" in it
// is none to MySQL, and stays.
func skipBlanks(query string) string {
	for {
		query = strings.TrimLeft(query, " \t\r\n\f\v")
		switch {
		case strings.HasPrefix(query, "--"), strings.HasPrefix(query, "#"):
			_, query, _ = strings.Cut(query, "\n")
		case strings.HasPrefix(query, "/*!"), strings.HasPrefix(query, "/*M!"):
			return query
		case strings.HasPrefix(query, "/*"):
			depth, i := 1, 2
			for depth > 0 && i < len(query) {
				switch {
				case strings.HasPrefix(query[i:], "/*"):
					depth, i = depth+1, i+2
				case strings.HasPrefix(query[i:], "*/"):
					depth, i = depth-1, i+2
				default:
					i++
				}
			}
			query = query[i:]
		default:
			return query
		}
	}
}

// reads reports whether query begins as one that writes nothing.
func reads(query string) bool {
	switch first, _ := firstWord(query); first {
	case "select", "show", "explain", "values", "table", "describe", "desc", "pragma":
		return true
	case "with":
		query = strings.ToLower(query)
		return !slices.ContainsFunc([]string{"insert", "update", "delete", "merge", "replace"}, func(verb string) bool {
			return strings.Contains(query, verb)
		})
	}
	return false
}
