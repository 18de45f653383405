package curfewsql_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewsql "github.com/curfew-go/curfew/adapters/sql"
	"github.com/curfew-go/curfew/budget"
)

// cancellable is a server whose driver can cancel, in a bubble. It has one statement, "work", that ends by
// a cancel, by a signal, or with its ctx.
type cancellable struct {
	plain
	j       journal
	pooler  bool // the server has another id for a connection than the driver
	deaf    bool // nothing is answered but work
	dropped bool // the connection for signals has been dropped by the server
	began   time.Time
	struck  chan struct{}
}

func (s *cancellable) at(what string) { s.j.note("%v %s", time.Since(s.began), what) }

func (s *cancellable) strike(ctx context.Context, how string) error {
	s.at(how)
	if s.deaf {
		<-ctx.Done()
		return ctx.Err()
	}
	select {
	case s.struck <- struct{}{}:
	default:
	}
	return nil
}

func (s *cancellable) Cancel(driver.Conn) func(context.Context) error {
	return func(ctx context.Context) error { return s.strike(ctx, "cancel") }
}
func (s *cancellable) Session(driver.Conn) (id int64, ask string) { return 7, "ask" }
func (s *cancellable) Signal(int64) string                        { return "signal" }

func (s *cancellable) Connect(context.Context) (driver.Conn, error) {
	s.at("login")
	return &cancellableConn{leastConn{&journal{}}, s}, nil
}
func (s *cancellable) Driver() driver.Driver { return nil }

type cancellableConn struct {
	leastConn
	server *cancellable
}

func (c *cancellableConn) QueryContext(context.Context, string, []driver.NamedValue) (driver.Rows, error) {
	c.server.at("ask")
	if c.server.pooler {
		return &oneRow{[]driver.Value{int64(8)}}, nil
	}
	return &oneRow{[]driver.Value{int64(7)}}, nil
}

func (c *cancellableConn) ExecContext(ctx context.Context, query string, _ []driver.NamedValue) (driver.Result, error) {
	s := c.server
	switch query {
	case "signal":
		if s.dropped {
			return nil, driver.ErrBadConn
		}
		return driver.RowsAffected(0), s.strike(ctx, "signal")
	case "work":
		select {
		case <-s.struck:
			return nil, codeError("killed")
		case <-ctx.Done():
			s.at("cut")
			return nil, ctx.Err()
		}
	}
	return driver.RowsAffected(1), nil
}

func TestAStatementIsEndedByWhatTheDriverKnowsOfItsConnection(t *testing.T) {
	setUp := []string{"0s login", "0s ask", "0s login"} // one for the pool, and one for signals
	for name, c := range map[string]struct {
		server *cancellable
		opts   []curfewsql.Option
		want   []string
		login  bool // the next one needs a login
	}{
		"by a signal":                   {&cancellable{}, nil, append(setUp[:3:3], "960ms signal", "960ms back"), false},
		"behind a pooler by a cancel":   {&cancellable{pooler: true}, nil, append(setUp[:3:3], "960ms cancel", "960ms back"), false},
		"behind one that is known":      {&cancellable{}, []curfewsql.Option{curfewsql.BehindPooler()}, []string{"0s login", "960ms cancel", "960ms back"}, false},
		"by a cancel, without signals":  {&cancellable{dropped: true}, nil, append(setUp[:3:3], "960ms cancel", "960ms back", "960ms login"), false},
		"by the socket":                 {&cancellable{deaf: true}, nil, append(setUp[:3:3], "960ms signal", "1s back", "1s cut"), true},
		"by the socket behind a pooler": {&cancellable{pooler: true, deaf: true}, nil, append(setUp[:3:3], "960ms cancel", "1s back", "1s cut"), true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := c.server
				s.struck, s.began = make(chan struct{}, 1), time.Now()
				db := curfewsql.Wrap(s, append(c.opts, curfewsql.WithDialect(s))...)
				require.NoError(t, db.Ping())
				synctest.Wait()
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err := db.ExecContext(ctx, "work")
				assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err), "%v", err)
				s.at("back")
				synctest.Wait()
				assert.ElementsMatch(t, c.want, s.j.read())
				_, err = db.ExecContext(t.Context(), "next")
				assert.NoError(t, err)
				if c.login {
					c.want = append(c.want, "1s login", "1s ask")
				}
				assert.ElementsMatch(t, c.want, s.j.read(), "with the next one")
				require.NoError(t, db.Close())
			})
		})
	}
}

func TestACancelThatFailsCostsTheConnection(t *testing.T) {
	var lost = errors.New("lost")
	synctest.Test(t, func(t *testing.T) {
		s := &unsure{cancellable{struck: make(chan struct{}, 1), began: time.Now()}, lost}
		db := curfewsql.Wrap(s, curfewsql.WithDialect(s), curfewsql.BehindPooler())
		defer db.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := db.ExecContext(ctx, "work")
		require.Error(t, err)
		_, err = db.ExecContext(t.Context(), "next")
		require.NoError(t, err)
		assert.Equal(t, 2, s.j.count("0s login")+s.j.count("960ms login"))
	})
}

// unsure has done what it was asked for, and does not know.
type unsure struct {
	cancellable
	err error
}

func (f *unsure) Cancel(driver.Conn) func(context.Context) error {
	return func(ctx context.Context) error { return errors.Join(f.strike(ctx, "cancel"), f.err) }
}
