// Package curfewpgx carries the deadline into PostgreSQL through jackc/pgx: the
// statement limit, local to the transaction, travels in the same burst as the
// statement it limits. It is a module of its own, so that only those who use
// pgx depend on it.
//
// Nothing is exported yet.
package curfewpgx
