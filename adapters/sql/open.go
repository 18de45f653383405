package curfewsql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/curfew-go/curfew/adapters/sql/dialect"
	"github.com/curfew-go/curfew/budget"
)

// Open opens a database as sql.Open does, by the name of a registered driver and that
// driver's data source name, with deadlines in the server. It connects later.
// It panics if one of opts is nil.
func Open(driverName, dsn string, opts ...Option) (*sql.DB, error) {
	s := settle("Open", opts)
	db, err := sql.Open(driverName, dsn)
	if err != nil {
		return nil, &quiet{"curfewsql: Open: driver " + driverName + ": not registered, or it does not take the data source name", err}
	}
	d := db.Driver()
	_ = db.Close() // it has not connected
	var inner driver.Connector = dsnConnector{d, dsn}
	if c, ok := d.(driver.DriverContext); ok {
		if inner, err = c.OpenConnector(dsn); err != nil {
			return nil, &quiet{"curfewsql: Open: driver " + driverName + " does not take the data source name", err}
		}
	}
	return sql.OpenDB(newConnector(inner, s)), nil
}

// Wrap returns a database over the connections that c makes, with deadlines in the
// server. It panics if c or one of opts is nil.
func Wrap(c driver.Connector, opts ...Option) *sql.DB {
	if c == nil {
		panic("curfewsql: Wrap: nil connector")
	}
	return sql.OpenDB(newConnector(c, settle("Wrap", opts)))
}

// dsnConnector is the connector of a driver of old.
type dsnConnector struct {
	driver driver.Driver
	dsn    string
}

func (n dsnConnector) Connect(context.Context) (driver.Conn, error) { return n.driver.Open(n.dsn) }
func (n dsnConnector) Driver() driver.Driver                        { return n.driver }

// A connector makes connections with deadlines.
type connector struct {
	settings
	inner driver.Connector

	open  context.Context // ends with Close
	close context.CancelFunc
	dials dials

	turn    chan struct{} // holds one value, for whoever learns
	known   bool          // dialect, killer and signals are set, and do not change again
	killer  *killer       // nil when nothing is killed
	signals *signals      // nil when nothing is signalled
	warn    sync.Once

	mu     sync.Mutex // held to set killer and signals, and by Close
	closed bool       // guarded by mu
}

func newConnector(inner driver.Connector, s settings) *connector {
	c := &connector{settings: s, inner: inner, turn: make(chan struct{}, 1)}
	c.open, c.close = context.WithCancel(context.Background())
	c.turn <- struct{}{}
	c.dials.connect, c.dials.open = c.connect, c.open
	return c
}

// Driver implements driver.Connector.
func (c *connector) Driver() driver.Driver { return c.inner.Driver() }

// proofBound is how long a connection may take to be proven killable: two turns on it
// and one on another.
const proofBound = 2 * time.Second

// Connect implements driver.Connector.
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	if ctx.Err() != nil {
		return nil, endOf(ctx, "", nil)
	}
	if left, bounded := budget.Remaining(ctx); bounded && left < leastLimit {
		return nil, tooLate(ctx)
	}
	conn, err := c.dials.get(ctx)
	switch {
	case err == nil:
		return conn, nil
	case c.open.Err() != nil:
		return nil, errClosed
	}
	return nil, connectError(ctx, err)
}

// connect makes a connection. The driver gets dialling, which ends as ctx does, and may have a deadline
// that does not end it, so that nothing but the driver's own Connect is to see it.
func (c *connector) connect(dialling, ctx context.Context) (driver.Conn, error) {
	inner, err := c.inner.Connect(dialling)
	if err != nil {
		return nil, err
	}
	if err := c.learn(ctx, inner); err != nil {
		_ = inner.Close()
		return nil, err
	}
	conn := &conn{inner: inner, db: c}
	if c.killer != nil {
		bounded, cancel := context.WithTimeout(ctx, proofBound)
		defer cancel()
		id, proven := c.killer.identify(bounded, inner)
		switch {
		case proven:
			conn.id, conn.ender = id, &victim{c.killer, id}
		case ctx.Err() != nil:
			_ = inner.Close() // it may be in the middle of an answer
			return nil, ctx.Err()
		case bounded.Err() != nil:
			_ = inner.Close()
			return nil, &budget.Cause{Kind: budget.DependencyTimeout, Phase: phaseConnect}
		default:
			c.warn.Do(func() {
				c.log.Warn("curfewsql: statements cannot be killed: the server does not confirm the id of its connection")
			})
		}
	}
	if conn.ender == nil {
		if conn.ender, err = c.enderOf(ctx, inner); err != nil {
			_ = inner.Close()
			return nil, err
		}
	}
	return conn, nil
}

// learn finds out what the server speaks, once.
func (c *connector) learn(ctx context.Context, inner driver.Conn) error {
	select {
	case <-c.turn:
	case <-ctx.Done():
		return ctx.Err()
	case <-c.open.Done():
		return errClosed
	}
	defer func() { c.turn <- struct{}{} }()
	if c.known {
		return nil
	}
	if c.dialect == nil {
		asking, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(c.open, cancel)()
		d, err := detect(asking, inner)
		switch {
		case c.open.Err() != nil:
			return errClosed
		case err != nil:
			return err
		}
		c.dialect = d
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errClosed
	}
	if k, ok := c.dialect.(dialect.Killer); ok && !c.pooler {
		c.killer = newKiller(c.inner, k, c.dialect.Judge, c.log)
	}
	if d, ok := c.dialect.(dialect.Canceler); ok && !c.pooler {
		c.signals = newSignals(c.open, c.inner, d)
	}
	c.known = true
	return nil
}

// Close implements io.Closer, for sql.DB.Close. It does not wait for who learns: a server that is
// frozen keeps a connection without deadline there for as long as it likes.
func (c *connector) Close() error {
	c.close()
	c.dials.close()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.killer != nil {
		c.killer.close()
	}
	if c.signals != nil {
		c.signals.close()
	}
	if closer, ok := c.inner.(io.Closer); ok {
		return closer.Close()
	}
	return nil
}

// connectError returns why a connection could not be had. The texts of drivers name the user, the
// database and the host.
func connectError(ctx context.Context, err error) error {
	if have := (*budget.Cause)(nil); errors.As(err, &have) || err == errClosed || err == errNoDialect {
		return err
	}
	if ctx.Err() != nil {
		return endOf(ctx, phaseConnect, quieted(err, dialect.Verdict{}))
	}
	text := "curfewsql: no connection: "
	var errno syscall.Errno
	var resolving *net.DNSError
	switch code := codeOf(err); {
	case code != "":
		text += "the server answered " + code
	case errors.As(err, &errno):
		text += errno.Error()
	case errors.As(err, &resolving):
		text += "the host's address was not found"
	default:
		text += "see the driver's error behind this one"
	}
	return &quiet{text, err}
}

// codeOf returns the server's code of an error of a connection that is not had yet, "" for none.
func codeOf(err error) string {
	for _, d := range []dialect.Dialect{dialect.PostgreSQL(), dialect.MySQL(), dialect.SQLite()} {
		if v := d.Judge(err); v.Code != "" {
			return v.Code
		}
	}
	return ""
}
