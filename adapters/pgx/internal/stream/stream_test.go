package stream

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheClassOfAStatementIsInItsFirstWords(t *testing.T) {
	for sql, want := range map[string]class{
		"select 1": plain, "(select 1)": plain, "with x as (select 1) table x": plain,
		"vacuumed": plain, "create table vacuum (n int)": plain, "select 'concurrently'": plain,
		"create index i on t (n)": plain, "refresh materialized view concurrently v": plain,
		"SET x = 1": early, "lock t;": early, "set x = 1; select 1": inside, "call p()": inside, "Do $$ $$": inside,
		"begin": opens, "BEGIN ISOLATION LEVEL SERIALIZABLE;": opens, "start transaction -- x": opens,
		"begin; select 1": never, "commit": closes, "commit; select 1": never, "commit prepared 'x'": never,
		"rollback": never, "release savepoint a": never,
		"  -- note\n/* a /* b */ */ vacuum t": never, "create unique index concurrently i on t (n)": never,
		"alter table t detach partition p concurrently": never, "alter system set a = 1": never,
		"create table t (n int, concurrently int)": plain, "drop index concurrently i": never, "alter table concurrently add n int": plain,
		"create database d": never, "drop subscription s": never, "": never, " ; -- x": never, "/*": never,
	} {
		assert.Equal(t, want, classify([]byte(sql)), sql)
	}
}

// A burst is one simple query here; what the server gets says how it is limited.
func TestALimitGoesWhereItHoldsAndNotWhereItFails(t *testing.T) {
	for _, c := range []struct {
		sql     string
		tx      byte
		inForce time.Duration
		want    string
	}{
		{"select 1", 'I', 0, "set local statement_timeout to 95;select 1"},
		{"begin", 'I', 0, "begin;set local statement_timeout to 95"},
		{"begin ;", 'I', 0, "begin ;;set local statement_timeout to 95"},
		{"begin -- x", 'I', 0, "begin -- x\n;set local statement_timeout to 95"},
		{"lock t", 'I', 0, ""},
		{"vacuum", 'I', 0, ""},
		{"select 1", 'T', 0, "set local statement_timeout to 95;select 1"},
		{"select 1", 'T', 100 * time.Millisecond, ""},
		{"select 1", 'T', 105 * time.Millisecond, ""},
		{"select 1", 'T', 106 * time.Millisecond, "set local statement_timeout to 95;select 1"},
		{"select 1", 'T', 94 * time.Millisecond, "set local statement_timeout to 95;select 1"},
		{"select 1", 'T', unknown, "set local statement_timeout to 95;select 1"},
		{"lock t", 'T', unknown, "set local statement_timeout to 95;lock t"},
		{"commit", 'T', 95 * time.Millisecond, "set constraints all immediate;commit"},
		{"commit", 'T', unknown, "set local statement_timeout to 95;set constraints all immediate;commit"},
		{"rollback", 'T', unknown, ""},
		{"select 1", 'E', unknown, ""},
		{"commit", 'E', unknown, ""},
	} {
		s := awake(limited)
		s.tx, s.inForce, s.wrote = c.tx, c.inForce, true
		out, before := s.outgoing(query(c.sql), nil, fixed)
		if c.want == "" {
			assert.Negative(t, before, "%c %s", c.tx, c.sql)
			continue
		}
		assert.Equal(t, string(query(c.want)), string(out), "%c %s", c.tx, c.sql)
	}
}

func TestALimitIsNeverBelowAMillisecond(t *testing.T) {
	for _, left := range []time.Duration{-time.Second, 0, 999 * time.Microsecond, 1999 * time.Microsecond} {
		s := awake(limited)
		s.at = fixed().Add(left)
		out, _ := s.outgoing(query("select 1"), nil, fixed)
		assert.Contains(t, string(out), " to 1;", "%v", left)
	}
	s := awake(limited)
	s.at = fixed().Add(365 * 24 * time.Hour)
	out, _ := s.outgoing(query("select 1"), nil, fixed)
	assert.Contains(t, string(out), " to 2147483647;")
}

