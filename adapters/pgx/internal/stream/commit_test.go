package stream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

func zready(tx byte) []byte { return reply('Z', string(tx)) }

// inTx is a state inside a transaction whose limit is in force.
func inTx() *state {
	s := awake(limited)
	s.tx, s.inForce, s.armed, s.hasIDs, s.wrote = 'T', 95*time.Millisecond, true, true, true
	return s
}

var syncMsg = []byte{'S', 0, 0, 0, 4}

func idRow(id string) []byte {
	return reply('D', "\x00\x01\x00\x00\x00"+string(byte(len(id)))+id)
}

func TestTheIDOfATransactionIsAskedForBehindAStatementUntilItIsKnown(t *testing.T) {
	s, b := inTx(), backend{}
	bind := appendRun(nil, "theirs")
	insert := join(reply('2', ""), reply('C', "INSERT 0 1\x00"))
	null := reply('D', "\x00\x01\xff\xff\xff\xff")

	out, _ := s.outgoing(join(bind, syncMsg), nil, fixed)
	assert.Equal(t, join(bind, appendParse(nil, idName, selectID), appendRun(nil, idName), syncMsg), out)
	got := b.filter(s, join(insert, reply('1', ""), reply('2', ""), null, reply('C', "SELECT 1\x00"), zready('T')), nil, fixed)
	assert.Equal(t, join(insert, zready('T')), got)
	assert.Zero(t, s.xid)
	assert.False(t, s.wrote, "nothing is deferred")

	out, _ = s.outgoing(join(bind, syncMsg), nil, fixed)
	assert.Equal(t, join(bind, appendRun(nil, idName), syncMsg), out, "prepared by now")
	answer := join(insert, reply('2', ""), idRow("4711"), reply('C', "SELECT 1\x00"), zready('T'))
	for piece := 1; piece <= len(answer); piece++ {
		again, b, got := *s, backend{}, []byte(nil)
		for rest := answer; len(rest) > 0; rest = rest[min(piece, len(rest)):] {
			got = b.filter(&again, rest[:min(piece, len(rest))], got, fixed)
		}
		require.Equal(t, join(insert, zready('T')), got, "pieces of %d", piece)
		require.Equal(t, uint64(4711), again.xid)
	}
	b.filter(s, answer, nil, fixed)

	_, before := s.outgoing(join(bind, syncMsg), nil, fixed)
	assert.Negative(t, before, "known")
	b.filter(s, join(insert, zready('T')), nil, fixed)

	s.outgoing(query("commit"), nil, fixed)
	got = b.filter(s, join(reply('C', "SET CONSTRAINTS\x00"), reply('C', "COMMIT\x00"), zready('I')), nil, fixed)
	assert.Equal(t, join(reply('C', "COMMIT\x00"), zready('I')), got)
	assert.Zero(t, s.xid)
}

func TestTheIDIsKnownByItsColumnInTheSimpleProtocol(t *testing.T) {
	s, b := inTx(), backend{}
	out, _ := s.outgoing(query("insert into t values (1); select 1 -- x"), nil, fixed)
	assert.Equal(t, query("insert into t values (1); select 1 -- x\n;"+selectID), out)
	theirs := join(reply('C', "INSERT 0 1\x00"), reply('T', "\x00\x01n\x00"), reply('D', "x"), reply('C', "SELECT 1\x00"))
	ours := join(reply('T', "\x00\x01"+idName+"\x00rest"), idRow("12"), reply('C', "SELECT 1\x00"))
	got := b.filter(s, join(theirs, ours, zready('T')), nil, fixed)
	assert.Equal(t, join(theirs, zready('T')), got)
	assert.Equal(t, uint64(12), s.xid)
}

func TestTheIDIsNotAskedForWhereItMayDoHarm(t *testing.T) {
	for _, sql := range []string{"set transaction isolation level serializable", "lock t", "savepoint a", "rollback to a", "show x", "commit"} {
		s := inTx()
		s.wrote = false
		_, before := s.outgoing(query(sql), nil, fixed)
		assert.Negative(t, before, sql)
	}
	for name, change := range map[string]func(*state){
		"older or other server": func(s *state) { s.hasIDs = false }, "no call": func(s *state) { s.mode = untouched }, "failed": func(s *state) { s.tx = 'E' },
	} {
		s := inTx()
		change(s)
		_, before := s.outgoing(query("select 1"), nil, fixed)
		assert.Negative(t, before, name)
	}
}

