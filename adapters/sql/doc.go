// Package curfewsql carries the deadline into databases behind database/sql. It
// wraps a driver, so users keep their *sql.DB and everything built on it. The
// server's own statement limit is set from what is left of the budget without
// an extra round trip; where the server has no such limit, the statement is
// cancelled, then killed, then cut off. A transaction whose outcome is not
// known is reported as that, never as failed or done.
//
// Nothing is exported yet.
package curfewsql
