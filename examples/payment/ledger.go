package main

import (
	"context"
	"database/sql"
	"errors"
	"time"

	curfewsql "github.com/curfew-go/curfew/adapters/sql"
	"github.com/curfew-go/curfew/budget"
)

// A payment is what a client asks for. The key is made by the client, once for each payment it wants
// to make and not once for each request it sends: that is what makes a request safe to repeat.
type payment struct {
	Key     string `json:"-"`
	Account string `json:"account"`
	Cents   int64  `json:"cents"`
}

// The ledger books payments. Its entries have no key that would keep a second one out, so a payment
// that is booked twice shows.
type ledger struct{ db *sql.DB }

const setUpAtMost = 10 * time.Second

func (l ledger) setUp(ctx context.Context) error {
	return curfewsql.WithTx(ctx, l.db, budget.Within(setUpAtMost), func(ctx context.Context, tx *sql.Tx) error {
		for _, table := range []string{
			`CREATE TABLE idempotency_key (key TEXT PRIMARY KEY, account TEXT NOT NULL, cents BIGINT NOT NULL)`,
			`CREATE TABLE entry (key TEXT NOT NULL, account TEXT NOT NULL, cents BIGINT NOT NULL)`,
		} {
			if _, err := tx.ExecContext(ctx, table); err != nil {
				return err
			}
		}
		return nil
	})
}

var (
	// errPaid ends the transaction of a payment that was booked before: there is nothing to commit.
	errPaid = errors.New("this payment is booked already")
	// errReused is for a key that came with another payment before, a mistake of the client's.
	errReused = errors.New("the key belongs to another payment")
)

// pay books p, in one transaction with its key: either both are there or none. While another
// transaction has the key and is not over, also one whose client is long gone, the INSERT waits for
// its outcome, no longer than ctx allows.
//
// The error is errPaid or errReused, a *curfewsql.CommitError, or that of a transaction of which
// nothing is booked.
func (l ledger) pay(ctx context.Context, p payment) error {
	err := curfewsql.WithTx(ctx, l.db, budget.Inherited(), func(ctx context.Context, tx *sql.Tx) error {
		fresh, err := claim(ctx, tx, p)
		if err != nil {
			return err
		}
		if !fresh {
			return check(ctx, tx, p)
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO entry (key, account, cents) VALUES ($1, $2, $3)`, p.Key, p.Account, p.Cents)
		return err
	})
	var commit *curfewsql.CommitError
	if errors.As(err, &commit) && commit.Outcome == curfewsql.CommittedLate {
		return nil // whether anybody still waits for the answer is not the ledger's business
	}
	return err
}

// claim writes the key down and reports whether it was not there before.
func claim(ctx context.Context, tx *sql.Tx, p payment) (fresh bool, err error) {
	done, err := tx.ExecContext(ctx, `INSERT INTO idempotency_key (key, account, cents) VALUES ($1, $2, $3) ON CONFLICT (key) DO NOTHING`,
		p.Key, p.Account, p.Cents)
	if err != nil {
		return false, err
	}
	rows, err := done.RowsAffected()
	return rows == 1, err
}

// check compares p with what its key was used for.
func check(ctx context.Context, tx *sql.Tx, p payment) error {
	before := payment{Key: p.Key}
	err := tx.QueryRowContext(ctx, `SELECT account, cents FROM idempotency_key WHERE key = $1`, p.Key).Scan(&before.Account, &before.Cents)
	switch {
	case err != nil:
		return err
	case before != p:
		return errReused
	}
	return errPaid
}

// booked reports whether the payment with this key is in the ledger now. One whose transaction is under
// way is not, and may be the next moment: see certain.
func (l ledger) booked(ctx context.Context, key string) (yes bool, err error) {
	err = l.db.QueryRowContext(ctx, `SELECT count(*) > 0 FROM idempotency_key WHERE key = $1`, key).Scan(&yes)
	return yes, curfewsql.Error(ctx, err)
}

var errNotThere = errors.New("the key was free")

// certain returns a probe for curfewsql.Resolve that takes the key's place for a moment. A probe that
// only looked would say no of a transaction that is still under way in the server; this one waits for
// it, as a repeated payment does.
func certain(key string) curfewsql.Probe {
	return func(ctx context.Context, db *sql.DB) (committed bool, err error) {
		err = curfewsql.WithTx(ctx, db, budget.Inherited(), func(ctx context.Context, tx *sql.Tx) error {
			fresh, err := claim(ctx, tx, payment{Key: key})
			switch {
			case err != nil:
				return err
			case fresh:
				return errNotThere // and rolled back
			}
			return errPaid
		})
		switch {
		case errors.Is(err, errPaid):
			return true, nil
		case errors.Is(err, errNotThere):
			return false, nil
		}
		return false, err
	}
}

// count compares the entries with the payments that were meant.
func (l ledger) count(ctx context.Context, f *figures, payments []payment) error {
	rows, err := l.db.QueryContext(ctx, `SELECT account, count(*) FROM entry GROUP BY account`)
	if err != nil {
		return err
	}
	defer rows.Close()
	entries := map[string]int{}
	for rows.Next() {
		var account string
		var n int
		if err := rows.Scan(&account, &n); err != nil {
			return err
		}
		entries[account] = n
	}
	for _, p := range payments {
		switch n := entries[p.Account]; {
		case n == 0:
			f.never++
		case n > 1:
			f.twice++
		}
	}
	return rows.Err()
}
