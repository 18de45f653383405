package curfewsql

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"math"
	"time"

	"github.com/curfew-go/curfew/adapters/internal/optout"
	"github.com/curfew-go/curfew/adapters/sql/dialect"
	"github.com/curfew-go/curfew/adapters/sql/internal/sqltext"
	"github.com/curfew-go/curfew/budget"
)

// leastLimit is the shortest limit that servers can be given: most round less to 0,
// which switches it off.
const leastLimit = time.Millisecond

// The phases that causes name.
const (
	phasePoolWait  = "pool_wait"
	phaseConnect   = "connect"
	phaseLockWait  = "lock_wait"
	phaseStatement = "statement"
	phaseCommit    = "commit"
	phaseRollback  = "rollback"
)

// A call is one call of the driver with all that follows from it: for rows it is
// over when they are closed. It is used by one goroutine at a time.
type call struct {
	conn  *conn
	own   context.Context // of the statement
	user  context.Context // own, ended by the transaction's as well
	inner context.Context // what the driver gets
	phase string

	began  time.Time
	limit  time.Duration // what is left but for the slush; 0 without deadline
	slush  time.Duration
	armed  bool          // the server has the limit
	lock   time.Duration // the server's limit of waits for locks in it; 0 when it has none
	ladder *ladder       // nil where the driver may see when user ends; else steps
	steps  ladder
	drains bool   // rows are read to their end before the driver closes them
	early  early  // inner, where that has to end before user does
	rows   rows   // of a query
	undo   func() // releases what join made; nil when it made nothing
	ended  bool
}

// start begins a call under ctx, in a phase. A statement st is limited; without one
// there is nothing to limit yet. The error says that nothing was sent and why.
func (c *conn) start(ctx context.Context, phase string, st *dialect.Statement) (*call, error) {
	k, err := c.startWith(ctx, phase, func(limit time.Duration) (armed, whole bool) {
		if st == nil {
			return false, false
		}
		if c.tx != nil {
			st.InTx, st.InForce = true, c.tx.inForce
		}
		st.LockWait = c.db.lockWait(limit)
		whole = !sqltext.Several(st.Query)
		*st = c.db.dialect.Limit(*st, limit)
		return st.Armed, whole
	})
	if err == nil && st != nil {
		k.lock = st.LockWait
	}
	return k, err
}

// startWith is start for what arm limits. arm reports whether the server has the limit, and for all of it:
// of several statements in one text only the first is known to have it.
func (c *conn) startWith(ctx context.Context, phase string, arm func(limit time.Duration) (armed, whole bool)) (*call, error) {
	k := &call{conn: c, own: ctx, user: ctx, phase: phase, began: time.Now()}
	if err := c.refusal(); err != nil {
		return nil, err
	}
	if c.tx != nil {
		k.join(c.tx.ctx)
	}
	if k.user.Err() != nil {
		k.release()
		return nil, endOf(k.whose(), "", nil)
	}
	left, bounded := budget.Remaining(k.user)
	if bounded && left < leastLimit {
		k.release()
		return nil, tooLate(k.whose())
	}
	without := optout.Of(ctx)
	if bounded && !without {
		k.slush = max(min(c.db.slush.Of(left), left-leastLimit), 0)
		k.limit = max((left - k.slush).Truncate(time.Millisecond), leastLimit)
	}
	armed, whole := arm(k.limit)
	k.armed = armed
	if all, ok := c.db.dialect.(interface{ LimitsAll() bool }); ok && all.LimitsAll() {
		k.armed = k.limit > 0
	}

	_, kills := c.db.dialect.(dialect.Killer)
	climbs := kills || c.ender != nil
	switch {
	case climbs && k.user.Done() != nil:
		if c.cut == nil {
			c.cut = newCut()
		}
		k.ladder = &k.steps
		k.ladder.cut, k.ladder.slush, k.ladder.patience = c.cut, k.slush, c.db.patience()
		k.ladder.armed = k.armed && whole
		k.ladder.patient = 100
		if kills {
			k.ladder.patient = 60
		}
		if phase != "" || !kills {
			k.ladder.ender = c.ender
		}
		k.ladder.start(k.user, left)
		k.inner, k.drains = k.ladder, kills
	case climbs:
		k.inner = k.user
	case without:
		k.inner = unbounded{k.user}
	case k.limit > 0 && !k.armed && phase != "":
		k.early.Context, k.early.at = k.user, k.began.Add(left-k.slush)
		k.inner = &k.early
	default:
		k.inner = k.user
	}
	return k, nil
}

