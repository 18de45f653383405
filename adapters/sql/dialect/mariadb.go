package dialect

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/curfew-go/curfew/adapters/sql/internal/sqltext"
)

// MariaDB is the Dialect of MariaDB from 10.1.
func MariaDB() Dialect { return mariadb{} }

// MySQL is the Dialect of MySQL from 5.7. It is tested without a server.
func MySQL() Dialect { return mysql{} }

type mariadb struct{ mysqlFamily }

func (mariadb) Name() string { return "mariadb" }

// maxLimit is the longest max_statement_time. Source: MariaDB documentation,
// "Server System Variables".
const maxLimit = 31536000 * time.Second

func (mariadb) Limit(s Statement, d time.Duration) Statement {
	wait := s.LockWait.Truncate(time.Second)
	s.LockWait = 0
	switch first, rest := sqltext.FirstWord(s.Query); {
	case first == "" && rest == "":
		return s // empty, which the server should say
	case first == "set":
		if second, _ := sqltext.FirstWord(rest); second == "statement" {
			return s // has one of its own, and they do not nest
		}
		if text := strings.ToLower(rest); strings.Contains(text, "max_statement_time") || strings.Contains(text, "lock_wait_timeout") {
			return s // what it sets would be undone at the end of ours
		}
	}
	switch {
	case s.Prepared:
		// One text for every limit. A bare ? is refused, an expression is not. NULL stands for no limit of ours.
		s.Query = "SET STATEMENT max_statement_time=(coalesce(?,@@max_statement_time)+0.0) FOR " + s.Query
		s.Lead = true
	case d > 0:
		s.Query, s.LockWait = limited(d, wait, s.Query), wait
	}
	s.Armed = d > 0
	return s
}

// limited returns query with the limit d in its text, and with that of waits for the locks of
// rows and of metadata where it is a second or more: 0 would be not to wait at all.
func limited(d, lockWait time.Duration, query string) string {
	var buf [256]byte // most texts fit, and only the string is allocated
	text := append(buf[:0], "SET STATEMENT max_statement_time="...)
	// Whole milliseconds: below a microsecond it would round to 0, which is none.
	text = strconv.AppendFloat(text, min(d, maxLimit).Seconds(), 'f', 3, 64)
	if seconds := int64(min(lockWait, maxLimit) / time.Second); seconds > 0 {
		text = append(text, ",innodb_lock_wait_timeout="...)
		text = strconv.AppendInt(text, seconds, 10)
		text = append(text, ",lock_wait_timeout="...)
		text = strconv.AppendInt(text, seconds, 10)
	}
	text = append(text, " FOR "...)
	return string(append(text, query...))
}

// Commit is limited too: it can wait for a global read lock. Then the transaction
// is rolled back, measured; and none of 2500 commits was cut by limits shorter than
// they took.
func (mariadb) Commit(_ Transaction, d time.Duration) (text string, armed bool) {
	if d == 0 {
		return "COMMIT", false
	}
	return limited(d, 0, "COMMIT"), true
}

// InTx asks for what a 1205 does not say: under innodb_rollback_on_timeout it ends the transaction.
func (mariadb) InTx() string { return "select @@in_transaction" }

// Settle is nothing: each command begins with the flag of a kill taken back. Source: dispatch_command
// of MariaDB's sql/sql_parse.cc. Of 1000 statements behind a kill of the idle connection none was
// hit (TestAKillOfAnIdleConnectionHitsNothing).
func (mariadb) Settle() string { return "" }

type mysql struct{ mysqlFamily }

func (mysql) Name() string { return "mysql" }

// Settle is needed: a kill of an idle connection is left alone, and one in a statement is taken back
// at its end, but between that and the read of the next one it stays. Source: THD::awake and
// mysql_execute_command of MySQL 8.0.
func (mysql) Settle() string { return "do 0" }

// Limit knows of one for a SELECT alone. Source: MySQL documentation, "Optimizer
// Hints", MAX_EXECUTION_TIME; a hint's place is right behind the word, and 0 is none.
func (mysql) Limit(s Statement, d time.Duration) Statement {
	s.LockWait = 0
	first, rest := sqltext.FirstWord(s.Query)
	if d == 0 || s.Prepared || first != "select" || strings.HasPrefix(strings.TrimLeft(rest, " \t\r\n"), "/*+") {
		return s
	}
	at := len(s.Query) - len(rest)
	ms := min(d.Milliseconds(), 1<<32-1)
	s.Query = s.Query[:at] + fmt.Sprintf(" /*+ MAX_EXECUTION_TIME(%d) */", ms) + rest
	s.Armed = true
	return s
}

func (mysql) Commit(Transaction, time.Duration) (text string, armed bool) { return "COMMIT", false }

// mysqlFamily is what the two have in common. Their drivers commit and roll back
// without a context, so both are sent as text.
type mysqlFamily struct{}

func (mysqlFamily) Begin(Transaction, time.Duration) string { return "" }
func (mysqlFamily) Rollback(Transaction) string             { return "ROLLBACK" }

func (mysqlFamily) Identify(token string) string {
	return "select connection_id(), get_lock('" + token + "', 0)"
}
func (mysqlFamily) Prove(token string) string   { return "select is_used_lock('" + token + "')" }
func (mysqlFamily) Release(token string) string { return "do release_lock('" + token + "')" }
func (mysqlFamily) Kill(id int64) string        { return "KILL QUERY " + strconv.FormatInt(id, 10) }

// The numbers. Source: MariaDB documentation, "MariaDB Error Code Reference"; MySQL
// documentation, "Server Error Message Reference".
func (mysqlFamily) Judge(err error) Verdict {
	number, ok := errorNumber(err)
	if !ok {
		return Verdict{Unsent: errors.Is(err, driver.ErrBadConn)}
	}
	v := Verdict{Code: strconv.Itoa(number)}
	switch number {
	case 1969, 3024:
		v.Reason, v.NotCommitted = LimitRanOut, true
	case 1317:
		v.Reason, v.NotCommitted = Interrupted, true
	case 1205:
		v.Reason, v.NotCommitted = LockTimeout, true
	case 1213, 1614, // deadlock, in an XA transaction
		1020, // a row changed behind the snapshot: innodb_snapshot_isolation, on by default from MariaDB 11.6
		1206: // more locks than fit
		v.TxOver, v.NotCommitted = true, true
	case 1290, 1792, 1836: // read only
		v.NotCommitted = true
	}
	return v
}

// errorNumber returns the field Number of the first error in the tree that has
// one. It is read by its name, so that no driver is imported.
func errorNumber(err error) (number int, ok bool) {
	return inTree(err, func(err error) (int, bool) {
		v := reflect.ValueOf(err)
		if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
			return 0, false
		}
		f := v.Elem().FieldByName("Number")
		if !f.IsValid() || !f.CanUint() {
			return 0, false
		}
		return int(f.Uint()), true
	})
}
