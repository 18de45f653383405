package stream

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// To a savepoint, it undoes a limit that was set behind it.
func TestBehindARollbackNeitherLimitNorIDIsKnown(t *testing.T) {
	s, b := inTx(), backend{}
	s.xid = 7
	s.outgoing(query("rollback to a"), nil, fixed)
	b.filter(s, join(reply('C', "ROLLBACK\x00"), zready('T')), nil, fixed)
	assert.Zero(t, s.xid)
	out, _ := s.outgoing(query("select 1"), nil, fixed)
	assert.Equal(t, query("set local statement_timeout to 95;select 1;"+selectID), out)
}

func TestACommitOutsideOfATransactionCommitsNothing(t *testing.T) {
	for _, tx := range []byte{'I', 'E'} {
		s := awake(limited)
		s.tx = tx
		_, before := s.outgoing(query("commit"), nil, fixed)
		assert.Negative(t, before)
		assert.Equal(t, none, s.commit, "%c: its loss is that of a statement", tx)
	}
}

func TestCommitAndChainBeginsAnew(t *testing.T) {
	s, b := inTx(), backend{}
	s.xid = 7
	out, _ := s.outgoing(query("commit and chain"), nil, fixed)
	assert.Equal(t, query(constraints+";commit and chain"), out)
	b.filter(s, join(reply('C', "SET CONSTRAINTS\x00"), reply('C', "COMMIT\x00"), zready('T')), nil, fixed)
	assert.Zero(t, s.xid, "is another one's")
	assert.False(t, s.wrote)
	out, _ = s.outgoing(query("select 1"), nil, fixed)
	assert.Equal(t, query("set local statement_timeout to 95;select 1;"+selectID), out)
}

func TestTheDriversUnnamedStatementIsPutBackOnceAndNotInPlaceOfANewOne(t *testing.T) {
	parse, another, run := appendParse(nil, "", "insert into t values (1)"), appendParse(nil, "", "select 2"), appendRun(nil, "")
	overwritten := func() (*state, *backend) {
		s, b := inTx(), &backend{}
		s.nameless = true
		s.outgoing(join(parse, syncMsg), nil, fixed)
		b.filter(s, join(reply('1', ""), zready('T')), nil, fixed)
		s.outgoing(join(run, syncMsg), nil, fixed)
		b.filter(s, join(reply('2', ""), reply('C', "INSERT 0 1\x00"), reply('1', ""), reply('2', ""), idRow("9"), reply('C', "SELECT 1\x00"), zready('T')), nil, fixed)
		require.True(t, s.overwritten)
		s.mode = untouched
		return s, b
	}
	s, b := overwritten()
	out, _ := s.outgoing(join(run, syncMsg), nil, fixed)
	assert.Equal(t, join(parse, run, syncMsg), out)
	b.filter(s, join(reply('1', ""), reply('2', ""), reply('C', "INSERT 0 1\x00"), zready('T')), nil, fixed)
	_, before := s.outgoing(join(run, syncMsg), nil, fixed)
	assert.Negative(t, before, "it is there")

	s, b = overwritten()
	_, before = s.outgoing(join(another, syncMsg), nil, fixed)
	assert.Negative(t, before)
	b.filter(s, join(reply('1', ""), zready('T')), nil, fixed)
	_, before = s.outgoing(join(run, syncMsg), nil, fixed)
	assert.Negative(t, before, "it is a new one")
}