func TestOurAnswersAreTakenOutHoweverTheyAreCut(t *testing.T) {
	ours := reply('C', "SET\x00")
	theirs := bytes.Join([][]byte{reply('N', "notice"), reply('T', "y"), reply('D', "1"), reply('C', "SELECT 1\x00"), ready}, nil)
	all := append(bytes.Clone(ours), theirs...)
	for piece := 1; piece <= len(all); piece++ {
		s, b := awake(limited), backend{}
		s.outgoing(query("select 1"), nil, fixed)
		var out []byte
		for rest := all; len(rest) > 0; {
			n := min(piece, len(rest))
			out = b.filter(s, rest[:n], out, fixed)
			rest = rest[n:]
		}
		require.Equal(t, theirs, out, "pieces of %d", piece)
		require.True(t, s.front.idle())
		require.Zero(t, s.inForce)
	}
}

func TestOnlyWhatTheLimitEndedIsMarked(t *testing.T) {
	cancelled := reply('E', "SERROR\x00C57014\x00Mx\x00\x00")
	for _, c := range []struct {
		name    string
		after   time.Duration
		foreign bool
		marked  bool
	}{
		{"in time", 95 * time.Millisecond, false, true},
		{"much later", time.Second, false, true},
		{"before the limit", 90 * time.Millisecond, false, false},
		{"a cancel was sent for another reason", 95 * time.Millisecond, true, false},
	} {
		s, b := awake(limited), backend{}
		s.outgoing(query("select 1"), nil, fixed)
		s.foreign = c.foreign
		out := b.filter(s, cancelled, nil, func() time.Time { return fixed().Add(c.after) })
		assert.Equal(t, c.marked, bytes.Contains(out, []byte(DetailPrefix)), c.name)
		_, _, rest, ok := message(out)
		assert.True(t, ok && len(rest) == 0, c.name)
	}
}

func TestThePositionOfAnErrorIsInTheDriversText(t *testing.T) {
	s, b := awake(limited), backend{}
	s.outgoing(query("selec 1"), nil, fixed)
	out := b.filter(s, reply('E', "C42601\x00P35\x00\x00"), nil, fixed)
	assert.Equal(t, string(reply('E', "C42601\x00P1\x00\x00")), string(out))
}

func TestOurStatementIsPreparedOnceAndAgainAfterItWasDropped(t *testing.T) {
	s, b := awake(limited), backend{}
	bind := append(appendRun(nil, "theirs"), 'S', 0, 0, 0, 4)
	parse := []byte{'P'}
	round := func() (parsed bool) {
		out, before := s.outgoing(bind, nil, fixed)
		require.Positive(t, before)
		if parsed = bytes.HasPrefix(out, parse); parsed {
			b.filter(s, reply('1', ""), nil, fixed)
		}
		b.filter(s, bytes.Join([][]byte{reply('2', ""), reply('D', "95"), reply('C', "SELECT 1\x00")}, nil), nil, fixed)
		return parsed
	}
	assert.True(t, round())
	b.filter(s, ready, nil, fixed)
	assert.False(t, round())
	b.filter(s, ready, nil, fixed)
	s.outgoing(bind, nil, fixed)
	b.filter(s, append(reply('E', "C26000\x00M\""+limitName+"\"\x00\x00"), ready...), nil, fixed)
	assert.True(t, round(), "after 26000")
	b.filter(s, ready, nil, fixed)
	s.outgoing(query("discard all"), nil, fixed)
	b.filter(s, append(reply('C', "DISCARD ALL\x00"), ready...), nil, fixed)
	assert.True(t, round(), "after discard all")
}

