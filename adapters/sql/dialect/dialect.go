// Package dialect tells curfewsql how a kind of database limits statements, ends them, and says
// what became of them. [Dialect] is all that another one needs; [Killer], [Canceler] and
// [Resolver] add what not every database has:
//
//	type oracle struct{}
//
//	func (oracle) Name() string { return "oracle" }
//	...
//	db := curfewsql.Wrap(connector, curfewsql.WithDialect(oracle{}))
//
// Package sqltest has the list that decides whether one is done.
package dialect

import (
	"context"
	"database/sql/driver"
	"time"
)

// A Dialect knows how one kind of database limits statements and what its errors
// mean. It is used by many goroutines at once, and may be a Killer or Canceler and a Resolver as well.
// One whose driver is already limited in all that it sends says so by a method
// LimitsAll() bool. One whose server may end a transaction with a LockTimeout, and does not say
// so, has a method InTx() string: a query of one row and one column, 1 when a transaction is open.
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

	// LockWait is how long of the limit it may wait for a lock, or 0 for no limit of that. Limit
	// sets it to what the server then has.
	LockWait time.Duration
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
	// Settle is a statement without effect, that a kill which came late may hit. It is "" where a
	// kill that was done hits nothing that the connection is sent behind it.
	Settle() string
}

// A Canceler is a Dialect whose server ends a statement by what the driver has been given at login.
// What ends one is done when it returns: nothing that the connection is sent behind it is hit.
type Canceler interface {
	// Cancel returns a function that ends what conn runs, if anything, while another goroutine
	// waits for it, also behind a pooler. It returns an error where it is not known to have done
	// so. Cancel returns nil where the driver has no such way.
	Cancel(conn driver.Conn) func(context.Context) error
	// Session returns the id that the driver has for conn, 0 where it has none, and a query for that
	// which the server has, of one row and one column. They differ where a pooler is in between.
	Session(conn driver.Conn) (id int64, ask string)
	// Signal ends, from another connection, what the session id runs, if anything.
	Signal(id int64) string
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
