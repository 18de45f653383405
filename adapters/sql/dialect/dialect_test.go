package dialect_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/curfew-go/curfew/adapters/sql/dialect"
)

const (
	ms = time.Millisecond
	of = "SET STATEMENT max_statement_time=0.195 FOR "
)

func TestMariaDBHasTheLimitInFrontOfEveryStatement(t *testing.T) {
	const lead = "SET STATEMENT max_statement_time=(coalesce(?,@@max_statement_time)+0.0) FOR "
	for _, c := range []struct {
		in    dialect.Statement
		limit time.Duration
		want  string
		lead  bool
	}{
		{dialect.Statement{Query: "select 1"}, 195 * ms, of + "select 1", false},
		{dialect.Statement{Query: "-- why\ninsert into t values (1)", Exec: true}, 195 * ms, of + "-- why\ninsert into t values (1)", false},
		{dialect.Statement{Query: "select ?", HasArgs: true}, 195 * ms, of + "select ?", false},
		{dialect.Statement{Query: "select ?", HasArgs: true}, 0, "select ?", false},
		{dialect.Statement{Query: "select ?", HasArgs: true, Prepared: true}, 0, lead + "select ?", true},
		{dialect.Statement{Query: "select 1"}, 0, "select 1", false},
		{dialect.Statement{Query: "select 1"}, ms, "SET STATEMENT max_statement_time=0.001 FOR select 1", false},
		{dialect.Statement{Query: "select 1"}, 10000 * time.Hour, "SET STATEMENT max_statement_time=31536000.000 FOR select 1", false},
		{dialect.Statement{Query: "Set Statement max_statement_time=1 for select 1"}, 195 * ms, "Set Statement max_statement_time=1 for select 1", false},
		{dialect.Statement{Query: "set autocommit=1"}, 195 * ms, of + "set autocommit=1", false},
		{dialect.Statement{Query: "set @@session.Max_Statement_Time=7"}, 195 * ms, "set @@session.Max_Statement_Time=7", false},
		{dialect.Statement{Query: "set lock_wait_timeout=7", LockWait: 1600 * ms}, 2 * time.Second, "set lock_wait_timeout=7", false},
		{dialect.Statement{Query: "select 1", LockWait: 999 * ms}, 195 * ms, of + "select 1", false},
		{dialect.Statement{Query: "select 1", LockWait: 1600 * ms}, 2 * time.Second, "SET STATEMENT max_statement_time=2.000,innodb_lock_wait_timeout=1,lock_wait_timeout=1 FOR select 1", false},
		{dialect.Statement{Query: " "}, 195 * ms, " ", false},
	} {
		got := dialect.MariaDB().Limit(c.in, c.limit)
		assert.Equal(t, c.want, got.Query)
		assert.Equal(t, c.lead, got.Lead, c.in.Query)
		assert.Equal(t, c.want != c.in.Query && c.limit > 0, got.Armed, c.in.Query)
	}
	text, armed := dialect.MariaDB().Commit(dialect.Transaction{}, 195*ms)
	assert.Equal(t, of+"COMMIT", text)
	assert.True(t, armed)
}

func TestMySQLHasTheHintBehindSelect(t *testing.T) {
	for query, want := range map[string]string{
		"select 1":               "select /*+ MAX_EXECUTION_TIME(195) */ 1",
		"-- why\n SELECT n":      "-- why\n SELECT /*+ MAX_EXECUTION_TIME(195) */ n",
		"(select 1)":             "(select /*+ MAX_EXECUTION_TIME(195) */ 1)",
		"select /*+ BKA(t) */":   "", // of several hints MySQL may take the first
		"insert into t values":   "",
		"with a as (select 1)":   "",
		"selected":               "",
		"/*!50000 select 1 */":   "",
		"explain select 1":       "",
		"select/*x*/1 from dual": "select /*+ MAX_EXECUTION_TIME(195) *//*x*/1 from dual",
	} {
		got := dialect.MySQL().Limit(dialect.Statement{Query: query}, 195*ms)
		assert.Equal(t, want != "", got.Armed, query)
		if want == "" {
			want = query
		}
		assert.Equal(t, want, got.Query)
		assert.Equal(t, query, dialect.MySQL().Limit(dialect.Statement{Query: query}, 0).Query)
		assert.Equal(t, query, dialect.MySQL().Limit(dialect.Statement{Query: query, Prepared: true}, 195*ms).Query)
	}
	text, armed := dialect.MySQL().Commit(dialect.Transaction{}, 195*ms)
	assert.Equal(t, "COMMIT", text)
	assert.False(t, armed)
}