// What the server says of its process id is believed where it is the one of the startup, and then
// a statement of ours is kept prepared in front of unnamed ones as well.
func TestAStatementIsKeptInFrontOfUnnamedOnesOnceTheServerIsKnownToBeTheSame(t *testing.T) {
	unnamed := append(appendRun(appendParse(nil, "", "select 1"), ""), 'S', 0, 0, 0, 4)
	pids := func(pid string) []byte {
		return reply('D', "\x00\x02\x00\x00\x00\x0295\x00\x00\x00"+string(byte(len(pid)))+pid)
	}
	for _, c := range []struct {
		name          string
		key           []byte // of the startup
		nameless      bool
		answer        []byte
		asked, direct bool
	}{
		{"the same process", reply('K', "\x00\x00\x04\xd2key!"), false, pids("1234"), true, true},
		{"another", reply('K', "\xff\x00\x04\xd2key!"), false, pids("1234"), true, false},
		{"nothing said", nil, false, reply('D', "\x00\x01\x00\x00\x00\x0295"), false, false},
		{"behind a pooler, as we were told", reply('K', "\x00\x00\x04\xd2key!"), true, reply('D', "\x00\x01\x00\x00\x00\x0295"), false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, b := &state{mode: limited, at: fixed().Add(95 * time.Millisecond), nameless: c.nameless}, backend{}
			startup := append(bytes.Clone(c.key), ready...)
			assert.Equal(t, startup, b.filter(s, startup, nil, fixed))
			round := func(ours []byte) []byte {
				out, _ := s.outgoing(unnamed, nil, fixed)
				theirs := bytes.Join([][]byte{reply('1', ""), reply('2', ""), reply('C', "SELECT 1\x00"), ready}, nil)
				require.Equal(t, theirs, b.filter(s, append(ours, theirs...), nil, fixed))
				return out
			}
			fresh := func(row []byte) []byte {
				return bytes.Join([][]byte{reply('1', ""), reply('2', ""), row, reply('C', "SELECT 1\x00")}, nil)
			}
			assert.Equal(t, c.asked, bytes.Contains(round(fresh(c.answer)), []byte(andProcess)))
			row := reply('D', "\x00\x01\x00\x00\x00\x0295")
			assert.Equal(t, c.direct, bytes.Contains(round(fresh(row)), []byte(limitName)))
			if c.direct {
				bind, _, _, _ := message(round(fresh(row)[5:]))
				assert.Equal(t, byte('B'), bind, "prepared by now")
				return
			}
			assert.NotContains(t, string(round(fresh(row))), andProcess, "once")
		})
	}
}

func TestATextOfSeveralStatementsIsToldFromOneWithSemicolons(t *testing.T) {
	for sql, want := range map[string]bool{
		"select 1": false, "select 1;": false, "select 1 ; ; -- x;\n;": false, "select 1; select 2": true, ";;select 1": true,
		"select ';x'": false, `select 'a''b;c'`: false, `select e'a\';b'`: false, `select 'a\'; select 2`: true, `select "a;b"`: false,
		"select $$;x$$": false, "select $q$ $$;x $q$": false, "select $1; select $2": true, "select $q$x$q$; select 2": true,
		"select 1 -- ;x\n+2": false, "select /* ;x */ 1": false, "select 4 / 2 - 1; select 2": true, "select 'open;x": false, "select $q$;x": false,
	} {
		assert.Equal(t, want, several([]byte(sql)), sql)
	}
}

func TestALimitBoundsOneStatementOfABurstAndNotSeveral(t *testing.T) {
	one := appendRun(nil, "a")
	for want, bursts := range map[bool][][][]byte{
		true:  {{query("select 1")}, {query("select ';'")}, {one, syncMsg}, {append(one[:len(one):len(one)], syncMsg...)}},
		false: {{query("select 1;select 2")}, {append(one[:len(one):len(one)], one...), syncMsg}, {one, one, syncMsg}, {one, one[:9], one[9:], syncMsg}},
	} {
		for _, burst := range bursts {
			c := New(nil, Config{})
			c.state = *awake(limited)
			for range 2 { // the second is no more than the first
				for _, piece := range burst {
					c.state.outgoing(piece, nil, fixed)
				}
				assert.Equal(t, want, c.Limited(), "%q", burst)
				c.state.settled()
			}
		}
	}
}
