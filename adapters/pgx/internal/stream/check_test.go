package stream

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// shown is a DataRow with one column.
func shown(text string) []byte {
	return reply('D', "\x00\x01\x00\x00\x00"+string(byte(len(text)))+text)
}

// checked is a state that asks for its limit, and what was reported.
func checked() (s *state, reports *[]bool) {
	s, reports = awake(limited), &[]bool{}
	s.check = NewCheck(func(seen bool) { *reports = append(*reports, seen) })
	return s, reports
}

func TestTheLimitIsAskedForBehindTheFirstOneAndNoMoreOnceItWasSeen(t *testing.T) {
	set := "set local statement_timeout to 95;"
	theirs := join(reply('1', ""), reply('2', ""), reply('C', "SELECT 1\x00"), zready('I'))
	simple := join(reply('T', "y"), reply('D', "1"), reply('C', "SELECT 1\x00"), zready('I'))
	front := join(reply('1', ""), reply('2', ""), shown("95ms"), reply('C', "SELECT 1\x00"))
	asked := join(reply('1', ""), reply('2', ""), shown("95ms"), reply('C', "SHOW\x00"))
	bind := join(appendRun(nil, "theirs"), syncMsg)
	for _, c := range []struct {
		name           string
		in             []byte
		want           []byte // nil: only that it holds the question
		ours, theirs   []byte
		behind, second []byte // ours behind theirs; what the next one is
	}{
		{"simple", query("select 1"), query(set + showLimit + ";select 1"),
			join(reply('C', "SET\x00"), reply('T', "y"), shown("95ms"), reply('C', "SHOW\x00")), simple, nil, query(set + "select 1")},
		{"begin", query("begin"), query("begin;set local statement_timeout to 95;" + showLimit),
			nil, reply('C', "BEGIN\x00"), join(reply('C', "SET\x00"), reply('T', "y"), shown("95ms"), reply('C', "SHOW\x00")), query("begin;set local statement_timeout to 95")},
		{"unnamed", join(appendParse(nil, "", "select 1"), bind), nil, join(front, asked), theirs, nil, nil},
		{"prepared", bind, nil, join(front, asked), theirs[5:], nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, reports := checked()
			check, b := s.check, backend{}
			out, _ := s.outgoing(c.in, nil, fixed)
			if c.want != nil {
				require.Equal(t, string(c.want), string(out))
			}
			require.Contains(t, string(out), showLimit)
			end := zready('I')
			if c.behind == nil {
				end = nil
			}
			for _, in := range join(c.ours, c.theirs, c.behind, end) { // byte by byte
				out = b.filter(s, []byte{in}, out[:0], fixed)
			}
			require.Equal(t, []bool{true}, *reports)

			s.tx, s.inForce, s.armed = 'I', 0, false
			out, _ = s.outgoing(c.in, nil, fixed)
			assert.NotContains(t, string(out), showLimit, "nor on this connection")
			if c.second != nil {
				assert.Equal(t, string(c.second), string(out))
			}
			other := awake(limited)
			other.check = check
			out, _ = other.outgoing(c.in, nil, fixed)
			assert.NotContains(t, string(out), showLimit, "nor on another")
		})
	}
}

func TestTheDriverHearsNothingOfTheQuestion(t *testing.T) {
	s, _ := checked()
	bind := join(appendRun(nil, "theirs"), syncMsg)
	s.outgoing(bind, nil, fixed)
	theirs := join(reply('2', ""), reply('D', "x"), reply('C', "SELECT 1\x00"), zready('I'))
	ours := join(reply('1', ""), reply('2', ""), shown("95ms"), reply('C', "SELECT 1\x00"), reply('1', ""), reply('2', ""), shown("95ms"), reply('C', "SHOW\x00"))
	b := backend{}
	assert.Equal(t, theirs, b.filter(s, join(ours, theirs), nil, fixed))
	assert.Empty(t, s.expected)
}

func TestWhatTheServerShowsIsJudgedByTheLimitThatWasSet(t *testing.T) {
	for text, seen := range map[string]bool{"95ms": true, "94": true, "0": false, "96ms": false, "1s": false, "": false, "?": false} {
		s, reports := checked()
		check := s.check
		s.outgoing(query("select 1"), nil, fixed)
		b := backend{}
		b.filter(s, join(reply('C', "SET\x00"), reply('T', "y"), shown(text)), nil, fixed)
		assert.Equal(t, []bool{seen}, *reports, text)
		assert.Equal(t, seen, check.over.Load(), text)
		assert.Nil(t, s.check, "one question a connection")
	}
	for text, d := range map[string]time.Duration{"90s": 90 * time.Second, "2min": 2 * time.Minute, "3h": 3 * time.Hour, " 4 d": 96 * time.Hour, "-1": 0, "5 weeks": 0} {
		assert.Equal(t, d, Limit(text), text)
	}
}

// A question that the server fails, fails the driver's statement with it. That must not go on.
func TestAQuestionThatFailsIsTheLastAndAnErrorOfAnotherTextIsNotItsOwn(t *testing.T) {
	failed := join(reply('E', "SERROR\x00C42601\x00\x00"), zready('I'))
	extended := join(appendParse(nil, "", "select 1"), appendRun(nil, ""), syncMsg)
	set := join(reply('1', ""), reply('2', ""), shown("95ms"), reply('C', "SELECT 1\x00"))
	for _, c := range []struct {
		name    string
		in      []byte
		before  []byte
		refused bool
	}{
		{"the whole text", query("selec 1"), nil, false},
		{"the limit", extended, nil, false},
		{"the question", query("select 1"), reply('C', "SET\x00"), true},
		{"the question, parsed", extended, set, true},
		{"the question, run", extended, join(set, reply('1', ""), reply('2', "")), true},
		{"a begin", query("begin"), nil, false},
	} {
		s, reports := checked()
		check, b := s.check, backend{}
		s.outgoing(c.in, nil, fixed)
		b.filter(s, join(c.before, failed), nil, fixed)
		assert.Equal(t, c.refused, check.over.Load(), c.name)
		assert.Equal(t, c.refused, len(*reports) == 1, c.name)
		s.tx, s.inForce = 'I', 0
		out, _ := s.outgoing(c.in, nil, fixed)
		assert.Equal(t, !c.refused, bytes.Contains(out, []byte(showLimit)), c.name)
	}
}

func TestNothingIsAskedInsideOfATransactionNorBeforeAPreparedUnnamedStatement(t *testing.T) {
	s, _ := checked()
	s.tx = 'T'
	out, _ := s.outgoing(query("select 1"), nil, fixed)
	assert.NotContains(t, string(out), showLimit)
	assert.NotNil(t, s.check)

	s, _ = checked()
	s.direct, s.hasUnnamed = proven, true // and not at hand, to be put back
	out, _ = s.outgoing(join(appendRun(nil, ""), syncMsg), nil, fixed)
	assert.Contains(t, string(out), limitName)
	assert.NotContains(t, string(out), showLimit)
	assert.NotNil(t, s.check)
}
