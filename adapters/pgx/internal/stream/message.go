package stream

import (
	"bytes"
	"encoding/binary"
	"strconv"
	"time"
)

// headerLen is the length of a message's type and length field. The length
// counts itself but not the type.
const headerLen = 5

// bodyLen returns the length of the body behind the header h, and false when
// the length field is below its own size or above what an int32 holds.
func bodyLen(h []byte) (int, bool) {
	n := binary.BigEndian.Uint32(h[1:headerLen])
	return int(n) - 4, n >= 4 && n <= 1<<31-1
}

// message returns the first message in p, or ok false when it is not whole.
func message(p []byte) (kind byte, body, rest []byte, ok bool) {
	if len(p) < headerLen {
		return 0, nil, nil, false
	}
	n, sound := bodyLen(p)
	if !sound || len(p)-headerLen < n {
		return 0, nil, nil, false
	}
	return p[0], p[headerLen : headerLen+n], p[headerLen+n:], true
}

// cstring splits p behind its first zero byte. Without one ok is false.
func cstring(p []byte) (s, rest []byte, ok bool) {
	i := bytes.IndexByte(p, 0)
	if i < 0 {
		return nil, nil, false
	}
	return p[:i], p[i+1:], true
}

// What a connection keeps prepared: a statement that sets the limit, and one that asks
// for the transaction's id.
const (
	limitName = "curfewpgx_limit"
	idName    = "curfewpgx_id"
)

const (
	setConfig   = "select set_config('statement_timeout',"
	andLocks    = ",true),set_config('lock_timeout',"
	setLocks    = "set local lock_timeout to "
	setLocal    = "set local statement_timeout to "
	showLimit   = "show statement_timeout"
	setDefault  = setLocal + "default"
	constraints = "set constraints all immediate"
	rollback    = "rollback"
	selectID    = "select pg_current_xact_id_if_assigned() as " + idName
	andProcess  = ",pg_backend_pid()"
)

// appendLimit appends d as a whole number of milliseconds.
func appendLimit(b []byte, d time.Duration) []byte {
	return strconv.AppendInt(b, d.Milliseconds(), 10)
}

// begin appends a header whose length end fills in.
func begin(b []byte, kind byte) ([]byte, int) {
	return append(b, kind, 0, 0, 0, 0), len(b)
}

func end(b []byte, start int) []byte {
	binary.BigEndian.PutUint32(b[start+1:], uint32(len(b)-start-1))
	return b
}

// appendParse appends a Parse of sql without parameter types.
func appendParse(b []byte, name, sql string) []byte {
	b, start := begin(b, 'P')
	b = append(append(b, name...), 0)
	b = append(append(b, sql...), 0)
	return end(append(b, 0, 0), start)
}

// appendRun appends Bind and Execute of the statement name. Its parameters are in text
// form: each of ds in milliseconds, or NULL for one of zero.
func appendRun(b []byte, name string, ds ...time.Duration) []byte {
	b, start := begin(b, 'B')
	b = append(b, 0) // unnamed portal
	b = append(append(b, name...), 0)
	b = append(b, 0, 0, 0, byte(len(ds))) // parameters in text form
	for _, d := range ds {
		if d == 0 {
			b = append(b, 0xff, 0xff, 0xff, 0xff)
			continue
		}
		b = append(b, 0, 0, 0, 0)
		at := len(b)
		b = appendLimit(b, d)
		binary.BigEndian.PutUint32(b[at-4:], uint32(len(b)-at))
	}
	b = end(append(b, 0, 0), start) // results in text form
	b, start = begin(b, 'E')
	return end(append(b, 0, 0, 0, 0, 0), start)
}
