package curfewsql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	curfewsql "github.com/curfew-go/curfew/adapters/sql"
)

const (
	ms = time.Millisecond
	of = "SET STATEMENT max_statement_time=0.195 FOR "
)

func TestMariaDBHasTheLimitInFrontOfEveryStatement(t *testing.T) {
	const lead = "SET STATEMENT max_statement_time=(coalesce(?,@@max_statement_time)+0.0) FOR "
	for _, c := range []struct {
		in    curfewsql.Statement
		limit time.Duration
		want  string
		lead  bool
	}{
		{curfewsql.Statement{Query: "select 1"}, 195 * ms, of + "select 1", false},
		{curfewsql.Statement{Query: "-- why\ninsert into t values (1)", Exec: true}, 195 * ms, of + "-- why\ninsert into t values (1)", false},
		{curfewsql.Statement{Query: "select ?", HasArgs: true}, 195 * ms, of + "select ?", false},
		{curfewsql.Statement{Query: "select ?", HasArgs: true}, 0, "select ?", false},
		{curfewsql.Statement{Query: "select ?", HasArgs: true, Prepared: true}, 0, lead + "select ?", true},
		{curfewsql.Statement{Query: "select 1"}, 0, "select 1", false},
		{curfewsql.Statement{Query: "select 1"}, ms, "SET STATEMENT max_statement_time=0.001 FOR select 1", false},
		{curfewsql.Statement{Query: "select 1"}, 10000 * time.Hour, "SET STATEMENT max_statement_time=31536000.000 FOR select 1", false},
		{curfewsql.Statement{Query: "Set Statement max_statement_time=1 for select 1"}, 195 * ms, "Set Statement max_statement_time=1 for select 1", false},
		{curfewsql.Statement{Query: "set autocommit=1"}, 195 * ms, of + "set autocommit=1", false},
		{curfewsql.Statement{Query: " "}, 195 * ms, " ", false},
	} {
		got := curfewsql.MariaDB().Limit(c.in, c.limit)
		assert.Equal(t, c.want, got.Query)
		assert.Equal(t, c.lead, got.Lead, c.in.Query)
		assert.Equal(t, c.want != c.in.Query && c.limit > 0, got.Armed, c.in.Query)
	}
	text, armed := curfewsql.MariaDB().Commit(curfewsql.Transaction{}, 195*ms)
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
		got := curfewsql.MySQL().Limit(curfewsql.Statement{Query: query}, 195*ms)
		assert.Equal(t, want != "", got.Armed, query)
		if want == "" {
			want = query
		}
		assert.Equal(t, want, got.Query)
		assert.Equal(t, query, curfewsql.MySQL().Limit(curfewsql.Statement{Query: query}, 0).Query)
		assert.Equal(t, query, curfewsql.MySQL().Limit(curfewsql.Statement{Query: query, Prepared: true}, 195*ms).Query)
	}
	text, armed := curfewsql.MySQL().Commit(curfewsql.Transaction{}, 195*ms)
	assert.Equal(t, "COMMIT", text)
	assert.False(t, armed)
}