func TestPostgreSQLHasTheLimitWhereItHoldsAndNotWhereItFails(t *testing.T) {
	const set = "set local statement_timeout to 195;"
	for _, c := range []struct {
		in           dialect.Statement
		query, first string
		armed        bool
		unknown      bool // what is in force behind it
	}{
		{dialect.Statement{Query: "delete from t", Exec: true}, set + "delete from t", "", true, false},
		{dialect.Statement{Query: "select 1"}, "select 1", "", false, false},
		{dialect.Statement{Query: "delete from t where n=$1", Exec: true, HasArgs: true}, "delete from t where n=$1", "", false, false},
		{dialect.Statement{Query: "vacuum", Exec: true}, "vacuum", "", false, false},
		{dialect.Statement{Query: "create index Concurrently i on t(n)", Exec: true}, "create index Concurrently i on t(n)", "", false, false},
		{dialect.Statement{Query: "create index i on t(n)", Exec: true}, set + "create index i on t(n)", "", true, false},
		{dialect.Statement{Query: "call p()", Exec: true}, "call p()", "", false, false},
		{dialect.Statement{Query: "", Exec: true}, "", "", false, false},
		{dialect.Statement{Query: "select 1", InTx: true}, "select 1", set, true, false},
		{dialect.Statement{Query: "select 1", InTx: true, InForce: 196 * ms}, "select 1", "", true, false},
		{dialect.Statement{Query: "select 1", InTx: true, InForce: 214 * ms}, "select 1", "", true, false},
		{dialect.Statement{Query: "select 1", InTx: true, InForce: 220 * ms}, "select 1", set, true, false},
		{dialect.Statement{Query: "select 1", InTx: true, InForce: 194 * ms}, "select 1", set, true, false},
		{dialect.Statement{Query: "select 1", InTx: true, InForce: -1}, "select 1", set, true, false},
		{dialect.Statement{Query: "delete from t", Exec: true, InTx: true, InForce: 196 * ms}, set + "delete from t", "", true, false},
		{dialect.Statement{Query: "rollback to a", Exec: true, InTx: true, InForce: 196 * ms}, "rollback to a", "", false, true},
		{dialect.Statement{Query: "SET LOCAL Statement_Timeout = 7", Exec: true, InTx: true, InForce: 196 * ms}, set + "SET LOCAL Statement_Timeout = 7", "", true, true},
		{dialect.Statement{Query: "select set_config('statement_timeout', $1, true)", HasArgs: true, InTx: true, InForce: 196 * ms}, "select set_config('statement_timeout', $1, true)", "", true, true},
		{dialect.Statement{Query: "reset all", Exec: true, InTx: true}, set + "reset all", "", true, true},
		{dialect.Statement{Query: "set statement_timeout = 7", Exec: true}, "set statement_timeout = 7", "", false, false},
	} {
		got := dialect.PostgreSQL().Limit(c.in, 195*ms)
		assert.Equal(t, c.query, got.Query)
		assert.Equal(t, c.first, got.First, c.query)
		assert.Equal(t, c.armed, got.Armed, c.query)
		if c.unknown {
			assert.Negative(t, got.InForce, c.query)
		} else if c.armed && (got.First != "" || got.Query != c.in.Query) && c.in.InTx {
			assert.Equal(t, 195*ms, got.InForce, c.query)
		}
	}
	none := dialect.PostgreSQL().Limit(dialect.Statement{Query: "select 1", InTx: true, InForce: 195 * ms}, 0)
	assert.Equal(t, "set local statement_timeout to default;", none.First, "for one without a deadline")
	assert.False(t, none.Armed)

	begin := func(o sql.TxOptions, d time.Duration) string {
		return dialect.PostgreSQL().Begin(dialect.Transaction{Options: driver.TxOptions{Isolation: driver.IsolationLevel(o.Isolation), ReadOnly: o.ReadOnly}}, d)
	}
	assert.Equal(t, "begin;set local statement_timeout to 195", begin(sql.TxOptions{}, 195*ms))
	assert.Equal(t, "begin isolation level serializable read only;set local statement_timeout to 195", begin(sql.TxOptions{Isolation: sql.LevelSerializable, ReadOnly: true}, 195*ms))
	assert.Equal(t, "begin;set local statement_timeout to 2147483647", begin(sql.TxOptions{}, 10000*time.Hour))
	assert.Empty(t, begin(sql.TxOptions{}, 0))
	assert.Empty(t, begin(sql.TxOptions{Isolation: sql.LevelLinearizable}, 195*ms), "which the driver refuses")
}

// state, mysqlError, liteError are errors in the shapes that drivers give them.
type state string

