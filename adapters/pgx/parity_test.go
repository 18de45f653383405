package curfewpgx_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewpgx "github.com/curfew-go/curfew/adapters/pgx"
)

// shapes are statements whose answers must be the same with and without us. They
// run in order, all on one connection.
var shapes = []struct {
	sql  string
	args []any
}{
	{"select 1", nil},
	{"select $1::int, $2::text", []any{7, "a'b\\c"}},
	{"select null::int, ''::text, false", nil},
	{"select 1.50::numeric, 'abc'::bytea, '2024-02-29'::date", nil},
	{"select '2024-02-29 12:00:00+02'::timestamptz, '1 day 2 h'::interval", nil},
	{"select 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid, '{\"a\": [1, null]}'::jsonb", nil},
	{"select array[1,2,null]::int[], row(1,'x'), int4range(1,5)", nil},
	{"select n, n::text from generate_series(1, 2000) n", nil},
	{"select repeat('x', 300000)", nil},
	{"select where false", nil},
	{"select n from generate_series(1, 3) n where n > $1", []any{9}},
	{"-- note\n/* a /* nested */ one */ (select 5)", nil},
	{"create temp table parity (id serial, v text)", nil},
	{"insert into parity (v) values ($1), ($2) returning id, v", []any{"p", "q"}},
	{"update parity set v = v || '!' where id = $1", []any{1}},
	{"with d as (delete from parity returning *) select count(*) from d", nil},
	{"explain (costs off) select 1", nil},
	{"values (1, 'a'), (2, 'b')", nil},
	{"show server_version_num", nil},
	{"select pg_notify('c', 'x')::text", nil},
	{"do $$ begin perform 1; end $$", nil},
	{"set application_name to 'parity'", nil},
	{"", nil},
	{"; -- nothing", nil},
	{"selec 1", nil},
	{"select * from nowhere", nil},
	{"select 1/($1::int)", []any{0}},
	{"insert into parity (id) values ($1::int), ('x'::text)", []any{1}},
	{"vacuum parity", nil},
}

// answer is all that a caller can see of one statement.
type answer struct {
	columns []string
	oids    []uint32
	formats []int16
	rows    [][]any
	tag     string
	err     *pgconn.PgError
}

func answerOf(ctx context.Context, t *testing.T, conn *pgx.Conn, sql string, args []any) (a answer) {
	t.Helper()
	rows, err := conn.Query(ctx, sql, args...)
	if err == nil && rows.Err() == nil {
		for _, f := range rows.FieldDescriptions() {
			a.columns, a.oids, a.formats = append(a.columns, f.Name), append(a.oids, f.DataTypeOID), append(a.formats, f.Format)
		}
		for rows.Next() {
			values, err := rows.Values()
			require.NoError(t, err)
			a.rows = append(a.rows, values)
		}
		rows.Close()
		a.tag = rows.CommandTag().String()
	}
	if err == nil {
		err = rows.Err()
	}
	if err != nil {
		require.True(t, errors.As(err, &a.err), "%s: %v", sql, err)
	}
	return a
}

func TestAnswersAreTheSameValueByValueAndTypeByType(t *testing.T) {
	server := start(t)
	eachMode(t, func(t *testing.T, mode pgx.QueryExecMode) {
		plain := bare(t, config(t, server, server.Addr(), mode))
		ours := connect(t, config(t, server, server.Addr(), mode))
		locks := connect(t, config(t, server, server.Addr(), mode), curfewpgx.LockWait(0.5))
		for round := range 2 { // cold, and with all prepared that can be
			for _, q := range shapes {
				want := answerOf(t.Context(), t, plain, q.sql, q.args)
				got := answerOf(within(t, time.Minute), t, ours, q.sql, q.args)
				assert.Equal(t, want, got, "round %d: %.60s", round, q.sql)
				got = answerOf(within(t, time.Minute), t, locks, q.sql, q.args)
				assert.Equal(t, want, got, "round %d, with a limit for locks: %.60s", round, q.sql)
			}
			for _, conn := range []*pgx.Conn{plain, ours, locks} {
				_, err := conn.Exec(t.Context(), "drop table parity")
				require.NoError(t, err)
			}
		}
		assert.Equal(t, byte('I'), ours.PgConn().TxStatus())
	})
}

func TestStatementsThatMayNotShareATransactionStillRun(t *testing.T) {
	// Case 58 is about the kind; this is the list.
	server := start(t)
	eachMode(t, func(t *testing.T, mode pgx.QueryExecMode) {
		conn := connect(t, config(t, server, server.Addr(), mode))
		for _, sql := range []string{
			"drop table if exists alone", "create table if not exists alone (n int)",
			"vacuum alone", "VACUUM (analyze) alone", "/* c */ vacuum",
			"create index concurrently alone_n on alone (n)",
			"create unique index concurrently if not exists alone_u on alone (n)",
			"reindex index concurrently alone_n", "reindex table alone",
			"drop index concurrently alone_n", "drop index concurrently alone_u",
			"create database spare", "drop database spare",
			"alter system set work_mem = '5MB'", "alter system reset work_mem",
			"cluster", "discard plans",
			"do $$ begin create temp table d (n int); commit; drop table d; end $$",
			"create or replace procedure commits() language plpgsql as $$ begin commit; end $$",
			"call commits()", "checkpoint", "listen x", "unlisten *",
		} {
			_, err := conn.Exec(within(t, time.Minute), sql)
			require.NoError(t, err, sql)
		}
		// By name: Bind carries no text.
		_, err := conn.Prepare(t.Context(), "by_name", "vacuum alone")
		require.NoError(t, err)
		for range 2 {
			rows, err := conn.Query(within(t, time.Minute), "by_name")
			require.NoError(t, err)
			rows.Close()
			require.NoError(t, rows.Err())
		}
	})
}

func TestStatementsThatMayNotShareATransactionRunInTheExtendedProtocolToo(t *testing.T) {
	server := start(t)
	eachMode(t, func(t *testing.T, mode pgx.QueryExecMode) {
		conn := connect(t, config(t, server, server.Addr(), mode))
		for range 2 { // the second time as a cached statement
			for _, sql := range []string{"vacuum", "reindex table pg_attrdef", "do $$ begin commit; end $$", "discard sequences"} {
				rows, err := conn.Query(within(t, time.Minute), sql) // never simple by itself, unlike Exec
				require.NoError(t, err, sql)
				rows.Close()
				require.NoError(t, rows.Err(), sql)
			}
		}
	})
}

func TestATransactionMayStillSetItselfUpAndLockBeforeItsSnapshot(t *testing.T) {
	server := start(t)
	eachMode(t, func(t *testing.T, mode pgx.QueryExecMode) {
		conn := connect(t, config(t, server, server.Addr(), mode))
		_, err := conn.Exec(t.Context(), "drop table if exists locked; create table locked (n int)")
		require.NoError(t, err)
		tx, err := conn.Begin(within(t, time.Minute))
		require.NoError(t, err)
		for _, sql := range []string{"lock table locked", "set transaction isolation level serializable"} {
			_, err = tx.Exec(within(t, time.Second), sql) // shorter: re-armed in front
			require.NoError(t, err, sql)
		}
		var level string
		require.NoError(t, tx.QueryRow(within(t, time.Second), "show transaction_isolation").Scan(&level))
		assert.Equal(t, "serializable", level)
		require.NoError(t, tx.Commit(within(t, time.Second)))
	})
}
