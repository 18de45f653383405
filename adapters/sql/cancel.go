package curfewsql

import (
	"context"
	"database/sql/driver"

	"github.com/curfew-go/curfew/adapters/sql/dialect"
)

// A canceler ends what one connection runs by the driver's own cancel. There is no fuse before it, as there is
// before kills: where nothing is sent the socket ends, with which the driver sends the same, and the
// connection's login comes on top. No more are under way than there are connections.
type canceler func(context.Context) error

func (c canceler) end(ctx context.Context, moot func() bool) (sent bool, err error) {
	if moot() {
		return false, nil
	}
	return true, c(ctx)
}

// endBehind does nothing: a driver that can cancel does so when its socket ends.
func (canceler) endBehind() {}

// Signals end statements from one connection outside of the pool, which is made beside the pool's first:
// when one is needed there may be no time for a login. Until it is there, and where it fails, the
// connection's own cancel takes its place.
type signals struct {
	connector driver.Connector
	signal    func(id int64) string
	open      context.Context // ends when it is closed

	turn   chan struct{} // holds one value, for whoever uses what follows
	conn   driver.Conn   // nil: there is none, or it is being made
	making bool
	closed bool
}

func newSignals(open context.Context, c driver.Connector, d dialect.Canceler) *signals {
	s := &signals{connector: c, signal: d.Signal, open: open, turn: make(chan struct{}, 1)}
	s.makeLocked()
	s.turn <- struct{}{}
	return s
}

// A signalled is a connection of which the driver and the server have the same id: so no pooler gives
// its statements to other sessions. While one runs the id cannot be another's.
type signalled struct {
	canceler
	signals *signals
	id      int64
}

func (v *signalled) end(ctx context.Context, moot func() bool) (sent bool, err error) {
	s := v.signals
	select {
	case <-s.turn:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	switch {
	case s.conn == nil:
		s.makeLocked()
		s.turn <- struct{}{}
		return v.canceler.end(ctx, moot)
	case moot():
		s.turn <- struct{}{}
		return false, nil
	}
	failed := make(chan error, 1)
	go func() { failed <- s.send(v.id) }()
	select {
	case err = <-failed:
	case <-ctx.Done():
		return true, ctx.Err()
	}
	if err != nil { // the server may have dropped a connection that idled for hours
		_, err = v.canceler.end(ctx, moot)
	}
	return true, err
}

// send has turn, and gives it back. It does not end with who waits for it, so that a server that hangs finds
// the same connection when it is back.
func (s *signals) send(id int64) error {
	ctx, cancel := context.WithTimeout(s.open, linger)
	defer cancel()
	err := execText(ctx, s.conn, s.signal(id))
	if err != nil || s.closed {
		_ = s.conn.Close()
		s.conn = nil
		s.makeLocked()
	}
	s.turn <- struct{}{}
	return err
}

// makeLocked has the connection made, unless it is there or on its way. It is called by who has the turn.
func (s *signals) makeLocked() {
	if s.conn == nil && !s.making && !s.closed {
		s.making = true
		go s.make()
	}
}

func (s *signals) make() {
	ctx, cancel := context.WithTimeout(s.open, linger)
	defer cancel()
	conn, err := s.connector.Connect(ctx)
	<-s.turn
	s.making = false
	switch {
	case err != nil:
	case s.closed:
		_ = conn.Close()
	default:
		s.conn = conn
	}
	s.turn <- struct{}{}
}

// close ends the connection. What is under way on it has ended with open.
func (s *signals) close() {
	<-s.turn
	s.closed = true
	if s.conn != nil {
		_ = s.conn.Close()
		s.conn = nil
	}
	s.turn <- struct{}{}
}

// enderOf returns what ends statements of inner, nil where nothing does. It takes a turn where there
// may be a session to signal.
func (c *connector) enderOf(ctx context.Context, inner driver.Conn) (ender, error) {
	d, ok := c.dialect.(dialect.Canceler)
	if !ok {
		return nil, nil
	}
	cancel := d.Cancel(inner)
	if cancel == nil {
		return nil, nil
	}
	id, ask := d.Session(inner)
	if id == 0 || c.signals == nil {
		return canceler(cancel), nil
	}
	row, err := queryRow(ctx, inner, ask)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err() // it may be in the middle of an answer
	case err != nil || len(row) != 1 || text(row[0]) != text(id):
		return canceler(cancel), nil
	}
	return &signalled{cancel, c.signals, id}, nil
}
