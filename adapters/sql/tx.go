package curfewsql

import (
	"context"
	"database/sql/driver"
	"errors"
	"sync/atomic"
	"time"

	"github.com/curfew-go/curfew/adapters/sql/dialect"
	"github.com/curfew-go/curfew/budget"
)

// rollbackBound is how long a ROLLBACK may take, from the end of what made it needed.
const rollbackBound = time.Second

// A tx is a transaction that BeginTx began.
//
//	open ──the server ended it──▶ over
//	open, over ──Commit or Rollback──▶ done
//
// Over, it refuses statements, and its Commit rolls back.
type tx struct {
	conn    *conn
	ctx     context.Context // of BeginTx
	options driver.TxOptions
	inner   driver.Tx // nil when a text began it
	phase   *switched // what inner was begun with
	inForce time.Duration
	limited bool  // it has had a limit of ours
	over    error // not nil: why the server has ended it
	failed  bool  // the server refuses all but a rollback
	report  *report
}

// switched is a ctx that stands for another one in each phase of a transaction: drivers
// keep the one of BeginTx for COMMIT and ROLLBACK, and it has mostly ended by then.
type switched struct {
	to atomic.Pointer[context.Context]
}

func (s *switched) set(ctx context.Context)     { s.to.Store(&ctx) }
func (s *switched) now() context.Context        { return *s.to.Load() }
func (s *switched) Deadline() (time.Time, bool) { return s.now().Deadline() }
func (s *switched) Done() <-chan struct{}       { return s.now().Done() }
func (s *switched) Err() error                  { return s.now().Err() }
func (s *switched) Value(key any) any           { return s.now().Value(key) }

var errNested = errors.New("curfewsql: BeginTx: a transaction is open on this connection")

// BeginTx implements driver.ConnBeginTx.
func (c *conn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	if c.tx != nil {
		return nil, errNested
	}
	k, err := c.start(ctx, "", nil)
	if err != nil {
		return nil, err
	}
	t := &tx{conn: c, ctx: ctx, options: opts}
	if t.report, _ = ctx.Value(reportKey{}).(*report); t.report != nil {
		t.report.reached = true
	}
	if begin := c.db.dialect.Begin(t.state(), k.limit); begin != "" {
		t.inForce, t.limited = k.limit, true
		err = execText(k.inner, c.inner, begin)
	} else {
		t.phase = &switched{}
		t.phase.set(k.inner)
		t.inner, err = connBegin(t.phase, c.inner, opts)
		t.phase.set(ctx)
	}
	if failed := k.end(err); failed != nil {
		if t.phase == nil && !errors.Is(err, driver.ErrBadConn) {
			_ = t.rollback() // the text may have failed behind its BEGIN
		}
		return nil, failed
	}
	c.tx = t
	return t, nil
}

func (t *tx) state() dialect.Transaction {
	return dialect.Transaction{Options: t.options, Conn: t.conn.inner, ByText: t.phase == nil, InForce: t.inForce}
}

// Commit implements driver.Tx. Its error is a *CommitError.
func (t *tx) Commit() error {
	c := t.conn
	defer func() { c.tx = nil }()
	if t.report != nil {
		t.report.asked = true
	}
	mark, commit := "", ""
	k, err := c.startWith(t.ctx, phaseCommit, func(limit time.Duration) (armed, whole bool) {
		commit, armed = c.db.dialect.Commit(t.state(), limit)
		return armed, true
	})
	if err == nil && c.db.track {
		if mark, err = t.mark(k); err != nil {
			err = k.end(err)
		}
	}
	if err != nil {
		_ = t.rollback()
		return &CommitError{Outcome: NotCommitted, Err: err}
	}
	if commit != "" {
		err = execText(k.inner, c.inner, commit)
	} else {
		t.phase.set(k.inner)
		err = t.inner.Commit()
	}
	failed := k.end(err)
	if failed == nil {
		if t.report != nil {
			at, bounded := t.ctx.Deadline()
			t.report.late = bounded && !time.Now().Before(at)
		}
		return nil
	}
	if t.failed || k.judge(err).NotCommitted {
		if commit != "" {
			_ = t.rollback()
		}
		return &CommitError{Outcome: NotCommitted, Err: failed}
	}
	return c.unknown(k, err, failed, mark)
}

// gone asks whether the server has ended the transaction along with a statement that waited too long
// for a lock, as innodb_rollback_on_timeout has it; what comes next would be committed by itself. It
// takes a turn, and until the deadline at most. Without an answer the connection is given up.
func (t *tx) gone(k *call) bool {
	asker, ok := t.conn.db.dialect.(interface{ InTx() string })
	if !ok {
		return false
	}
	until := time.Now().Add(rollbackBound)
	if at, bounded := k.user.Deadline(); bounded && at.Before(until) {
		until = at
	}
	if least := time.Now().Add(leastLimit); until.Before(least) {
		until = least
	}
	ctx, cancel := context.WithDeadline(context.WithoutCancel(k.own), until)
	defer cancel()
	row, err := queryRow(ctx, t.conn.inner, asker.InTx())
	if err != nil {
		t.conn.giveUp(err)
		return true
	}
	return text(row[0]) != "1"
}

// mark asks what names the transaction.
func (t *tx) mark(k *call) (string, error) {
	resolver, ok := t.conn.db.dialect.(dialect.Resolver)
	if !ok {
		return "", nil
	}
	row, err := queryRow(k.inner, t.conn.inner, resolver.Mark())
	if err != nil {
		return "", err
	}
	return text(row[0]), nil
}

// Rollback implements driver.Tx. It is bounded by itself, whatever became of the ctx.
func (t *tx) Rollback() error {
	defer func() { t.conn.tx = nil }()
	if t.conn.why != nil {
		return t.conn.why
	}
	return t.rollback()
}

// rollback ends the transaction, or gives the connection up: the server then ends both.
func (t *tx) rollback() error {
	c := t.conn
	if c.why != nil {
		return c.why
	}
	ctx, cancel := budget.Detached(t.ctx, rollbackBound)
	defer cancel()
	var err error
	if text := c.db.dialect.Rollback(t.state()); text != "" {
		err = execText(ctx, c.inner, text)
	} else if t.phase == nil {
		err = execText(ctx, c.inner, "ROLLBACK")
	} else {
		t.phase.set(ctx)
		err = t.inner.Rollback()
	}
	switch v := (dialect.Verdict{}); {
	case err == nil:
		return nil
	case t.over != nil && c.db.dialect.Judge(err).Code != "":
		return nil // nothing left to roll back, as the server says
	case ctx.Err() != nil:
		err = &budget.Cause{Kind: budget.DependencyTimeout, Phase: phaseRollback, Err: quieted(err, v)}
	}
	c.giveUp(err)
	return err
}
