package dialect

import (
	"context"
	"database/sql/driver"
	"errors"
	"reflect"
	"strconv"
	"time"
)

// SQLite is the Dialect of SQLite, for the drivers modernc.org/sqlite from 1.61 and
// github.com/ncruces/go-sqlite3, which look at the context as they compute and as they
// wait for a lock. A driver that waits its whole busy timeout is not bounded.
func SQLite() Dialect { return sqlite{} }

type sqlite struct{}

func (sqlite) Name() string { return "sqlite" }

// Limit has no clock to set.
func (sqlite) Limit(s Statement, _ time.Duration) Statement {
	s.LockWait = 0
	return s
}

func (sqlite) Begin(Transaction, time.Duration) string { return "" }

// Commit by the driver of ncruces knows no context and waits for readers as long as
// the busy timeout is: 3 s for a ctx of 200 ms, measured. As text it looks at one.
// That of modernc does, and as text would call a COMMIT cut that was done.
func (sqlite) Commit(t Transaction, _ time.Duration) (text string, armed bool) {
	if _, ncruces := t.Conn.(interface{ GetAutocommit() bool }); ncruces && !t.Options.ReadOnly { // a read-only one resets a pragma
		return "COMMIT", false
	}
	return "", false
}

func (sqlite) Rollback(Transaction) string { return "" }

// Judge reads primary result codes. Those that end the whole transaction, and may
// do so in the middle of a statement: SQLite documentation, "BEGIN TRANSACTION",
// "Response To Errors Within A Transaction".
func (sqlite) Judge(err error) Verdict {
	code, ok := sqliteCode(err)
	if !ok {
		// The driver itself looked at the context; its COMMIT reports an end only for one
		// that failed.
		ended := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
		return Verdict{TxOver: ended, NotCommitted: ended, Unsent: errors.Is(err, driver.ErrBadConn)}
	}
	v := Verdict{Code: strconv.Itoa(code)}
	switch code & 0xff {
	case 5, 6: // BUSY, LOCKED
		v.Reason, v.NotCommitted = LockTimeout, true
	case 9: // INTERRUPT
		v.Reason, v.TxOver, v.NotCommitted = Interrupted, true, true
	case 7, 13: // NOMEM, FULL
		v.TxOver, v.NotCommitted = true, true
	case 10: // IOERR: of a COMMIT it may be either
		v.TxOver = true
	case 1, 8, 19: // ERROR, READONLY, CONSTRAINT
		v.NotCommitted = true
	}
	return v
}

// sqliteCode returns the result code of the first error in the tree that has one, by
// the method Code or ExtendedCode, whatever kind of integer it returns.
func sqliteCode(err error) (code int, ok bool) {
	return inTree(err, func(err error) (int, bool) {
		for _, name := range []string{"ExtendedCode", "Code"} {
			m := reflect.ValueOf(err).MethodByName(name)
			if !m.IsValid() || m.Type().NumIn() != 0 || m.Type().NumOut() != 1 {
				continue
			}
			switch v := m.Call(nil)[0]; {
			case v.CanInt():
				return int(v.Int()), true
			case v.CanUint():
				return int(v.Uint()), true
			}
		}
		return 0, false
	})
}
