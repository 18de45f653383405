package stream

// frontend follows what the driver writes.
type frontend struct {
	header []byte // begun, not yet whole
	left   int    // bytes of the running message's body still to come

	open    bool // extended messages without their Sync yet
	waiting int  // ReadyForQuery still to come
	runs    int  // statements that the running burst runs; two stand for more
	classes map[string]class
}

// maxClasses bounds the names remembered of statements that are not plain.
// Past it they are forgotten and learnt anew: a program that prepares that many
// SETs and VACUUMs is not one to keep memory for.
const maxClasses = 1024

// idle reports whether the next byte begins a burst.
func (f *frontend) idle() bool {
	return len(f.header) == 0 && f.left == 0 && !f.open && f.waiting == 0
}

// A burst is described by its first message and the highest class in it.
type burst struct {
	kind     byte   // of the first message: Q, P or B
	name     []byte // of its statement, for P and B
	class    class
	whole    bool // of messages that are all whole and not malformed
	messages int
	executes int
	syncs    int
	unnamed  bool // an unnamed statement is parsed in it
}

// follow counts what the driver waits for, message by message, remembers what a
// later burst needs to know, and describes p.
func (s *state) follow(p []byte) burst {
	f, b := &s.front, burst{whole: len(s.front.header) == 0 && s.front.left == 0}
	for len(p) > 0 {
		if f.left > 0 {
			n := min(f.left, len(p))
			f.left, p = f.left-n, p[n:]
			continue
		}
		kind, body, rest, ok := message(p)
		if ok && len(f.header) == 0 {
			s.note(&b, kind, body, p[:headerLen+len(body)])
			f.count(kind)
			p = rest
			continue
		}
		b.whole = false
		n := min(headerLen-len(f.header), len(p))
		f.header, p = append(f.header, p[:n]...), p[n:]
		if len(f.header) < headerLen {
			return b
		}
		left, sound := bodyLen(f.header)
		if !sound {
			s.raw = true
			return b
		}
		f.count(f.header[0])
		f.header, f.left = f.header[:0], left
	}
	return b
}

func (f *frontend) count(kind byte) {
	switch kind {
	case 'Q', 'F':
		f.waiting++
	case 'S':
		f.waiting, f.open = f.waiting+1, false
	case 'E':
		f.runs, f.open = f.runs+1, true
	case 'P', 'B', 'D', 'C', 'H':
		f.open = true
	}
}

// note adds a whole message to what is known of its burst.
func (s *state) note(b *burst, kind byte, body, whole []byte) {
	var name, sql []byte
	k, ok := plain, true
	switch kind {
	case 'Q':
		if sql, _, ok = cstring(body); ok {
			k = classify(sql)
			if s.front.runs++; several(sql) {
				s.front.runs++
			}
		}
	case 'P':
		if name, body, ok = cstring(body); ok {
			if sql, _, ok = cstring(body); ok {
				k = classify(sql)
				s.remember(name, k)
			}
		}
		if len(name) == 0 {
			b.unnamed = true
			s.keep(whole)
		}
	case 'B':
		if _, body, ok = cstring(body); ok { // portal
			if name, _, ok = cstring(body); ok && len(s.front.classes) > 0 {
				k = s.front.classes[string(name)]
			}
		}
	case 'E':
		b.executes++
	case 'S':
		b.syncs++
	}
	if b.messages == 0 {
		b.kind, b.name = kind, name
	}
	b.messages++
	b.class = max(b.class, k)
	b.whole = b.whole && ok
}

// keep remembers the driver's unnamed statement where one of ours may overwrite it.
func (s *state) keep(parse []byte) {
	s.hasUnnamed, s.overwritten = true, false
	s.unnamed = s.unnamed[:0]
	if (s.nameless || s.direct != proven) && len(parse) <= maxKept {
		s.unnamed = append(s.unnamed, parse...)
	}
}

func (s *state) remember(name []byte, k class) {
	f := &s.front
	if k == plain {
		if len(f.classes) > 0 {
			delete(f.classes, string(name))
		}
		return
	}
	if f.classes == nil {
		f.classes = map[string]class{}
	}
	if len(f.classes) >= maxClasses {
		clear(f.classes)
	}
	f.classes[string(name)] = k
}
