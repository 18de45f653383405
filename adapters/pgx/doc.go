// Package curfewpgx carries the deadline of a context into PostgreSQL through
// jackc/pgx: the server itself gives up a statement in time, instead of working
// on for a caller that has left.
//
//	config, err := pgxpool.ParseConfig(url)
//	...
//	curfewpgx.Configure(config.ConnConfig)
//	pool, err := pgxpool.NewWithConfig(ctx, config)
//
// Nothing else changes. Queries, batches, COPY and transactions of a pgx.Conn, a
// pgxpool.Pool and of database/sql over pgx's stdlib send the statement limit in
// the same write as the statement: no turn to the server is added.
//
// # What bounds a statement
//
// Of the time left until the deadline the slush is kept back (see [Slush]). The rest,
// in whole milliseconds and at least one, is the server's limit. It is local to the
// transaction, so nothing of it stays behind on the connection, and it holds
// through a pooler (see [BehindPooler]). With less than a millisecond left
// nothing is sent and the error is a *budget.Cause, LocalBudgetRejected.
//
// Where the server's answer does not come by itself, the socket ends at the deadline, and
// the server finds out by its limit. A statement without a limit, and a call whose ctx is
// cancelled, has the slush for three steps: a grace for the server's own answer
// (20%), a cancel request that is awaited to its end (40%), and the end of the socket
// (40%). A cancel request of which the end was not seen costs the connection:
// it could hit the next statement. More than two at a time share one further connection, which
// is made for them with the credentials of the configuration, signals them by
// pg_cancel_backend, and ends when none is left; one that was not ready in time is sent, for
// up to ten seconds, when its connection has been given up.
//
// # What is sent without a limit
//
// Statements that may not share a transaction: VACUUM, REINDEX, CLUSTER, CREATE or
// DROP DATABASE, TABLESPACE and SUBSCRIPTION, ALTER SYSTEM and all that says
// CONCURRENTLY; CALL, DO, SET and LOCK outside of a transaction; ROLLBACK and savepoints; and
// a BEGIN or COMMIT with more statements behind it. The steps above bound these from the
// client alone. What is sent through [pgconn.PgConn] directly, WaitForNotification and the
// ping of a pool end with their ctx as pgx has it.
//
// COMMIT asks for deferred constraints in front of itself, where the limit holds; its
// write to disk has none.
//
// # Transactions
//
// Behind the statements of a transaction the server is asked for its id, in the same
// write, until it has one: a statement more, which pg_stat_activity shows while the
// session waits. With the id [Resolve] finds out what became of a COMMIT without an
// answer, which is a [CommitError]. [WithTx] does all of it in one call.
//
// # Locks, and jobs that somebody cancels
//
// With [LockWait] a statement that waits for a lock gives up while there is time left, and
// says what it waited for. [Listen] is a source for checkpoint.Watch that hears of a cancel by
// NOTIFY.
//
// # What to know
//
// PostgreSQL does not look at limits or cancels while it compiles a query (jit, on by default
// and begun for costly plans): a statement may then end 100 ms late. Nor while it
// removes temporary files, 10 ms for 40 MB. Measured on 15.18.
//
// While a limit is armed it replaces a statement_timeout that the role or the database
// has, or that was set later, even a shorter one. One of the connection string, or else of
// RuntimeParams, stays where it is shorter, and what it ends is no deadline. In the simple
// protocol the limit's text shows in pg_stat_activity. An idle_in_transaction_session_timeout should be longer than
// deadlines are, by a second: the server ends the whole session for it.
package curfewpgx
