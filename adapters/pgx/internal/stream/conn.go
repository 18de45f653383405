package stream

import (
	"net"
	"sync"
	"time"
	"unsafe"
)

// A Conn is a connection to PostgreSQL that sends limits along. It goes
// through these states:
//
//	startup ──first ReadyForQuery──▶ ready ──malformed length──▶ raw
//
// In startup messages have no uniform shape, and in raw there is no telling
// where one begins: in both the Conn passes bytes on and adds none.
//
// All methods may be called from any goroutine, as those of any net.Conn.
type Conn struct {
	net.Conn
	lost func(Lost) error
	keep func(*Session) // nil: what is given up is closed

	reading sync.Mutex // held by Read: the driver drains a connection that it also reads
	in      [8 << 10]byte
	out     []byte // filtered, not yet handed out
	kept    []byte // what out was cut from
	err     error  // came with the bytes still in out
	back    backend

	writing sync.Mutex // held by Write
	wbuf    []byte

	mu    sync.Mutex
	state state // guarded by mu
	over  error // guarded by mu: what Read and Write return since the Conn was given up

	unended  bool // guarded by mu: see Unended
	closing  bool // guarded by mu: Close was called
	detached bool // guarded by mu: Conn is a Session's, and nothing here touches it
}

// Config is what a Conn is told once.
type Config struct {
	// Nameless has no named statement of ours made, as is right behind a pooler that
	// gives each transaction another server connection.
	Nameless bool
	// Locks is the share of the limit that a statement may wait for one lock, 0 for all of it.
	Locks float64
	// Most is the session's own limit, 0 for none.
	Most time.Duration
	// Check is told whether the server has the limits, and may be nil.
	Check *Check
	// Lost makes what Read and Write return when the connection ends under a COMMIT.
	Lost func(Lost) error
	// Keep takes what is left of a Conn that is given up at a deadline, where that is of use. It is
	// called with locks held and must not wait. If it is nil the connection is closed.
	Keep func(*Session)
}

// New returns a Conn over inner, which must not have been written to.
func New(inner net.Conn, c Config) *Conn {
	conn := &Conn{Conn: inner, lost: c.Lost, keep: c.Keep, state: state{nameless: c.Nameless, locks: c.Locks, most: c.Most, check: c.Check}}
	if c.Keep != nil {
		conn.state.params = map[string]string{}
	}
	return conn
}

// Arm has every burst from now on limited so that the server gives up by at.
// The value is worked out when the burst is written: whole milliseconds,
// rounded down, at least one.
func (c *Conn) Arm(at time.Time) { c.set(limited, at) }

// ArmUnlimited has the next burst lift a limit of ours that is still in force.
func (c *Conn) ArmUnlimited() { c.set(unlimited, time.Time{}) }

// Disarm has bursts pass as they are.
func (c *Conn) Disarm() { c.set(untouched, time.Time{}) }

func (c *Conn) set(m mode, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.mode, c.state.at, c.state.foreign, c.state.ended, c.state.alone = m, at, false, nil, false
}

// Ended notes that the ctx of the running call has ended with why. A timeout
// after that is the end of the connection.
func (c *Conn) Ended(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.ended = why
}

// Cancelling notes that a cancel request is about to be sent for another reason than
// the deadline. Errors of this call are not marked as the deadline's from now on.
func (c *Conn) Cancelling() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.foreign = true
}

// Alone notes that no cancel request is sent for the running call, for the server ends it itself.
func (c *Conn) Alone() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.alone = true
}

// Bounds reports whether a statement, given by its text or the name it is prepared
// under, will be limited if it is sent now in a burst of its own. A text of several is not: see Limited.
func (c *Conn) Bounds(sql string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, prepared := c.state.front.classes[sql]
	if !prepared {
		text := unsafe.Slice(unsafe.StringData(sql), len(sql)) // which nothing here changes
		if k = classify(text); several(text) {
			return false
		}
	}
	switch c.state.tx {
	case 'I':
		return k == plain || k == opens
	case 'T':
		return k <= early || k == closes
	}
	return false
}

// Limited reports whether a limit of ours ends all that the server runs. Of several statements in one
// burst each has the whole limit: the server's clock starts anew with each.
func (c *Conn) Limited() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.inForce > 0 && c.state.front.runs <= 1
}

