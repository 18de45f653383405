package curfewsql

import (
	"context"
	"database/sql/driver"
	"time"

	"github.com/curfew-go/curfew/adapters/sql/dialect"
	"github.com/curfew-go/curfew/adapters/sql/internal/sqltext"
)

// A conn is a driver's connection with deadlines. Database/sql calls it from one
// goroutine at a time.
type conn struct {
	inner driver.Conn
	db    *connector
	id    int64 // by which it can be killed; 0 when that is not proven
	ender ender // nil when nothing ends its statements but its driver

	cut     *cut           // ended by a ladder that ends the socket, and with it the connection's use
	scratch []driver.Value // for what is read and dropped

	tx      *tx    // the open transaction that BeginTx began, or nil
	why     error  // not nil: the connection must not be used again
	skipped string // the text that the driver has just asked to be prepared
	skips   int    // how often it has, of those with arguments, until it took one; then -1
}

// Unwrap returns the driver's own connection of the one that sql.Conn.Raw hands to
// its function, which may be of a driver that is not wrapped:
//
//	err := conn.Raw(func(c any) error {
//		pgxConn := curfewsql.Unwrap(c).(*stdlib.Conn).Conn()
//		...
//	})
func Unwrap(driverConn any) any {
	if c, ok := driverConn.(*conn); ok {
		return c.inner
	}
	return driverConn
}

// giveUp has the pool drop the connection.
func (c *conn) giveUp(why error) {
	if c.why == nil {
		c.why = why
	}
}

// refusal says why nothing may be sent, or returns nil.
func (c *conn) refusal() error {
	switch {
	case c.tx != nil && c.tx.over != nil:
		return &TxError{c.tx.over}
	case c.tx != nil && c.why != nil:
		return &TxError{c.why}
	case c.tx != nil && c.tx.ctx.Err() != nil:
		// Rollback is on its way: on a pinned connection this would come in between.
		return &TxError{endOf(c.tx.ctx, "", nil)}
	case c.why != nil:
		return driver.ErrBadConn
	}
	return nil
}

// settle makes sure that a kill which came behind the answer does not strike the next
// statement.
func (c *conn) settle(until time.Time) bool {
	killer, ok := c.db.dialect.(dialect.Killer)
	if !ok || killer.Settle() == "" {
		return true
	}
	ctx, cancel := context.WithDeadline(context.Background(), until.Add(leastLimit))
	defer cancel()
	err := execText(ctx, c.inner, killer.Settle())
	return err == nil || ctx.Err() == nil && c.db.dialect.Judge(err).Reason == dialect.Interrupted
}

// ExecContext implements driver.ExecerContext. Where the driver has nothing like it,
// it returns driver.ErrSkip, which database/sql takes for the same.
func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if c.wantsPrepared(args) {
		c.skipped = query
		return nil, driver.ErrSkip
	}
	st := &dialect.Statement{Query: query, HasArgs: len(args) > 0, Exec: true}
	k, err := c.start(ctx, phaseStatement, st)
	if err != nil {
		return nil, err
	}
	var result driver.Result
	err = c.first(k, st)
	if err == nil {
		result, err = connExec(k.inner, c.inner, st.Query, args)
	}
	c.note(query, args, err)
	if failed := c.after(k, st, true, err, k.end(err)); failed != nil {
		return nil, failed
	}
	return result, nil
}

// QueryContext implements driver.QueryerContext, as ExecContext does its interface.
func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if c.wantsPrepared(args) {
		c.skipped = query
		return nil, driver.ErrSkip
	}
	st := &dialect.Statement{Query: query, HasArgs: len(args) > 0}
	k, err := c.start(ctx, phaseStatement, st)
	if err != nil {
		return nil, err
	}
	var result driver.Rows
	err = c.first(k, st)
	if err == nil {
		result, err = connQuery(k.inner, c.inner, st.Query, args)
	}
	c.note(query, args, err)
	if err != nil {
		return nil, c.after(k, st, !sqltext.Reads(query), err, k.end(err))
	}
	_ = c.after(k, st, false, nil, nil)
	return k.rowsOf(result, query), nil
}

// PrepareContext implements driver.ConnPrepareContext.
func (c *conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	once := c.skipped == query // and so run under the limit at hand, and not again
	c.skipped = ""
	k, err := c.start(ctx, "", nil)
	if err != nil {
		return nil, err
	}
	st := dialect.Statement{Query: query, HasArgs: true, Prepared: !once}
	limit := time.Duration(0)
	if once {
		limit = k.limit
		st.LockWait = c.db.lockWait(limit)
	}
	st = c.db.dialect.Limit(st, limit)
	inner, err := connPrepare(k.inner, c.inner, st.Query)
	if err = k.end(err); err != nil {
		return nil, err
	}
	s := &stmt{conn: c, inner: inner, query: query, lead: st.Lead, once: once && st.Armed, lock: st.LockWait}
	if converter, ok := inner.(columnConverter); ok {
		return &converting{s, converter}, nil
	}
	return s, nil
}

// Prepare implements driver.Conn.
func (c *conn) Prepare(query string) (driver.Stmt, error) {
	return c.PrepareContext(context.Background(), query)
}

// Begin implements driver.Conn.
func (c *conn) Begin() (driver.Tx, error) {
	return c.BeginTx(context.Background(), driver.TxOptions{})
}

// Ping implements driver.Pinger.
func (c *conn) Ping(ctx context.Context) error {
	k, err := c.start(ctx, "", nil)
	if err != nil {
		return err
	}
	pinger, ok := c.inner.(driver.Pinger)
	if ok {
		err = pinger.Ping(k.inner)
	}
	return k.end(err)
}

// CheckNamedValue implements driver.NamedValueChecker.
func (c *conn) CheckNamedValue(v *driver.NamedValue) error {
	if checker, ok := c.inner.(driver.NamedValueChecker); ok {
		return checker.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

// ResetSession implements driver.SessionResetter.
func (c *conn) ResetSession(ctx context.Context) error {
	if c.why != nil {
		return driver.ErrBadConn
	}
	if ctx.Err() != nil {
		// Under an ended ctx drivers find nothing but bad connections. The next
		// one who takes this resets it.
		return endOf(ctx, "", nil)
	}
	if resetter, ok := c.inner.(driver.SessionResetter); ok {
		return resetter.ResetSession(ctx)
	}
	return nil
}

// IsValid implements driver.Validator.
func (c *conn) IsValid() bool {
	if c.why != nil {
		return false
	}
	validator, ok := c.inner.(driver.Validator)
	return !ok || validator.IsValid()
}

// Close implements driver.Conn.
func (c *conn) Close() error { return c.inner.Close() }
