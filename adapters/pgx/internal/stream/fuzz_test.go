package stream

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func fixed() time.Time { return time.Unix(1000, 0) }

// awake is a state behind the startup, armed or not.
func awake(m mode) *state {
	return &state{ready: true, tx: 'I', mode: m, at: fixed().Add(95*time.Millisecond + 900*time.Microsecond)}
}

func query(sql string) []byte {
	b, start := begin(nil, 'Q')
	return end(append(append(b, sql...), 0), start)
}

var ready = []byte{'Z', 0, 0, 0, 5, 'I'}

func reply(kind byte, body string) []byte {
	b, start := begin(nil, kind)
	return end(append(b, body...), start)
}

// FuzzServerBytesPassUnchangedWhenNothingIsExpected feeds the backend's side in
// pieces. Without a limit all but errors must come out as they went in, whatever they are.
func FuzzServerBytesPassUnchangedWhenNothingIsExpected(f *testing.F) {
	f.Add(append(reply('T', "columns"), ready...), uint8(3))
	f.Add([]byte{'C', 0, 0, 0, 0, 1, 2, 3}, uint8(1))             // length below its own size
	f.Add([]byte{'Z', 0xff, 0xff, 0xff, 0xff, 1}, uint8(2))       // longer than an int32
	f.Add([]byte{'E', 0, 0, 0, 9, 'C', '5', '7', 0, 0}, uint8(4)) // fields end early
	f.Add([]byte{'C', 0x7f, 0xff, 0xff, 0xff, 1, 2}, uint8(4))
	f.Fuzz(func(t *testing.T, in []byte, piece uint8) {
		s, b := awake(untouched), backend{}
		var out []byte
		for rest := in; len(rest) > 0; {
			n := min(len(rest), int(piece)+1)
			out = b.filter(s, rest[:n], out, fixed)
			rest = rest[n:]
		}
		// What is held back is a message that has not ended.
		held := 0
		if b.whole || len(b.header) < headerLen {
			held = len(b.header) + len(b.body)
		}
		if !bytes.ContainsRune(in, 'E') {
			require.True(t, bytes.HasPrefix(in, out))
			require.LessOrEqual(t, len(in)-len(out), held+headerLen)
		}
		require.LessOrEqual(t, cap(b.body), 4*maxWhole)
	})
}

// FuzzClientBytesAllArriveInOrder feeds the frontend's side in pieces: the
// driver's bytes must leave as they came, with ours between bursts alone.
func FuzzClientBytesAllArriveInOrder(f *testing.F) {
	f.Add(query("select 1"), uint8(200), byte('I'))
	f.Add(query("begin"), uint8(200), byte('I'))
	f.Add(query("commit"), uint8(200), byte('T'))
	f.Add(append(appendRun(nil, "ps"), 'S', 0, 0, 0, 4), uint8(200), byte('I'))
	f.Add(append(appendParse(nil, "", "select 1"), 'S', 0, 0, 0, 4), uint8(7), byte('T'))
	f.Add([]byte{'Q', 0, 0, 0, 1, 0}, uint8(200), byte('I'))
	f.Add([]byte{'B', 0, 0, 0, 5, 'x'}, uint8(200), byte('I'))
	f.Add([]byte{'Q', 0, 0, 0, 4}, uint8(200), byte('I'))
	f.Fuzz(func(t *testing.T, in []byte, piece uint8, tx byte) {
		s := awake(limited)
		if piece%7 == 0 {
			s.check = NewCheck(func(bool) {})
		}
		s.tx, s.hasIDs, s.nameless, s.locks = tx, piece%2 == 0, piece%3 == 0, float64(piece%5)/8
		for rest := in; len(rest) > 0; {
			p := rest[:min(len(rest), int(piece)+1)]
			rest = rest[len(p):]
			out, before := s.outgoing(p, nil, fixed)
			if before < 0 {
				continue
			}
			switch p[0] {
			case 'Q': // its length has changed, its text is within
				sql, _, _ := cstring(p[headerLen:])
				require.Contains(t, string(out), string(bytes.TrimRight(sql, "; \t\r\n")))
			default: // ours may stand between its statements and its Sync
				head, sync := p[:len(p)-headerLen], p[len(p)-headerLen:]
				require.True(t, bytes.Contains(out, head))
				require.True(t, bytes.HasSuffix(out, p) || sync[0] == 'S' && bytes.HasSuffix(out, sync))
			}
			for left := out; len(left) > 0; { // and it is whole messages
				var ok bool
				_, _, left, ok = message(left)
				require.True(t, ok)
			}
		}
	})
}

func FuzzClassifyNeverFailsAndIgnoresCase(f *testing.F) {
	for _, sql := range []string{"vacuum", "/* /* */", "--", "begin;", "create unique index concurrently i on t (n)", "((select 1))"} {
		f.Add(sql)
	}
	f.Fuzz(func(t *testing.T, sql string) {
		assert.Equal(t, classify([]byte(sql)), classify(bytes.ToUpper([]byte(sql))))
	})
}
