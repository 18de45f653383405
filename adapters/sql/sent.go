package curfewsql

import (
	"context"
	"database/sql/driver"
	"errors"
	"time"

	"github.com/curfew-go/curfew/adapters/sql/dialect"
)

// wantsPrepared reports whether the driver has all statements with arguments prepared.
// Asking it again, each time, would cost about as much as the statement's own bookkeeping.
func (c *conn) wantsPrepared(args []driver.NamedValue) bool { return len(args) > 0 && c.skips >= 3 }

// note notes whether the driver took a statement.
func (c *conn) note(query string, args []driver.NamedValue, err error) {
	switch {
	case err == driver.ErrSkip:
		c.skipped = query
		if len(args) > 0 && c.skips >= 0 {
			c.skips++
		}
	case len(args) > 0:
		c.skips = -1
	}
}

// first runs what a dialect wants sent before the statement.
func (c *conn) first(k *call, st *dialect.Statement) error {
	if st.First == "" {
		return nil
	}
	if err := execText(k.inner, c.inner, st.First); err != nil {
		c.limitIs(-1)
		return err
	}
	c.limitIs(st.InForce)
	return nil
}

// limitIs notes the limit in force for the transaction. One that has had none of ours has at most
// the user's, which is not ours to lift.
func (c *conn) limitIs(d time.Duration) {
	if c.tx == nil {
		return
	}
	c.tx.limited = c.tx.limited || d > 0
	if d < 0 && !c.tx.limited {
		d = 0
	}
	c.tx.inForce = d
}

// after notes what a statement did, and says what became of one that may write, is part of no
// transaction and has got no answer.
func (c *conn) after(k *call, st *dialect.Statement, write bool, sent, err error) error {
	switch {
	case sent == nil:
		c.limitIs(st.InForce)
		return err
	case sent == driver.ErrSkip:
		return err
	}
	c.limitIs(-1)
	v := k.judge(sent)
	if write && c.tx == nil && v.Code == "" && !v.Unsent && connectionLost(c.inner, sent) {
		return c.unknown(k, sent, err, "")
	}
	return err
}

var errLost = errors.New("curfewsql: the connection was lost")

// unknown returns the error of what was sent and got no answer, and gives the connection
// up, unless it was the driver that looked at the context: a database in memory lives as long as its
// connection. The error is never driver.ErrBadConn, upon which database/sql would send it again.
func (c *conn) unknown(k *call, sent, err error, mark string) error {
	byCtx := errors.Is(sent, context.DeadlineExceeded) || errors.Is(sent, context.Canceled)
	if k.phase == phaseCommit || !byCtx {
		c.giveUp(err)
	}
	if errors.Is(err, driver.ErrBadConn) {
		err = errLost
	}
	e := &CommitError{Outcome: Unknown, Err: err, mark: mark, id: c.id}
	var lost interface{ LostCommit() (mark, outcome string) } // of curfewpgx, which sees the stream
	if k.phase == phaseCommit && errors.As(sent, &lost) {
		known, outcome := lost.LostCommit()
		for _, o := range []Outcome{NotCommitted, CommittedLate} {
			if o.String() == outcome {
				e.Outcome = o
			}
		}
		if known != "" {
			e.mark = known
		}
	}
	return e
}

// withLead returns args with the limit in front.
func withLead(args []driver.NamedValue, limit time.Duration) []driver.NamedValue {
	led := make([]driver.NamedValue, 1, len(args)+1)
	led[0].Ordinal = 1
	if limit > 0 {
		led[0].Value = limit.Seconds()
	}
	for _, a := range args {
		a.Ordinal++
		led = append(led, a)
	}
	return led
}