func TestPostgreSQLHasTheLimitWhereItHoldsAndNotWhereItFails(t *testing.T) {
	const set = "set local statement_timeout to 195;"
	for _, c := range []struct {
		in           curfewsql.Statement
		query, first string
		armed        bool
	}{
		{curfewsql.Statement{Query: "delete from t", Exec: true}, set + "delete from t", "", true},
		{curfewsql.Statement{Query: "select 1"}, "select 1", "", false},
		{curfewsql.Statement{Query: "delete from t where n=$1", Exec: true, HasArgs: true}, "delete from t where n=$1", "", false},
		{curfewsql.Statement{Query: "vacuum", Exec: true}, "vacuum", "", false},
		{curfewsql.Statement{Query: "create index Concurrently i on t(n)", Exec: true}, "create index Concurrently i on t(n)", "", false},
		{curfewsql.Statement{Query: "create index i on t(n)", Exec: true}, set + "create index i on t(n)", "", true},
		{curfewsql.Statement{Query: "call p()", Exec: true}, "call p()", "", false},
		{curfewsql.Statement{Query: "", Exec: true}, "", "", false},
		{curfewsql.Statement{Query: "select 1", InTx: true}, "select 1", set, true},
		{curfewsql.Statement{Query: "select 1", InTx: true, InForce: 196 * ms}, "select 1", "", true},
		{curfewsql.Statement{Query: "select 1", InTx: true, InForce: 214 * ms}, "select 1", "", true},
		{curfewsql.Statement{Query: "select 1", InTx: true, InForce: 220 * ms}, "select 1", set, true},
		{curfewsql.Statement{Query: "select 1", InTx: true, InForce: 194 * ms}, "select 1", set, true},
		{curfewsql.Statement{Query: "select 1", InTx: true, InForce: -1}, "select 1", set, true},
		{curfewsql.Statement{Query: "delete from t", Exec: true, InTx: true, InForce: 196 * ms}, set + "delete from t", "", true},
		{curfewsql.Statement{Query: "rollback to a", Exec: true, InTx: true, InForce: 196 * ms}, "rollback to a", "", false},
	} {
		got := curfewsql.PostgreSQL().Limit(c.in, 195*ms)
		assert.Equal(t, c.query, got.Query)
		assert.Equal(t, c.first, got.First, c.query)
		assert.Equal(t, c.armed, got.Armed, c.query)
		if c.armed && (got.First != "" || got.Query != c.in.Query) && c.in.InTx {
			assert.Equal(t, 195*ms, got.InForce, c.query)
		}
	}
	none := curfewsql.PostgreSQL().Limit(curfewsql.Statement{Query: "select 1", InTx: true, InForce: 195 * ms}, 0)
	assert.Equal(t, "set local statement_timeout to default;", none.First, "for one without a deadline")
	assert.False(t, none.Armed)

	begin := func(o sql.TxOptions, d time.Duration) string {
		return curfewsql.PostgreSQL().Begin(curfewsql.Transaction{Options: driver.TxOptions{Isolation: driver.IsolationLevel(o.Isolation), ReadOnly: o.ReadOnly}}, d)
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
	type verdict = curfewsql.Verdict
	for _, c := range []struct {
		d    curfewsql.Dialect
		err  error
		want verdict
	}{
		{curfewsql.PostgreSQL(), state("57014"), verdict{Reason: curfewsql.LimitRanOut, Code: "57014", TxFailed: true, NotCommitted: true}},
		{curfewsql.PostgreSQL(), state("55P03"), verdict{Reason: curfewsql.LockTimeout, Code: "55P03", TxFailed: true, NotCommitted: true}},
		{curfewsql.PostgreSQL(), state("23505"), verdict{Code: "23505", TxFailed: true, NotCommitted: true}},
		{curfewsql.PostgreSQL(), state("57P01"), verdict{Code: "57P01", TxFailed: true}},
		{curfewsql.PostgreSQL(), state("40003"), verdict{Code: "40003", TxFailed: true}},
		{curfewsql.PostgreSQL(), driver.ErrBadConn, verdict{}},
		{curfewsql.MariaDB(), &mysqlError{1969}, verdict{Reason: curfewsql.LimitRanOut, Code: "1969", NotCommitted: true}},
		{curfewsql.MySQL(), &mysqlError{3024}, verdict{Reason: curfewsql.LimitRanOut, Code: "3024", NotCommitted: true}},
		{curfewsql.MySQL(), &mysqlError{1317}, verdict{Reason: curfewsql.Interrupted, Code: "1317", NotCommitted: true}},
		{curfewsql.MySQL(), &mysqlError{1205}, verdict{Reason: curfewsql.LockTimeout, Code: "1205", NotCommitted: true}},
		{curfewsql.MariaDB(), errors.Join(&mysqlError{1213}), verdict{TxOver: true, Code: "1213", NotCommitted: true}},
		{curfewsql.MariaDB(), &mysqlError{1180}, verdict{Code: "1180"}},
		{curfewsql.MariaDB(), driver.ErrBadConn, verdict{Unsent: true}},
		{curfewsql.MariaDB(), (*mysqlError)(nil), verdict{}},
		{curfewsql.SQLite(), liteError(5), verdict{Reason: curfewsql.LockTimeout, Code: "5", NotCommitted: true}},
		{curfewsql.SQLite(), liteError(9), verdict{Reason: curfewsql.Interrupted, Code: "9", TxOver: true, NotCommitted: true}},
		{curfewsql.SQLite(), liteError(10 | 4<<8), verdict{Code: "1034", TxOver: true}},
		{curfewsql.SQLite(), liteError(13), verdict{Code: "13", TxOver: true, NotCommitted: true}},
		{curfewsql.SQLite(), liteError(19), verdict{Code: "19", NotCommitted: true}},
		{curfewsql.SQLite(), context.Canceled, verdict{TxOver: true, NotCommitted: true}},
		{curfewsql.SQLite(), errors.New("other"), verdict{}},
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
		for _, d := range []curfewsql.Dialect{curfewsql.MariaDB(), curfewsql.MySQL(), curfewsql.PostgreSQL(), curfewsql.SQLite()} {
			got := d.Limit(curfewsql.Statement{Query: query, Exec: exec, InTx: inTx}, time.Duration(limit)*ms)
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
