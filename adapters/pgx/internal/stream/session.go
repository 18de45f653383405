package stream

import (
	"bytes"
	"crypto/rand"
	"errors"
	"maps"
	"net"
	"slices"
	"time"
)

// A Session is what is left of a Conn that was given up at a deadline, while the server still
// worked on what the Conn had written. It goes through these states, each in one goroutine:
//
//	Settle   the rest of the answer is read and dropped, and the session made as new
//	Watch    it is idle
//	Resume   it is the connection below another Conn
//
// The Conn that it comes from reads and writes no more, and its deadlines and its Close move
// nothing here.
type Session struct {
	conn  net.Conn
	state state
	back  backend
}

// detach returns the Session of c, which has just been given up for err, and nil when it is of
// no use: it must be certain where in the stream both ends are, that the server comes to the end
// of the call by itself, and that nobody has sent a cancel that may strike what comes next.
// c.mu is held, and c.over set.
func (c *Conn) detach(err error, writing bool) *Session {
	s := &c.state
	e, ok := err.(net.Error)
	switch {
	case c.keep == nil || c.closing || writing || !ok || !e.Timeout():
		return nil
	case s.undo || s.undone: // a ROLLBACK of ours is due, or under way
		return nil
	case !s.alone || !s.ready || s.raw || s.nameless || s.noIDs || s.fatal != nil || s.copying:
		return nil
	case len(s.key) == 0 || s.front.waiting == 0 || s.front.open || s.front.left > 0 || len(s.front.header) > 0:
		return nil
	case !c.writing.TryLock():
		return nil // a Write is under way
	}
	c.writing.Unlock() // the next one finds c.over
	session := &Session{conn: c.Conn, state: *s, back: c.back}
	if r, ok := c.Conn.(*resumed); ok {
		session.conn = r.Conn
	}
	session.state.front.classes, session.state.unnamed = nil, nil
	s.params, c.back = nil, backend{} // which are the Session's now
	c.detached = true
	return session
}

// ping is what the driver sends to see whether a connection is alive. It needs no limit to end by
// itself.
const ping = "Q\x00\x00\x00\x0c-- ping\x00"

// Pinging reports whether the driver waits for the answer to its ping.
func (c *Conn) Pinging() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.ping
}

// mostDropped bounds what is read of an answer for nobody. A statement whose limit has passed ends
// within what the buffers on the way hold.
const mostDropped = 64 << 20

var (
	errUnclean = errors.New("curfewpgx: a session that did not answer as a new one would")
	errCopying = errors.New("curfewpgx: a session that waits for data")
)

// Settle reads the answers that are still to come and has the server forget the session's
// transaction, settings, statements, locks and tables. It returns nil when the server has answered
// all of it, as asked, by until. After an error the Session is to be closed.
func (s *Session) Settle(until time.Time) error {
	if err := s.conn.SetDeadline(until); err != nil {
		return err
	}
	var in [8 << 10]byte
	for dropped := 0; s.state.front.waiting > 0 || s.back.left > 0 || len(s.back.header) > 0; {
		n, err := s.conn.Read(in[:])
		s.back.filter(&s.state, in[:n], nil, time.Now)
		switch dropped += n; {
		case err != nil:
			return err
		case s.state.copying:
			return errCopying
		case s.state.raw || s.state.fatal != nil || dropped > mostDropped:
			return errUnclean
		}
	}
	return s.clean()
}

// clean asks for what the server documents to be the state of a new session. A row that nobody
// else could have asked for stands in the middle: had a message been counted wrong, it would not
// be where it is expected.
func (s *Session) clean() error {
	token := rand.Text()
	var b []byte
	var want []string // kind and beginning of the answers
	ask := func(sql string, answers ...string) {
		start := 0
		b, start = begin(b, 'Q')
		b = end(append(append(b, sql...), 0), start)
		want = append(append(want, answers...), "ZI")
	}
	if s.state.tx != 'I' {
		ask("rollback", "CROLLBACK\x00")
	}
	ask("select '"+token+"'", "T", "D\x00\x01\x00\x00\x00"+string(rune(len(token)))+token, "CSELECT 1\x00")
	ask("discard all", "CDISCARD ALL\x00")
	if _, err := s.conn.Write(b); err != nil {
		return err
	}
	var in [8 << 10]byte
	var got []byte
	for len(want) > 0 {
		n, err := s.conn.Read(in[:])
		if err != nil {
			return err
		}
		got = append(got, in[:n]...)
		for {
			kind, body, rest, ok := message(got)
			if !ok {
				break
			}
			got = rest
			switch {
			case kind == 'S':
				s.state.parameter(body)
			case kind == 'N' || kind == 'A': // at any time
			case len(want) == 0 || want[0][0] != kind || !bytes.HasPrefix(body, []byte(want[0][1:])):
				return errUnclean
			default:
				want = want[1:]
			}
		}
		if len(got) > len(in) { // none of what was asked for is that long
			return errUnclean
		}
	}
	if len(got) > 0 {
		return errUnclean
	}
	return nil
}

// Watch waits while the session is idle until the time that WatchUntil sets, and then returns nil.
// It returns an error when the server ended the session or spoke.
func (s *Session) Watch() error {
	var one [1]byte
	n, err := s.conn.Read(one[:])
	if e, ok := err.(net.Error); ok && e.Timeout() && n == 0 {
		return nil
	}
	return errUnclean
}

// WatchUntil sets when Watch ends. A time in the past wakes it.
func (s *Session) WatchUntil(at time.Time) error { return s.conn.SetReadDeadline(at) }

// Close ends the session.
func (s *Session) Close() { _ = bottom(s.conn).Close() }

// Resume returns a connection at which whoever logs in is welcome at once, as the
// session's own user. What is written first, which is the startup message, is not sent.
func (s *Session) Resume() (net.Conn, error) {
	if err := s.conn.SetDeadline(time.Time{}); err != nil {
		return nil, err
	}
	b := []byte{'R', 0, 0, 0, 8, 0, 0, 0, 0} // AuthenticationOk
	start := 0
	for _, name := range slices.Sorted(maps.Keys(s.state.params)) {
		b, start = begin(b, 'S')
		b = append(append(b, name...), 0)
		b = end(append(append(b, s.state.params[name]...), 0), start)
	}
	b, start = begin(b, 'K')
	b = end(append(b, s.state.key...), start)
	b, start = begin(b, 'Z')
	return &resumed{Conn: s.conn, hello: end(append(b, 'I'), start)}, nil
}

// resumed is the connection of a Session.
type resumed struct {
	net.Conn
	hello   []byte // not yet read
	greeted bool   // the startup message was written
}

func (r *resumed) Read(p []byte) (int, error) {
	if len(r.hello) > 0 {
		n := copy(p, r.hello)
		r.hello = r.hello[n:]
		return n, nil
	}
	return r.Conn.Read(p)
}

func (r *resumed) Write(p []byte) (int, error) {
	if !r.greeted {
		r.greeted = true
		return len(p), nil
	}
	return r.Conn.Write(p)
}

// bottom returns the connection below TLS, whose Close neither writes nor waits.
func bottom(conn net.Conn) net.Conn {
	if r, ok := conn.(*resumed); ok {
		conn = r.Conn
	}
	if tls, ok := conn.(interface{ NetConn() net.Conn }); ok {
		return tls.NetConn()
	}
	return conn
}
