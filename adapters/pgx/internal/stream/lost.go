package stream

import (
	"errors"
	"net"
)

// An Outcome is what is known of a COMMIT without its whole answer.
type Outcome uint8

const (
	NotCommitted Outcome = iota
	Unknown
	Committed
)

// Lost is a COMMIT whose connection ended under it.
type Lost struct {
	Outcome Outcome
	XID     uint64 // of the transaction, 0 when it is not known
	Ended   error  // of the call's ctx, nil when it had not ended
	Fatal   []byte // body of the ErrorResponse with which the server ended the connection, may be nil
}

// commit is how far the COMMIT of the running burst has got:
//
//	none ──written──▶ asked ──ErrorResponse or ROLLBACK──▶ refused
//	                    └──────────COMMIT──────────▶ granted
//
// and none again with the ReadyForQuery behind it.
type commit uint8

const (
	none commit = iota
	asked
	refused
	granted
)

var errFatal = errors.New("curfewpgx: the server ended the connection")

// failed returns what the driver is told of err, an error of the connection, and
// gives the connection up when it is of no more use.
func (c *Conn) failed(err error, writing bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, why := &c.state, err
	if c.over != nil {
		return c.over
	}
	if e, ok := err.(net.Error); ok && e.Timeout() && s.ended == nil {
		return err // of a deadline that was not for a call: it may be moved
	}
	if s.commit != none {
		l := Lost{Outcome: NotCommitted, XID: s.xid, Ended: s.ended, Fatal: s.fatal}
		switch {
		case s.commit == granted:
			l.Outcome = Committed
		case s.commit == asked && !writing: // a message that is not whole is not run
			l.Outcome = Unknown
		}
		err = c.lost(l)
	} else if s.inForce <= 0 && !s.ping {
		c.unended = true
		return err // a cancel request is all that ends the statement
	}
	// The server gives up by itself. So nobody has to wait for it, which the
	// driver would, with a cancel request and in the place of a new connection.
	c.over = err
	if session := c.detach(why, writing); session != nil {
		c.keep(session)
		return err
	}
	_ = bottom(c.Conn).Close() // the Close of TLS writes, and may wait
	return err
}

// Unended reports whether the connection ended under a statement that nothing but a cancel request
// ends. The driver sends one, unless it finds the connection closed.
func (c *Conn) Unended() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unended
}

// GivenUp is the network of the address of a Conn that was given up. The driver
// would send a cancel request there, and whoever dials for it refuses.
const GivenUp = "curfewpgx: given up"

type givenUp struct{}

func (givenUp) Network() string { return GivenUp }
func (givenUp) String() string  { return GivenUp }

// RemoteAddr returns the server's address until the Conn is given up.
func (c *Conn) RemoteAddr() net.Addr {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over != nil {
		return givenUp{}
	}
	return c.Conn.RemoteAddr()
}
