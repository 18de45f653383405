package main

import (
	"bytes"
	"context"
	"database/sql/driver"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// A fate is what becomes of one COMMIT.
type fate int

const (
	passes fate = iota
	slow        // it comes late, mostly too late
	before      // the connection ends, and the database hears nothing of it
	half        // the database gets half of it, and the connection ends
	behind      // the database commits, and the connection ends before its answer
	fates       // how many there are
)

// trouble decides about COMMITs, by chance. Its methods may be called from any goroutine.
type trouble struct {
	delay time.Duration // the most that a slow one takes

	mu    sync.Mutex
	share float64    // of the commits that do not pass; guarded by mu
	rand  *rand.Rand // guarded by mu
	seen  [fates]int // guarded by mu
}

func newTrouble(delay time.Duration, seed uint64) *trouble {
	return &trouble{delay: delay, rand: rand.New(rand.NewPCG(seed, 0))}
}

// set changes the share of the commits that do not pass, which is zero at first.
func (t *trouble) set(share float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.share = share
}

func (t *trouble) next() (f fate, wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.rand.Float64() < t.share {
		f = 1 + fate(t.rand.IntN(int(fates)-1))
	}
	if f == slow {
		wait = time.Duration(t.rand.Int64N(int64(t.delay)))
	}
	t.seen[f]++
	return f, wait
}

var errLost = errors.New("the connection was lost")

// dial connects to PostgreSQL by connections that have their trouble with commits.
func (t *trouble) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &troubledSocket{Conn: c, trouble: t}, nil
}

type troubledSocket struct {
	net.Conn
	trouble *trouble
}

func (s *troubledSocket) Write(p []byte) (int, error) {
	if !bytes.Contains(bytes.ToLower(p), []byte("commit")) {
		return s.Conn.Write(p)
	}
	f, wait := s.trouble.next()
	switch f {
	case slow:
		time.Sleep(wait) // the network's doing, which looks at no context
	case before:
		_ = s.Conn.Close()
		return 0, errLost
	case half:
		n, _ := s.Conn.Write(p[:len(p)/2])
		_ = s.Conn.Close()
		return n, errLost
	case behind: // which the reader finds out
		n, err := s.Conn.Write(p)
		_ = s.Conn.Close()
		return n, err
	}
	return s.Conn.Write(p)
}

// through gives SQLite, which has no network, the same trouble.
func (t *trouble) through(c driver.Connector) driver.Connector { return troubledConnector{c, t} }

type troubledConnector struct {
	driver.Connector
	trouble *trouble
}

func (c troubledConnector) Connect(ctx context.Context) (driver.Conn, error) {
	inner, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &troubledConn{fileConn: inner.(fileConn), trouble: c.trouble}, nil
}

// fileConn is what the connections of SQLite's driver are.
type fileConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.SessionResetter
	driver.Validator
}

type troubledConn struct {
	fileConn
	trouble *trouble
	lost    bool
}

func (c *troubledConn) IsValid() bool { return !c.lost && c.fileConn.IsValid() }

func (c *troubledConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	tx, err := c.fileConn.BeginTx(ctx, opts)
	return troubledTx{tx, c}, err
}

type troubledTx struct {
	driver.Tx
	conn *troubledConn
}

func (t troubledTx) Commit() error {
	f, wait := t.conn.trouble.next()
	switch f {
	case slow:
		time.Sleep(wait)
	case before, half:
		t.conn.lost = true
		return errors.Join(errLost, t.Rollback())
	case behind:
		t.conn.lost = true
		if err := t.Tx.Commit(); err != nil {
			return err
		}
		return errLost
	}
	return t.Tx.Commit()
}
