// Package curfewsql carries the deadline of a context into databases behind
// database/sql: the server itself gives up a statement in time, instead of working
// on for a caller that has left.
//
//	db, err := curfewsql.Open("mysql", dsn)
//
// It wraps a driver, so what comes back is a plain *sql.DB, and what is built on that
// works unchanged. [Wrap] does the same to a connector. Drivers of PostgreSQL, MariaDB,
// MySQL and SQLite are told apart by the version they answer; package dialect adds others.
//
// # What bounds a statement
//
// Of the time left until the deadline the slush is kept back (see [Slush]). The rest,
// in whole milliseconds and at least one, is the server's limit. With less than a
// millisecond left nothing is sent and the error is a *budget.Cause,
// LocalBudgetRejected. No turn to the server is added, but where it says so below:
//
//   - MariaDB: SET STATEMENT max_statement_time in front of every statement, COMMIT
//     included. What follows the first semicolon of a text is not covered.
//   - MySQL: the hint MAX_EXECUTION_TIME, in a SELECT that is not a prepared
//     statement. It has not been run against a server, only against the text.
//   - PostgreSQL: a connector set up by curfewpgx limits every statement, and is
//     recognized. Any other limits transactions, in the text of BEGIN, and again, at a
//     turn, for a statement with arguments once the time left has shrunk by more than 5 ms
//     and 10%; outside of transactions it limits what Exec sends without arguments.
//   - SQLite has no clock: the driver looks at the context as it computes and as it
//     waits for a lock.
//
// Where no limit acts, the slush does. On MariaDB and MySQL in three steps: a grace for
// the server's own answer (20%), KILL QUERY from a connection reserved for it, awaited
// to its end (40%), and the end of the socket (40%), which comes at the deadline. A call
// whose ctx is cancelled before climbs the same steps from there. The id to kill has been
// proven on each connection, and without the proof nothing is killed. A kill for which there was no
// time is sent behind the call, for up to ten seconds, where no limit ends the statement. On PostgreSQL
// over the standard library's side of jackc/pgx the steps are the same, with a cancel in place of the kill: from a
// connection reserved for it, which is made beside the first of the pool, and behind a pooler as the
// protocol has it. With other drivers of PostgreSQL and on SQLite the driver's own cancel begins when the slush does. A statement of a transaction is
// bound by the transaction's ctx as well as by its own. Under [Without] no limit is sent.
//
// A login goes on for up to three seconds behind the call that began it, and the next one that needs a
// connection takes it. Eight at most wait for somebody.
//
// # Transactions
//
// When its ctx ends, a transaction is rolled back under a bound of its own, one
// second, and the connection is kept. A transaction that the server has ended refuses
// everything but Rollback, so that no statement runs by itself where it was meant as a
// part (*TxError); so does a connection of which the open transaction's ctx has ended.
//
// What became of a COMMIT is not always known, nor of a statement that writes outside of a
// transaction: a *CommitError says what is. The driver of modernc.org says of a write that its
// context cut short only that, so there it is Unknown each time. [WithTx] begins, commits
// and rolls back in one call, and is the only way to learn of a commit that came after
// the deadline. [Resolve] asks later.
//
// # Errors
//
// An error that a deadline or the end of ctx made is a *budget.Cause, with the phase
// connect, lock_wait, statement or commit; the driver's error is behind it, for errors.As. The
// phase is lock_wait when the server says so, see [LimitLockWaits].
// What database/sql itself says, without asking the driver, [Error] turns into the same;
// WithTx does so too and adds the phase pool_wait.
//
// The texts of these hold neither the data source name nor arguments, and that of a connection that
// could not be had names no user, database or host: the driver's is behind it. Every other error of
// a statement is the driver's own, and its text may hold values, such as the key in MariaDB's
// "Duplicate entry", and the addresses of a connection that broke. A *CommitError and a *TxError
// have the text of what they wrap in theirs.
//
// # What to know
//
// What cannot be interrupted runs on: one call of a long SQL function in SQLite; the
// step from one row to the next in the SQLite of modernc.org, which watches the
// context until the first; and in MariaDB a function that swallows the kill (SLEEP,
// BENCHMARK) returns early, and the procedure around it goes on.
// A LOAD DATA LOCAL whose reader fails returns the reader's error, and what came before it is loaded:
// go-sql-driver ends the file there, and the server knows of no failure.
// Implicit commits, and transactions that were begun as text, are not seen. On MariaDB a lock
// timeout (1205) in a transaction costs a turn, to ask whether innodb_rollback_on_timeout has ended
// more than the statement; on MySQL, which cannot be asked, that is not seen.
//
// A timeout of the server's own, such as a statement_timeout or max_statement_time of the session,
// gives way to a limit while one is sent, also a shorter one.
package curfewsql