// join has the call end with its transaction, whose ctx a statement need not have:
// Tx.Exec has none at all.
func (k *call) join(tx context.Context) {
	if tx.Done() == nil || tx.Done() == k.own.Done() {
		return
	}
	joined, cancel := context.WithCancelCause(k.own)
	stop := context.AfterFunc(tx, func() { cancel(context.Cause(tx)) })
	k.user, k.undo = joined, func() { stop(); cancel(nil) }
	at, bounded := tx.Deadline()
	if own, ok := k.own.Deadline(); bounded && (!ok || at.Before(own)) {
		sooner, end := context.WithDeadline(joined, at)
		k.user, k.undo = sooner, func() { end(); stop(); cancel(nil) }
	}
	if tx.Err() != nil {
		cancel(context.Cause(tx)) // by AfterFunc it would come a moment later
	}
}

// whose returns the ctx that ended the call, or would first.
func (k *call) whose() context.Context {
	if k.conn.tx == nil || k.own.Err() != nil {
		return k.own
	}
	tx := k.conn.tx.ctx
	if tx.Err() != nil {
		return tx
	}
	at, bounded := tx.Deadline()
	if own, ok := k.own.Deadline(); bounded && (!ok || at.Before(own)) {
		return tx
	}
	return k.own
}

func (k *call) release() {
	k.early.release()
	if k.undo != nil {
		k.undo()
		k.undo = nil
	}
}

// end is called once with the driver's last answer and returns what to make of it.
// The connection may be used again behind it, or has been given up.
func (k *call) end(err error) error {
	if k.ended {
		return k.translate(err)
	}
	translated := k.translate(err)
	k.ended = true
	if k.ladder != nil {
		killed, lost, until := k.ladder.finish()
		if err != nil && k.judge(err).Reason == dialect.Interrupted {
			killed = false // it has struck
		}
		switch {
		case lost:
			k.conn.giveUp(errOr(translated, errCut))
		case killed && !k.conn.settle(until):
			k.conn.giveUp(errOr(translated, errCut))
		}
	}
	// What is prepared alone changes nothing, but may fail the transaction.
	if t := k.conn.tx; t != nil && (k.phase == phaseStatement && (err == nil || isAnswer(err)) || k.phase == "" && isAnswer(err)) {
		v := dialect.Verdict{}
		if err != nil {
			v = k.judge(err)
		}
		switch {
		case v.TxOver && k.phase != "":
			t.over = errOr(translated, err)
		case err != nil && v.Code == "" && !v.TxOver && connectionLost(k.conn.inner, err):
			k.conn.giveUp(translated) // no COMMIT was sent: none of it will be committed
		case v.Reason == dialect.LockTimeout && t.over == nil && k.conn.why == nil && t.gone(k):
			t.over = translated
		}
		t.failed = err != nil && (t.failed || v.TxFailed) // an error of the driver's own says nothing of it
	}
	k.release()
	return translated
}

var errCut = errors.New("curfewsql: the connection was ended while a kill was on its way")

func errOr(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

func (k *call) judge(err error) dialect.Verdict { return k.conn.db.dialect.Judge(err) }

// translate returns err as the caller is to see it. Errors that time did not make
// stay what they are.
func (k *call) translate(err error) error {
	if !isAnswer(err) {
		return err
	}
	if have := (*budget.Cause)(nil); errors.As(err, &have) {
		return err
	}
	v := k.judge(err)
	byTime := v.Reason != dialect.Other || v.Code == ""
	climbs := k.ladder != nil && k.ladder.climbs()
	phase := k.phase
	if phase == "" {
		phase = phaseStatement
	}
	if v.Reason == dialect.LockTimeout {
		phase = phaseLockWait
	}
	switch {
	case !byTime:
		return err
	case v.Reason == dialect.LimitRanOut && k.armed && k.user.Err() == nil && time.Since(k.began) >= k.limit-time.Millisecond:
		// By what we did, not by the time left: a window around the deadline misses
		// many. A cancel by somebody else comes before the limit is over.
		return deadline(k.whose(), phase, err, v)
	case v.Reason == dialect.LockTimeout && k.lock > 0 && k.user.Err() == nil && time.Since(k.began) >= k.lock-time.Millisecond:
		return deadline(k.whose(), phase, err, v)
	case k.user.Err() != nil:
		return endOf(k.whose(), phase, quieted(err, v))
	case climbs, k.inner.Err() != nil: // the slush has begun, of which the user does not know yet
		return deadline(k.whose(), phase, err, v)
	case v.Reason == dialect.LockTimeout:
		c := namesOf(k.whose())
		c.Kind, c.Phase, c.Err = budget.DependencyTimeout, phase, quieted(err, v)
		return c
	}
	return err
}

// isAnswer reports whether err is more than a word between driver and database/sql.
func isAnswer(err error) bool {
	return err != nil && err != io.EOF && err != driver.ErrSkip && err != driver.ErrRemoveArgument
}

// lockWait is how much of a limit may be spent on waiting for a lock; 0 for all of it.
func (s *settings) lockWait(limit time.Duration) time.Duration {
	if !s.lockWaits {
		return 0
	}
	return limit * 4 / 5
}

// patience is the slush of a call that has no deadline.
func (s *settings) patience() time.Duration {
	return min(max(s.slush.Of(math.MaxInt64), leastLimit), time.Second)
}
