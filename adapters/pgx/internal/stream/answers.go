package stream

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"strconv"
	"strings"
	"time"
)

// completed reads the tag of a statement of the driver's that came to its end.
func (s *state) completed(body []byte) {
	tag, _, _ := cstring(body)
	switch string(tag) {
	case "ROLLBACK":
		if s.commit == asked {
			s.commit = refused
			break
		}
		s.inForce, s.xid = unknown, 0 // or to a savepoint, which undid a later limit
	case "COMMIT":
		if s.commit == asked {
			s.commit = granted
		}
	case "SET", "RESET":
		s.inForce = unknown // maybe of our limit
	case "DISCARD ALL", "DEALLOCATE ALL":
		s.limitKept, s.idKept = false, false
	}
}

// settled is the ReadyForQuery that ends a burst.
func (s *state) settled() {
	s.expected, s.behind, s.theirs, s.byName, s.shift = "", "", 0, false, 0
	s.front.waiting = max(s.front.waiting-1, 0)
	if s.tx == 'I' || s.commit == granted { // which may have begun the next one
		s.inForce, s.armed, s.xid, s.wrote = 0, false, 0, false
	}
	s.commit, s.ready, s.copying, s.ping = none, true, false, false
	s.asking = nil
	if s.direct == inquired { // and not answered
		s.direct = unproven
	}
}

// parameter learns from the parameters of the startup what the server can.
//
// pg_current_xact_id_if_assigned is there since PostgreSQL 13. CockroachDB claims
// to be that, and has no such ids.
func (s *state) parameter(body []byte) {
	name, rest, _ := cstring(body)
	value, _, _ := cstring(rest)
	if s.params != nil {
		s.params[string(name)] = string(value)
	}
	switch string(name) {
	case "server_version":
		major := 0 // of texts such as "15.18 (Debian 15.18-0)" and "19beta1"
		for _, c := range value {
			if c < '0' || c > '9' || major > 1000 {
				break
			}
			major = 10*major + int(c-'0')
		}
		s.hasIDs = major >= 13 && !s.noIDs
	case "crdb_version":
		s.hasIDs, s.noIDs = false, true
	}
}

// isIDs reports whether a RowDescription is that of selectID.
func isIDs(body []byte) bool {
	return len(body) > 2 && bytes.HasPrefix(body[2:], []byte(idName+"\x00"))
}

// lastColumn returns the value of the last column of a DataRow, nil for NULL and for
// what is none.
func lastColumn(body []byte) (value []byte) {
	if len(body) < 2 {
		return nil
	}
	for body = body[2:]; len(body) >= 4; {
		n := int(int32(binary.BigEndian.Uint32(body)))
		body = body[4:]
		if n > len(body) {
			return nil
		}
		value = body[:max(n, 0)]
		body = body[max(n, 0):]
	}
	return value
}

// An errorField is one of an ErrorResponse.
type errorField struct {
	kind  byte
	value []byte
}

// fields splits the body of an ErrorResponse, and reports whether it is sound.
func fields(body []byte) (all []errorField, ok bool) {
	for len(body) > 1 && body[0] != 0 {
		value, rest, found := cstring(body[1:])
		if !found {
			return nil, false
		}
		all = append(all, errorField{body[0], value})
		body = rest
	}
	return all, len(body) == 1
}

// Refuses reports whether an error that answers COMMIT says that nothing was
// committed. One that ends the session does not say when it came, but for two
// that end sessions which wait or work for too long, and not in COMMIT.
func Refuses(severity, code string) bool {
	return severity != "FATAL" && severity != "PANIC" || code == "25P03" || code == "25P04"
}

// DetailPrefix begins the DETAIL of errors that a limit of ours caused, or a cancel for a deadline. The
// server gives those none.
const DetailPrefix = "curfewpgx: "

const (
	limitDetail    = DetailPrefix + "the statement limit, set from the deadline of the context, ran out"
	deadlineDetail = DetailPrefix + "cancelled for the deadline of the context"
)

// failed appends the ErrorResponse in body for the driver: with our detail when the
// limit ran out, and with the position in the driver's own text. A FATAL one
// under COMMIT is kept back, for it does not say whether it came before.
func (s *state) failed(body, out []byte, now func() time.Time) []byte {
	if s.asking != nil {
		if s.expected == "TVC" || strings.HasSuffix("12VC", s.expected) && len(s.expected) > 1 { // it is the question's
			s.asking.refused()
		} else {
			s.check = s.asking // of the driver's text, or of what sets the limit
		}
		s.asking = nil
	}
	s.expected, s.behind, s.theirs, s.byName = "", "", 0, false
	all, sound := fields(body)
	if !sound {
		out, start := begin(out, 'E')
		return end(append(out, body...), start)
	}
	var code, text, severity string
	for _, f := range all {
		switch f.kind {
		case 'C':
			code = string(f.value)
		case 'M':
			text = string(f.value)
		case 'V':
			severity = string(f.value)
		}
	}
	if s.undone { // nothing is known of the transaction
		s.fatal = bytes.Clone(body)
		return out
	}
	if s.commit == asked {
		if !Refuses(severity, code) {
			s.fatal = bytes.Clone(body)
			return out
		}
		s.commit = refused
	}
	start := 0
	out, start = begin(out, 'E')
	for _, f := range all {
		value := f.value
		if f.kind == 'P' && s.shift > 0 {
			if at, err := strconv.Atoi(string(value)); err == nil && at > s.shift {
				value = strconv.AppendInt(nil, int64(at-s.shift), 10)
			}
		}
		out = append(append(append(out, f.kind), value...), 0)
	}
	switch code {
	case "57014":
		// The server's clock starts after our write, so a cancel that comes
		// before the limit is over was not the limit's. By what we did, not by
		// the time left: a window around the deadline misses many, measured.
		switch {
		case s.foreign:
		case s.inForce > 0 && !s.capped && now().Sub(s.burst) >= s.inForce-time.Millisecond:
			out = append(append(append(out, 'D'), limitDetail...), 0)
		case errors.Is(s.ended, context.DeadlineExceeded): // and a cancel was sent, slush before the caller's own ctx ends
			out = append(append(append(out, 'D'), deadlineDetail...), 0)
		}
	case "26000", "42P05":
		// Ours was dropped behind our back: prepare it again, once. Twice, or
		// there before we made it, means a pooler that changes connections.
		if strings.Contains(text, limitName) || strings.Contains(text, idName) {
			s.nameless = s.nameless || s.lost || code == "42P05"
			s.limitKept, s.idKept, s.lost, s.direct = false, false, true, refuted
		}
	}
	return end(append(out, 0), start)
}
