package stream

import (
	"bytes"
	"time"
)

// outgoing returns what to send in place of p, built on buf, and how many bytes
// of it come before the driver's own. A negative count means p itself.
func (s *state) outgoing(p, buf []byte, now func() time.Time) (out []byte, before int) {
	if !s.ready || s.raw || len(p) == 0 {
		return buf, -1
	}
	begins := s.front.idle()
	if begins {
		s.front.runs = 0
	}
	wasOverwritten := s.overwritten
	b := s.follow(p)
	if !begins || s.raw {
		return buf, -1
	}
	s.burst, s.commit, s.fatal, s.ping = now(), none, nil, string(p) == ping
	if owed := s.expected; s.undone {
		s.expected = ""
		defer func() { s.expected = owed + s.expected }()
	}
	if !b.whole { // begins with a part of a message: passes unlimited
		s.wrote = true
		return buf, -1
	}
	switch {
	case b.class == closes && s.tx == 'T':
		s.commit = asked
	case b.class <= inside:
		s.wrote = true // until the server says that it has no id yet
	}
	takes := b.kind == 'B' && len(b.name) == 0
	if takes && (b.unnamed || wasOverwritten && len(s.unnamed) == 0) {
		return buf, -1
	}
	w := writer{buf: buf, state: s, burst: b, p: p, restore: takes && wasOverwritten}
	switch b.kind {
	case 'Q':
		w.simple()
	case 'P', 'B':
		w.extended()
	}
	if w.out == nil {
		return buf, -1
	}
	return w.out, w.before
}

// A writer builds what is sent for one burst.
type writer struct {
	*state
	burst   burst
	p, buf  []byte
	restore bool // the driver binds its unnamed statement, which ours has overwritten

	out    []byte // nil for p itself
	before int
}

// force notes that want is in force from this burst on.
func (w *writer) force(want time.Duration) {
	w.inForce, w.armed, w.capped = want, w.armed || want > 0, want > 0 && want == w.most
}

// asks reports whether the transaction's id is to be asked for behind the burst: once
// it may have one and is not known. In front of COMMIT would be too late, for the
// answer comes with COMMIT's. Not behind what must come before any snapshot.
func (w *writer) asks() bool {
	return w.mode != untouched && w.tx == 'T' && w.hasIDs && w.xid == 0 && w.burst.class <= inside
}

func (w *writer) simple() {
	if w.burst.messages != 1 || w.mode == untouched {
		return
	}
	want, k := w.wanted(), w.burst.class
	b, start := begin(w.buf, 'Q')
	head := len(b)
	front := func() {
		// Several statements in one text share a transaction, so that this says no
		// WARNING there. Unlike set_config it is not planned and answers no row.
		b, w.expected = append(w.local(b, want), ';'), w.done("C")
		if w.checks() {
			b, w.expected = append(append(b, showLimit...), ';'), w.expected+w.asked("TVC")
		}
		w.force(want)
	}
	behind := w.tx == 'I' && want > 0 && k == opens // in front, the isolation level would come too late
	switch {
	case behind:
		w.theirs, w.behind = 1, w.done("C")
		w.force(want)
	case w.tx == 'I' && want > 0 && k == plain, w.tx == 'T' && k <= early && w.differs(want):
		front()
	case w.tx == 'T' && want > 0 && k == closes && w.wrote: // or nothing is deferred
		// Deferred constraints run in COMMIT, which no statement limit bounds. Asked for
		// in front they run in a statement, which it does; when one fails, undo does
		// what the COMMIT behind it would have done.
		if w.differs(want) {
			front()
		}
		b, w.expected = append(append(b, constraints...), ';'), w.expected+"C"
	}
	asks := w.asks()
	w.shift = len(b) - head
	if w.shift == 0 && !behind && !asks {
		return
	}
	sql := w.p[headerLen : len(w.p)-1]
	b = append(b, sql...)
	if behind || asks {
		if bytes.Contains(sql, []byte("--")) {
			b = append(b, '\n') // out of the comment
		}
		b = append(b, ';')
	}
	switch {
	case behind:
		b = w.local(b, want)
		if w.checks() {
			b, w.behind = append(append(b, ';'), showLimit...), w.behind+w.asked("TVC")
		}
	case asks:
		b, w.byName = append(b, selectID...), true
	}
	w.out, w.before = end(append(b, 0), start), w.shift
}

// local appends the statement, or both, that put want into force.
func (w *writer) local(b []byte, want time.Duration) []byte {
	if want == 0 {
		b = append(b, setDefault...)
	} else {
		b = appendLimit(append(b, setLocal...), want)
	}
	if w.locks == 0 {
		return b
	}
	return w.localLocks(append(b, ';'), want)
}

