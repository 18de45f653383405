package curfewsql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"

	"github.com/curfew-go/curfew/checkpoint"
)

// Poll returns a source for checkpoint.Watch that asks db, each time, by query, which has
// the job as its only argument. The job was cancelled when a row comes back whose first column is
// true, or a number other than 0; no row is no. The statement has the limit that ctx
// gives it, as every one. Like every error of a Source, that of the query says nothing about the job.
//
//	src := curfewsql.Poll(db, "select cancelled from jobs where id = ?")
//	ctx, stop := checkpoint.Watch(ctx, src, job, 5*time.Second)
//
// Poll panics if db is nil or query is empty.
func Poll(db *sql.DB, query string) checkpoint.Source {
	switch {
	case db == nil:
		panic("curfewsql: Poll: nil db")
	case query == "":
		panic("curfewsql: Poll: empty query")
	}
	return &poll{db, query}
}

type poll struct {
	db    *sql.DB
	query string
}

// Cancelled implements checkpoint.Source.
func (p *poll) Cancelled(ctx context.Context, job string) (bool, error) {
	var answer any // drivers differ in what they make of a boolean
	switch err := p.db.QueryRowContext(ctx, p.query, job).Scan(&answer); {
	case errors.Is(err, sql.ErrNoRows):
		return false, nil
	case err != nil:
		return false, Error(ctx, err)
	}
	switch v := answer.(type) {
	case nil:
		return false, nil
	case bool:
		return v, nil
	case int64:
		return v != 0, nil
	case []byte:
		return isYes(string(v))
	case string:
		return isYes(v)
	}
	return false, fmt.Errorf("curfewsql: Poll: the first column is a %T, which says neither yes nor no", answer)
}

func isYes(text string) (bool, error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n != 0, nil
	}
	yes, err := strconv.ParseBool(text)
	if err != nil {
		return false, errors.New("curfewsql: Poll: the first column is a text that says neither yes nor no")
	}
	return yes, nil
}
