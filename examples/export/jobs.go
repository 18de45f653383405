package main

import (
	"context"
	"database/sql"
	"errors"
	"time"

	curfewsql "github.com/curfew-go/curfew/adapters/sql"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/checkpoint"
)

// The states of a job. It moves one way:
//
//	running ──published──▶ done
//	running ──a user cancelled it before it was to be published──▶ cancelled
//	running ──an error, or no more time──▶ failed
//
// A job that no process works on, because its own was killed, is running all the same.
const (
	running   = "running"
	done      = "done"
	cancelled = "cancelled"
	failed    = "failed"
)

// A job is what the database knows of an export.
type job struct {
	id     string
	state  string
	phase  string
	lastID int64  // of the last order that is in the file
	bytes  int64  // how long the file is with it
	why    string // it failed
}

// jobs are the table. All that a job must not lose over a restart is in there, a wish to cancel it
// among it.
type jobs struct{ db *sql.DB }

const setUpAtMost = 10 * time.Second

func (j jobs) setUp(ctx context.Context) error {
	return curfewsql.WithTx(ctx, j.db, budget.Within(setUpAtMost), func(ctx context.Context, tx *sql.Tx) error {
		for _, table := range []string{
			`CREATE TABLE IF NOT EXISTS job (id TEXT PRIMARY KEY, state TEXT NOT NULL, phase TEXT NOT NULL,
				last_id BIGINT NOT NULL, bytes BIGINT NOT NULL, cancelled BOOLEAN NOT NULL, why TEXT NOT NULL)`,
			`CREATE TABLE IF NOT EXISTS notice (job TEXT NOT NULL)`,
		} {
			if _, err := tx.ExecContext(ctx, table); err != nil {
				return err
			}
		}
		return nil
	})
}

func (j jobs) create(ctx context.Context, id string) error {
	_, err := j.db.ExecContext(ctx, `INSERT INTO job (id, state, phase, last_id, bytes, cancelled, why) VALUES ($1, $2, $3, 0, 0, FALSE, '')`,
		id, running, phases[0].name)
	return curfewsql.Error(ctx, err)
}

// get returns sql.ErrNoRows for a job that is not there.
func (j jobs) get(ctx context.Context, id string) (job, error) {
	found := job{id: id}
	err := j.db.QueryRowContext(ctx, `SELECT state, phase, last_id, bytes, why FROM job WHERE id = $1`, id).
		Scan(&found.state, &found.phase, &found.lastID, &found.bytes, &found.why)
	return found, curfewsql.Error(ctx, err)
}

// unfinished lists the jobs that somebody has to go on with.
func (j jobs) unfinished(ctx context.Context) (ids []string, err error) {
	rows, err := j.db.QueryContext(ctx, `SELECT id FROM job WHERE state = $1 ORDER BY id`, running)
	if err != nil {
		return nil, curfewsql.Error(ctx, err)
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, curfewsql.Error(ctx, rows.Err())
}

// cancel notes that a user wants no more of the job, and reports whether that comes in time: a job that
// is being published, or over, is not cancelled any more. It is noted for whichever process works on
// the job, now or after a restart.
func (j jobs) cancel(ctx context.Context, id string) (inTime bool, err error) {
	return j.change(ctx, `UPDATE job SET cancelled = TRUE WHERE id = $1 AND state = $2 AND phase <> $3`, id, running, publishing)
}

// cancels is where a job's worker looks for it.
func (j jobs) cancels() checkpoint.Source {
	return curfewsql.Poll(j.db, `SELECT cancelled FROM job WHERE id = $1`)
}

// enter begins a phase, unless the job is cancelled. It decides in one statement, as cancel does, so
// a cancel either comes in time or is told that it does not.
func (j jobs) enter(ctx context.Context, id, phase string) error {
	entered, err := j.change(ctx, `UPDATE job SET phase = $1 WHERE id = $2 AND NOT cancelled`, phase, id)
	if err == nil && !entered {
		err = &budget.Cause{Kind: budget.UserCancelled}
	}
	return err
}

// progress notes how far the file is.
func (j jobs) progress(ctx context.Context, at job) error {
	_, err := j.change(ctx, `UPDATE job SET last_id = $1, bytes = $2 WHERE id = $3`, at.lastID, at.bytes, at.id)
	return err
}

// end is the last that happens to a job.
func (j jobs) end(ctx context.Context, id, state, why string) error {
	_, err := j.change(ctx, `UPDATE job SET state = $1, why = $2 WHERE id = $3`, state, why, id)
	return err
}

// publish ends a job well and leaves its notice, once, however often it is called.
func (j jobs) publish(ctx context.Context, id string) error {
	err := curfewsql.WithTx(ctx, j.db, budget.Inherited(), func(ctx context.Context, tx *sql.Tx) error {
		changed, err := tx.ExecContext(ctx, `UPDATE job SET state = $1 WHERE id = $2 AND state = $3`, done, id, running)
		if err != nil {
			return err
		}
		if n, err := changed.RowsAffected(); err != nil || n == 0 {
			return err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO notice (job) VALUES ($1)`, id)
		return err
	})
	var commit *curfewsql.CommitError
	if errors.As(err, &commit) && commit.Outcome == curfewsql.CommittedLate {
		return nil
	}
	return err
}

func (j jobs) change(ctx context.Context, query string, args ...any) (changed bool, err error) {
	result, err := j.db.ExecContext(ctx, query, args...)
	if err != nil {
		return false, curfewsql.Error(ctx, err)
	}
	n, err := result.RowsAffected()
	return n > 0, err
}
