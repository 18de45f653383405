package sqltext_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/curfew-go/curfew/adapters/sql/internal/sqltext"
)

func TestTheFirstWordIsFoundBehindBlanksCommentsAndBrackets(t *testing.T) {
	for query, want := range map[string][2]string{
		"":                                     {"", ""},
		" \n;; SELECT 1":                       {"select", " 1"},
		"-- a\n# b\n/* c /* d */ */(select 2)": {"select", " 2)"},
		"/*!50000 select 1 */":                 {"", "/*!50000 select 1 */"},
		"/* never closed":                      {"", ""},
		"--":                                   {"", ""},
		"set_config(1)":                        {"set_config", "(1)"},
		"42":                                   {"", "42"},
	} {
		word, rest := sqltext.FirstWord(query)
		assert.Equal(t, want, [2]string{word, rest}, query)
	}
}

func TestWhatMayWriteDoesNotRead(t *testing.T) {
	for query, want := range map[string]bool{
		"select 1": true, "(values (1))": true, "pragma user_version": true, "explain delete from t": true,
		"explain analyze select 1": true, "EXPLAIN (Analyze, costs off) INSERT into t values (1)": false, "desc analyze delete from t": false,
		"explain analyse execute p": false, "explain analyze create table t as select 1": false, "explain select analyze from t": true,
		"with a as (select 1) select * from a": true, "with a as (DELETE from t returning n) select * from a": false,
		"insert into t values (1)": false, "call p()": false, "": false, "/*!50000 select 1 */": false,
	} {
		assert.Equal(t, want, sqltext.Reads(query), query)
	}
}

func TestOneStatementIsToldFromSeveral(t *testing.T) {
	for query, want := range map[string]bool{"select 1": false, " select 1 ;; \n": false, "select 1; select 2": true, "select ';'": true, "": false} {
		assert.Equal(t, want, sqltext.Several(query), query)
	}
}
