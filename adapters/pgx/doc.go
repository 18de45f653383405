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
// Of several statements in a batch or a text each has the whole limit, for the server's clock starts anew with
// each. So they are ended like a statement without a limit.
//
// Where the server's answer does not come by itself, the connection is over at the deadline, and
// the server finds out by its limit. A statement without a limit, and a call whose ctx is
// cancelled, has the slush for three steps: a grace for the server's own answer
// (20%), a cancel request that is awaited to its end (40%), and the end of the socket
// (40%). A cancel request of which the end was not seen costs the connection:
// it could hit the next statement. One that was not ready in time is sent, for up to ten seconds, when
// its connection has been given up.
//
// Of calls that are cancelled at once up to four send a request each. More than these share one further
// connection, which is made for them with the credentials of the configuration, signals them by
// pg_cancel_backend, and ends a second after the last. With more than two at once the steps take up to five times as
// long: a server that is told of many has no answer for the last within the slush, and logins in the place of
// connections that were given up would be what it does next.
//
// # Behind a pooler
//
// Nothing relies on an option of the startup, or on what an earlier statement left behind in the session. The first limit of a
// pool is asked back in the same write: [StatsOf] tells whether the server had it, and [Log] hears of it if not.
//
// # What was given up
//
// A connection whose call was given up at its deadline is closed to the driver, and a pool makes
// another in its place. Its session in the server is kept for up to ten seconds, where the server
// ends the statement by its limit: the rest of the answer is dropped, and the server told to roll
// back and to DISCARD ALL. When it has done so, a connection of the same user, password, database,
// parameters and hosts gets that session, and no login is needed. The hooks of the configuration run as for any
// new connection. So a pool is back a few milliseconds after a frozen server is. A session that
// nobody wants for two seconds is closed; so is one that does not answer, for which a connection waits
// 100 ms before it logs in as well. A closed pool leaves behind what is kept until then. A session
// gets no older than an hour by this. [FreshSessions] switches it off.
//
// As new is what DISCARD ALL makes of it, and that is not all that a login is: a custom setting that was set is empty
// and not NULL, connections of dblink stay, and so does what procedural languages and other extensions remember. And
// nobody logs in: what became of the role and the database meanwhile, such as a new password, NOLOGIN or ALTER
// ROLE SET, shows with the next login, also when the pool is Reset for it within these ten seconds. Where one of
// these matters, as for policies that ask for such a setting, take FreshSessions.
//
// Not kept are several statements at once, what waits for data in a COPY, what a cancel request was sent for, and
// what has one of these: a pooler ([BehindPooler]), an AfterNetConnect of the user's, a DialFunc or AfterNetConnect that a
// BeforeConnect puts in the place of ours, a ValidateConnect (target_session_attrs), a RequireAuth, a required
// channel binding or client certificate, an OAuthTokenProvider, or hosts under different TLS names.
//
// # What is sent without a limit
//
// Statements that may not share a transaction: VACUUM, REINDEX, CLUSTER, CREATE or
// DROP DATABASE, TABLESPACE and SUBSCRIPTION, ALTER SYSTEM and all that says
// CONCURRENTLY; CALL, DO, SET and LOCK outside of a transaction; ROLLBACK and savepoints; and
// a BEGIN or COMMIT with more statements behind it. The steps above bound these from the
// client alone. What is sent through [pgconn.PgConn] directly or over a replication
// connection, WaitForNotification and the ping of a pool end with their ctx as pgx has it, but for the session of a ping, which is kept.
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