// Write sends what the driver wrote, with the limit in front when a burst
// begins. The count speaks of p alone.
func (c *Conn) Write(p []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.mu.Lock()
	if err := c.over; err != nil {
		c.mu.Unlock()
		return 0, err
	}
	out, before := c.state.outgoing(p, c.wbuf[:0], time.Now)
	c.mu.Unlock()
	if before < 0 {
		n, err := c.Conn.Write(p)
		if err != nil {
			err = c.failed(err, true)
		}
		return n, err
	}
	n, err := c.Conn.Write(out)
	if cap(out) <= maxKept {
		c.wbuf = out[:0]
	}
	if err == nil {
		return len(p), nil
	}
	return min(max(n-before, 0), len(p)), c.failed(err, true)
}

// maxKept bounds the buffers that a Conn keeps between bursts.
const maxKept = 64 << 10

// Read fills p with what the server sent to the driver.
func (c *Conn) Read(p []byte) (int, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	if len(p) == 0 {
		return c.Conn.Read(p)
	}
	for len(c.out) == 0 {
		if err := c.Lost(); err != nil {
			return 0, err
		}
		if err := c.err; err != nil {
			c.err = nil // a deadline that passed may be moved
			return 0, c.failed(err, false)
		}
		n, err := c.Conn.Read(c.in[:])
		c.err = err
		c.mu.Lock()
		c.out = c.back.filter(&c.state, c.in[:n], c.kept[:0], time.Now)
		if c.state.fatal != nil && c.over == nil {
			c.err = errFatal
			if c.state.undone { // the driver would take what is left for an answer to it
				c.out = c.out[:0]
			}
		}
		undo := c.state.undo
		c.state.undo = false
		c.mu.Unlock()
		if undo {
			c.out = c.rollBack(c.out)
		}
		if c.kept = c.out[:0]; cap(c.kept) > maxKept {
			c.kept = nil
		}
	}
	n := copy(p, c.out)
	c.out = c.out[n:]
	return n, nil
}

// rollBack ends the transaction of a COMMIT in front of which the constraints have failed, and
// appends the ReadyForQuery that the driver waits for. The driver closes a connection with a transaction
// that is still open, so it does not hear of this one, nor wait until it is over: what is
// sent next comes behind. Only where nothing can be written any more it is told.
func (c *Conn) rollBack(out []byte) []byte {
	c.writing.Lock()
	defer c.writing.Unlock()
	err := c.Lost() // from here on c.writing keeps the connection from becoming a Session's
	if err == nil {
		b, start := begin(nil, 'Q')
		_, err = c.Conn.Write(end(append(append(b, rollback...), 0), start))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil || c.over != nil {
		c.state.tx = 'E'
	} else {
		c.state.expected, c.state.undone = "CZ", true
	}
	return append(out, 'Z', 0, 0, 0, 5, c.state.tx)
}

// Lost returns what Read and Write return since the connection was lost or given
// up under a call, and nil before.
func (c *Conn) Lost() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.over
}

// Committing reports whether a COMMIT was written that has not had its whole answer.
func (c *Conn) Committing() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.commit != none
}

// XID returns the id of the transaction that is open, or was when the Conn was lost,
// and 0 when it is not known.
func (c *Conn) XID() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.xid
}

// Close ends the connection, unless it has become a Session's.
func (c *Conn) Close() error {
	c.mu.Lock()
	c.closing = true
	detached := c.detached
	c.mu.Unlock()
	if detached {
		return nil
	}
	return c.Conn.Close()
}

// SetDeadline is that of the connection, unless it has become a Session's.
func (c *Conn) SetDeadline(t time.Time) error { return c.setDeadline(net.Conn.SetDeadline, t) }

// SetReadDeadline is as SetDeadline.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.setDeadline(net.Conn.SetReadDeadline, t) }

// SetWriteDeadline is as SetDeadline.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	return c.setDeadline(net.Conn.SetWriteDeadline, t)
}

func (c *Conn) setDeadline(set func(net.Conn, time.Time) error, t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.detached {
		return net.ErrClosed
	}
	return set(c.Conn, t)
}
