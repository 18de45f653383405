// Package orms holds the tests of what people put on top of a *sql.DB: code as sqlc generates it, sqlx
// and GORM run unchanged over the one that curfewsql returns. It is a module of its own so that nobody's
// build depends on them.
package orms