func TestServersWithoutIDsAreTold(t *testing.T) {
	for _, c := range []struct {
		params []string
		want   bool
	}{
		{[]string{"server_version\x0015.18 (Debian 15.18-0)\x00"}, true}, {[]string{"server_version\x0019beta1\x00"}, true},
		{[]string{"server_version\x0012.4\x00"}, false}, {[]string{"server_version\x0018\x00"}, true}, {nil, false},
		{[]string{"server_version\x0013.0.0\x00", "crdb_version\x00v24\x00"}, false},
		{[]string{"crdb_version\x00v24\x00", "server_version\x0013.0.0\x00"}, false},
	} {
		s, b := &state{}, backend{}
		for _, p := range c.params {
			b.filter(s, reply('S', p), nil, fixed)
		}
		b.filter(s, zready('I'), nil, fixed)
		assert.Equal(t, c.want, s.hasIDs, "%q", c.params)
	}
}

func TestAFailedConstraintEndsTheTransactionAsItDoesInCommit(t *testing.T) {
	failure := reply('E', "SERROR\x00VERROR\x00C23503\x00Mx\x00\x00")
	undone, selected := join(reply('C', "ROLLBACK\x00"), zready('I')), join(reply('D', "1"), reply('C', "SELECT 1\x00"), ready)
	for _, c := range []struct {
		name    string
		ended   error // of the call's ctx
		written error // of the ROLLBACK
		tx      byte  // as the driver is told
		answer  []byte
		want    []byte // the driver's answer to its next statement
		sent    string
		lost    bool
	}{
		{"by itself", nil, nil, 'I', join(undone, reply('C', "SET\x00"), selected), selected, "rollback|set local statement_timeout to 95;select 1", false},
		{"with a notice in between", nil, nil, 'I', join(reply('N', "x"), undone, reply('C', "SET\x00"), selected), join(reply('N', "x"), selected), "rollback|set local statement_timeout to 95;select 1", false},
		{"and the ROLLBACK as well", nil, nil, 'I', join(failure, zready('E')), nil, "rollback|set local statement_timeout to 95;select 1", true},
		{"while a cancel may be on its way", context.Canceled, nil, 'E', nil, nil, "", false},
		{"and nothing can be written", nil, io.ErrClosedPipe, 'E', nil, nil, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			inner := &scripted{read: io.EOF}
			conn := New(inner, Config{})
			conn.state = *inTx()
			conn.state.at = time.Now().Add(95*time.Millisecond + 900*time.Microsecond)
			_, err := conn.Write(query("commit"))
			require.NoError(t, err)
			inner.answer, inner.sent, inner.written = join(failure, zready('E')), nil, c.written
			conn.state.ended = c.ended
			assert.Equal(t, join(failure, zready(c.tx)), read(t, conn))
			assert.True(t, conn.state.front.idle())
			if c.tx == 'E' {
				assert.Empty(t, inner.sent)
				return // the driver closes it
			}
			conn.state.at = time.Now().Add(95*time.Millisecond + 900*time.Microsecond)
			_, err = conn.Write(query("select 1"))
			require.NoError(t, err)
			var sent []byte
			for one := range strings.SplitSeq(c.sent, "|") {
				sent = append(sent, query(one)...)
			}
			assert.Equal(t, string(sent), string(inner.sent))
			inner.answer = c.answer
			if c.lost {
				_, err = conn.Read(make([]byte, 100))
				assert.Error(t, err)
				return
			}
			assert.Equal(t, c.want, read(t, conn))
			assert.True(t, conn.state.front.idle())
			assert.Empty(t, conn.state.expected)
		})
	}
}

// read returns what the driver reads until nothing is left.
func read(t *testing.T, conn *Conn) []byte {
	t.Helper()
	all, err := io.ReadAll(conn)
	require.NoError(t, err)
	return all
}