func (w *writer) localLocks(b []byte, want time.Duration) []byte {
	if want == 0 {
		return append(append(b, setLocks...), "default"...)
	}
	return appendLimit(append(b, setLocks...), w.wait(want))
}

// done is what answers local, where one answers one statement of it.
func (w *writer) done(one string) string {
	if w.locks > 0 {
		return one + one
	}
	return one
}

// extended puts messages in front of the burst and behind it, before its Sync. A
// statement is unnamed where that leaves the driver's alone, and else ours, kept
// prepared.
func (w *writer) extended() {
	b, k := w.burst, w.burst.class
	want := w.wanted()
	limits := w.mode != untouched && (w.tx == 'I' && want > 0 && k == plain || w.tx == 'T' && k <= early && w.differs(want))
	takes := b.kind == 'B' && len(b.name) == 0 // which ours must leave alone, or put back
	// Unnamed statements are used because of poolers: without proof that there is none, ours have no name either.
	nameless := w.nameless || w.direct != proven && (b.unnamed && w.mayOverwrite() || takes && len(w.unnamed) > 0)
	named := !nameless && (takes && k <= inside || k == plain && (b.kind == 'B' || len(b.name) > 0 || w.direct == proven))
	out, restore := w.buf, w.restore
	switch {
	case !limits:
	case takes && !named && len(w.unnamed) == 0:
		limits = false
	case named:
		w.expected = "2DC"
		if !w.limitKept {
			text := setConfig + "$1,true)"
			if w.locks > 0 {
				text = setConfig + "$1" + andLocks + "$2,true)"
			}
			out = appendParse(out, limitName, text)
			w.expected = "p2DC"
		}
		switch {
		case w.locks == 0:
			out = appendRun(out, limitName, want)
		case want == 0:
			out = appendRun(out, limitName, 0, 0)
		default:
			out = appendRun(out, limitName, want, w.wait(want))
		}
	case !b.unnamed && !w.mayOverwrite():
		limits = false
	default:
		if w.tx == 'T' { // takes no snapshot
			w.expected = w.done("12C")
			text := setDefault
			if want > 0 {
				text = string(appendLimit([]byte(setLocal), want))
			}
			out = appendRun(appendParse(out, "", text), "")
			if w.locks > 0 {
				out = appendRun(appendParse(out, "", string(w.localLocks(nil, want))), "")
			}
		} else {
			text := appendLimit([]byte(setConfig+"'"), want)
			if w.locks > 0 {
				text = appendLimit(append(text, "'"+andLocks+"'"...), w.wait(want))
			}
			w.expected = "12DC"
			text = append(text, "',true)"...)
			if w.direct == unproven && w.pid != "" && !w.nameless {
				w.direct, w.expected = inquired, "12KC"
				text = append(text, andProcess...)
			}
			out = appendRun(appendParse(out, "", string(text)), "")
		}
		w.overwritten = w.hasUnnamed && !b.unnamed
		restore = takes
	}
	if limits {
		w.force(want)
		if w.checks() && !(takes && named) && (b.unnamed || w.mayOverwrite()) {
			out = appendRun(appendParse(out, "", showLimit), "")
			w.expected += w.asked("12VC")
			w.overwritten = w.hasUnnamed && !b.unnamed
		}
	}
	if restore {
		out = append(out, w.unnamed...)
		w.expected += "1"
		w.overwritten = false
	}
	tail := b.executes > 0 && b.syncs == 1 && w.p[len(w.p)-headerLen] == 'S' && w.asks() && (!nameless || w.mayOverwrite())
	if len(out) == len(w.buf) && !tail {
		return
	}
	w.before = len(out)
	if !tail {
		w.out = append(out, w.p...)
		return
	}
	out = append(out, w.p[:len(w.p)-headerLen]...)
	name, kept := idName, "2XC"
	switch {
	case nameless:
		name, kept = "", "12XC"
		w.overwritten = w.hasUnnamed
		out = appendParse(out, name, selectID)
	case !w.idKept:
		kept = "q2XC"
		out = appendParse(out, name, selectID)
	}
	w.theirs, w.behind = b.executes, kept
	w.out = append(appendRun(out, name), w.p[len(w.p)-headerLen:]...)
}

// mayOverwrite reports whether the driver's unnamed statement can be put back.
func (w *writer) mayOverwrite() bool {
	return !w.hasUnnamed || len(w.unnamed) > 0
}