func (s state) Error() string    { return "state" }
func (s state) SQLState() string { return string(s) }

type mysqlError struct{ Number uint16 }

func (*mysqlError) Error() string { return "number" }

type liteError int

func (liteError) Error() string { return "code" }
func (e liteError) Code() int   { return int(e) }

func TestADialectReadsTheErrorsOfDriversItDoesNotImport(t *testing.T) {
	type verdict = dialect.Verdict
	for _, c := range []struct {
		d    dialect.Dialect
		err  error
		want verdict
	}{
		{dialect.PostgreSQL(), state("57014"), verdict{Reason: dialect.LimitRanOut, Code: "57014", TxFailed: true, NotCommitted: true}},
		{dialect.PostgreSQL(), state("55P03"), verdict{Reason: dialect.LockTimeout, Code: "55P03", TxFailed: true, NotCommitted: true}},
		{dialect.PostgreSQL(), state("23505"), verdict{Code: "23505", TxFailed: true, NotCommitted: true}},
		{dialect.PostgreSQL(), state("57P01"), verdict{Code: "57P01", TxFailed: true}},
		{dialect.PostgreSQL(), state("40003"), verdict{Code: "40003", TxFailed: true}},
		{dialect.PostgreSQL(), driver.ErrBadConn, verdict{}},
		{dialect.MariaDB(), &mysqlError{1969}, verdict{Reason: dialect.LimitRanOut, Code: "1969", NotCommitted: true}},
		{dialect.MySQL(), &mysqlError{3024}, verdict{Reason: dialect.LimitRanOut, Code: "3024", NotCommitted: true}},
		{dialect.MySQL(), &mysqlError{1317}, verdict{Reason: dialect.Interrupted, Code: "1317", NotCommitted: true}},
		{dialect.MySQL(), &mysqlError{1205}, verdict{Reason: dialect.LockTimeout, Code: "1205", NotCommitted: true}},
		{dialect.MariaDB(), errors.Join(&mysqlError{1213}), verdict{TxOver: true, Code: "1213", NotCommitted: true}},
		{dialect.MariaDB(), &mysqlError{1020}, verdict{TxOver: true, Code: "1020", NotCommitted: true}},
		{dialect.MySQL(), &mysqlError{1206}, verdict{TxOver: true, Code: "1206", NotCommitted: true}},
		{dialect.MariaDB(), &mysqlError{1180}, verdict{Code: "1180"}},
		{dialect.MariaDB(), driver.ErrBadConn, verdict{Unsent: true}},
		{dialect.MariaDB(), (*mysqlError)(nil), verdict{}},
		{dialect.SQLite(), liteError(5), verdict{Reason: dialect.LockTimeout, Code: "5", NotCommitted: true}},
		{dialect.SQLite(), liteError(9), verdict{Reason: dialect.Interrupted, Code: "9", TxOver: true, NotCommitted: true}},
		{dialect.SQLite(), liteError(10 | 4<<8), verdict{Code: "1034", TxOver: true}},
		{dialect.SQLite(), liteError(13), verdict{Code: "13", TxOver: true, NotCommitted: true}},
		{dialect.SQLite(), liteError(19), verdict{Code: "19", NotCommitted: true}},
		{dialect.SQLite(), context.Canceled, verdict{TxOver: true, NotCommitted: true}},
		{dialect.SQLite(), errors.New("other"), verdict{}},
	} {
		assert.Equal(t, c.want, c.d.Judge(c.err), "%s %v", c.d.Name(), c.err)
	}
}

// A query that comes in any shape must not make a dialect fail, nor lose a byte.
func FuzzALimitKeepsTheQueryWhole(f *testing.F) {
	for _, query := range []string{"select 1", "/* /* */", "--", "# x", "/*!", "((select", ";;", "set", "create index concurrently"} {
		f.Add(query, uint16(200), true, false)
	}
	f.Fuzz(func(t *testing.T, query string, limit uint16, exec, inTx bool) {
		for _, d := range []dialect.Dialect{dialect.MariaDB(), dialect.MySQL(), dialect.PostgreSQL(), dialect.SQLite()} {
			got := d.Limit(dialect.Statement{Query: query, Exec: exec, InTx: inTx}, time.Duration(limit)*ms)
			if d.Name() != "mysql" {
				assert.True(t, strings.HasSuffix(got.Query, query), d.Name())
				continue
			}
			before, rest, hinted := strings.Cut(got.Query, " /*+ MAX_EXECUTION_TIME(")
			if hinted && got.Armed {
				_, behind, _ := strings.Cut(rest, ") */")
				assert.Equal(t, query, before+behind)
			}
		}
	})
}