func TestTheDriversUnnamedStatementIsPutBack(t *testing.T) {
	s, b := inTx(), backend{}
	s.nameless = true
	parse, run := appendParse(nil, "", "insert into t values (1)"), appendRun(nil, "")
	s.outgoing(join(parse, syncMsg), nil, fixed)
	b.filter(s, join(reply('1', ""), zready('T')), nil, fixed)
	out, _ := s.outgoing(join(run, syncMsg), nil, fixed)
	assert.Equal(t, join(run, appendParse(nil, "", selectID), run, syncMsg), out)
	b.filter(s, join(reply('2', ""), reply('C', "INSERT 0 1\x00"), reply('1', ""), reply('2', ""), idRow("9"), reply('C', "SELECT 1\x00"), zready('T')), nil, fixed)
	s.mode = untouched
	out, _ = s.outgoing(join(run, syncMsg), nil, fixed)
	assert.Equal(t, join(parse, run, syncMsg), out)
	got := b.filter(s, join(reply('1', ""), reply('2', ""), reply('C', "INSERT 0 1\x00"), zready('T')), nil, fixed)
	assert.Equal(t, join(reply('2', ""), reply('C', "INSERT 0 1\x00"), zready('T')), got)
}

// scripted is a connection that answers with bytes and then with an error.
type scripted struct {
	net.Conn
	answer   []byte
	read     error
	written  error
	sent     []byte
	closings int
}

func (s *scripted) Read(p []byte) (int, error) {
	if len(s.answer) == 0 {
		return 0, s.read
	}
	n := copy(p, s.answer)
	s.answer = s.answer[n:]
	return n, nil
}

func (s *scripted) Write(p []byte) (int, error) {
	if s.written != nil {
		return len(p) - 1, s.written
	}
	s.sent = append(s.sent, p...)
	return len(p), nil
}
func (s *scripted) Close() error         { s.closings++; return nil }
func (s *scripted) RemoteAddr() net.Addr { return &net.TCPAddr{} }

type lostForTest struct{ Lost }

func (lostForTest) Error() string { return "lost" }

func TestWhatIsKnownOfACommitWhenItsConnectionEnds(t *testing.T) {
	granted, refused := reply('C', "COMMIT\x00"), reply('E', "VERROR\x00C40001\x00Mx\x00\x00")
	before := reply('C', "SET CONSTRAINTS\x00")
	for _, c := range []struct {
		name          string
		answer        []byte
		read, written error
		want          Outcome
	}{
		{"no answer", nil, io.EOF, nil, Unknown},
		{"constraints alone", before, io.EOF, nil, Unknown},
		{"a timeout", before, os.ErrDeadlineExceeded, nil, Unknown},
		{"committed", join(before, granted), io.EOF, nil, Committed},
		{"refused", join(before, refused), io.EOF, nil, NotCommitted},
		{"a constraint failed", refused, io.EOF, nil, NotCommitted},
		{"rolled back", join(before, reply('C', "ROLLBACK\x00")), io.EOF, nil, NotCommitted},
		{"the session is ended", join(before, reply('E', "VFATAL\x00C57P01\x00Mx\x00\x00")), nil, nil, Unknown},
		{"the session has waited for too long", join(reply('E', "VFATAL\x00C25P03\x00Mx\x00\x00")), io.EOF, nil, NotCommitted},
		{"not written", nil, nil, io.ErrClosedPipe, NotCommitted},
	} {
		t.Run(c.name, func(t *testing.T) {
			inner := &scripted{answer: c.answer, read: c.read, written: c.written}
			conn := New(inner, Config{Lost: func(l Lost) error { return lostForTest{l} }})
			conn.state = *inTx()
			conn.state.xid, conn.state.at = 7, time.Now().Add(95*time.Millisecond)
			conn.Ended(context.DeadlineExceeded)
			_, err := conn.Write(query("commit"))
			if c.written == nil {
				require.NoError(t, err)
				_, err = io.Copy(io.Discard, conn)
			}
			var lost lostForTest
			require.True(t, errors.As(err, &lost), "%v", err)
			assert.Equal(t, c.want, lost.Outcome)
			assert.Equal(t, uint64(7), lost.XID)
			assert.Equal(t, context.DeadlineExceeded, lost.Ended)
			assert.Equal(t, GivenUp, conn.RemoteAddr().Network())
			assert.NotZero(t, inner.closings)
			_, err = conn.Read(make([]byte, 1))
			assert.True(t, errors.As(err, &lost), "for good")
		})
	}
}
