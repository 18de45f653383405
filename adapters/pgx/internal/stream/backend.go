package stream

import (
	"bytes"
	"encoding/binary"
	"strconv"
	"strings"
	"time"
)

// backend follows what the server sends. What to do with a message is known
// from its type and what is expected:
//
//	state.expected   the next answers to messages of ours, by type; p and q are the
//	                 ParseComplete of limitName and idName, X the DataRow with the
//	                 transaction's id, K one that ends with the server's process id, and
//	                 V one with the limit in force
//	state.theirs     how many statements of the driver's come to their end first
//	state.behind     what is expected then
type backend struct {
	header  []byte // begun, not yet whole
	left    int    // bytes of the running message's body still to come
	dropped bool   // the running message is an answer to ours
	body    []byte // of a message read as a whole
	whole   bool   // the running message is collected in body
}

// maxWhole bounds what is collected. Longer messages pass unread.
const maxWhole = 64 << 10

// filter appends to out what of in is for the driver.
func (b *backend) filter(s *state, in, out []byte, now func() time.Time) []byte {
	for len(in) > 0 {
		if s.raw {
			return append(out, in...)
		}
		if b.left == 0 {
			if len(b.header) == 0 && s.expected == "" && !s.byName && s.ready {
				n := skip(in)
				out, in = append(out, in[:n]...), in[n:]
			}
			if len(b.header) == 0 {
				if kind, body, rest, ok := message(in); ok && len(body) <= maxWhole {
					// As nearly all come: nothing is put together, and nothing copied twice.
					switch whole := in[:headerLen+len(body)]; {
					case s.reads(kind):
						out = s.finish(kind, body, out, now)
					case !s.isOurs(kind):
						out = append(out, whole...)
					}
					in = rest
					continue
				}
			}
			n := min(headerLen-len(b.header), len(in))
			b.header, in = append(b.header, in[:n]...), in[n:]
			if len(b.header) < headerLen {
				return out
			}
			left, sound := bodyLen(b.header)
			if !sound {
				s.raw = true
				out = append(out, b.header...)
				continue
			}
			b.left = left
			kind := b.header[0]
			b.whole = left <= maxWhole && s.reads(kind)
			b.dropped = !b.whole && s.isOurs(kind)
			b.body = b.body[:0]
			if !b.whole && !b.dropped {
				out = append(out, b.header...)
			}
		}
		n := min(b.left, len(in))
		switch {
		case b.whole:
			b.body = append(b.body, in[:n]...)
		case !b.dropped:
			out = append(out, in[:n]...)
		}
		b.left, in = b.left-n, in[n:]
		if b.left > 0 {
			continue
		}
		if b.whole {
			out = s.finish(b.header[0], b.body, out, now)
		}
		b.header = b.header[:0]
	}
	return out
}

// skip returns the length of the whole messages at the head of in that pass
// whatever they say: most of a long result is of them.
func skip(in []byte) (n int) {
	for len(in)-n >= headerLen {
		switch in[n] {
		case 'D', 'd', 'T', '1', '2', '3', 'n', 't', 'N', 'A':
		default:
			return n
		}
		left, sound := bodyLen(in[n:])
		if !sound || len(in)-n-headerLen < left {
			return n
		}
		n += headerLen + left
	}
	return n
}

// reads reports whether messages of this kind are collected.
func (s *state) reads(kind byte) bool {
	switch kind {
	case 'E', 'C', 'Z':
		return true
	case 'S':
		return !s.ready || s.params != nil
	case 'K':
		return !s.ready
	case 'G', 'W': // CopyInResponse, CopyBothResponse
		s.copying = true
	case 'T':
		return s.byName
	case 'D':
		return s.expected != "" && strings.IndexByte("XKV", s.expected[0]) >= 0
	}
	return false
}

// isOurs reports whether a message of this kind is the next answer to ours, and
// counts it off.
func (s *state) isOurs(kind byte) bool {
	if kind == 'N' || kind == 'S' || kind == 'A' {
		return false // may come at any time
	}
	if s.expected == "" {
		if s.theirs > 0 && (kind == 'C' || kind == 'I' || kind == 's') {
			if s.theirs--; s.theirs == 0 {
				s.expected, s.behind = s.behind, ""
			}
		}
		return false
	}
	switch next := s.expected[0]; {
	case kind == next:
	case next == 'p' && kind == '1':
		s.limitKept = true
	case next == 'q' && kind == '1':
		s.idKept = true
	case kind == 'D' && strings.IndexByte("XKV", next) >= 0:
	default:
		s.expected = "" // not what we asked for: leave all to the driver
		return false
	}
	s.expected = s.expected[1:]
	return true
}

// finish handles a message of which all is there, and appends it to out if it is for the driver.
func (s *state) finish(kind byte, body, out []byte, now func() time.Time) []byte {
	switch kind {
	case 'S':
		s.parameter(body)
	case 'T':
		if s.byName && isIDs(body) {
			s.expected = "XC"
			return out
		}
	case 'K':
		if s.params != nil {
			s.key = bytes.Clone(body)
		}
		if len(body) >= 4 {
			s.pid = strconv.FormatUint(uint64(binary.BigEndian.Uint32(body)), 10)
		}
	case 'D':
		next := s.expected[0]
		if !s.isOurs('D') {
			break
		}
		value := lastColumn(body)
		switch {
		case next == 'X':
			s.xid, _ = strconv.ParseUint(string(value), 10, 64) // 0 for NULL
			s.wrote = s.xid != 0
		case next == 'V':
			s.asking.answered(string(value), s.inForce)
			s.asking = nil
		case string(value) == s.pid:
			s.direct = proven
		default:
			s.direct = refuted
		}
		return out
	case 'C':
		if s.isOurs('C') {
			return out
		}
		s.completed(body)
	case 'E':
		return s.failed(body, out, now)
	case 'Z':
		if len(body) == 1 {
			s.tx = body[0]
		}
		if s.isOurs('Z') {
			s.undone = false
			return out
		}
		if s.tx == 'E' && s.commit == refused && s.ended == nil { // or a cancel may be on its way
			s.tx, s.undo = 'I', true
			s.settled()
			return out
		}
		s.settled()
	}
	out, start := begin(out, kind)
	return end(append(out, body...), start)
}
