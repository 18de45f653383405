package curfewsql_test

import (
	"context"
	"database/sql/driver"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewsql "github.com/curfew-go/curfew/adapters/sql"
)

// killable is a server of which statements can be killed, in a bubble. It has one
// statement, "work", that ends by a kill, by the end of its ctx, which is that of
// the socket, or when the test says so.
type killable struct {
	plain
	j        journal
	answers  time.Duration // when work ends by itself; 0 never
	deaf     bool          // kills are not answered
	swallows bool          // kills are, and strike nothing
	text     string        // that is executed, "" for work alone
	slow     time.Duration // how long a kill takes
	dropped  bool          // the reserved connection, by the server
	began    time.Time

	mu       sync.Mutex
	conns    int64                   // guarded by mu
	kills    map[int64]chan struct{} // guarded by mu
	reserved int64                   // guarded by mu: the connection that proves
	behind   []string                // guarded by mu: kills that came from another
	armed    bool
}

func (k *killable) Identify(string) string { return "identify" }
func (k *killable) Prove(string) string    { return "prove" }
func (k *killable) Release(string) string  { return "release" }
func (k *killable) Kill(int64) string      { return "kill" }
func (k *killable) LimitsAll() bool        { return k.armed }
func (k *killable) Settle() string         { return "settle" }

func (k *killable) Connect(context.Context) (driver.Conn, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.conns++
	return &killableConn{leastConn{&k.j}, k, k.conns}, nil
}
func (k *killable) Driver() driver.Driver { return nil }

func (k *killable) at(what string) { k.j.note("%v %s", time.Since(k.began), what) }

type killableConn struct {
	leastConn
	server *killable
	id     int64
}

func (c *killableConn) QueryContext(ctx context.Context, query string, _ []driver.NamedValue) (driver.Rows, error) {
	if query == "prove" && c.server.dropped {
		c.server.dropped = false
		return nil, driver.ErrBadConn
	}
	if query == "prove" {
		c.server.mu.Lock()
		c.server.reserved = c.id
		c.server.mu.Unlock()
	}
	row := map[string][]driver.Value{"identify": {int64(1), int64(1)}, "prove": {int64(1)}}[query]
	return &oneRow{row}, nil
}

type oneRow struct{ row []driver.Value }

func (r *oneRow) Columns() []string              { return make([]string, len(r.row)) }
func (r *oneRow) Close() error                   { return nil }
func (r *oneRow) Next(dest []driver.Value) error { copy(dest, r.row); return nil }

func (c *killableConn) ExecContext(ctx context.Context, query string, _ []driver.NamedValue) (driver.Result, error) {
	s := c.server
	switch query {
	case "release":
	case "kill":
		s.mu.Lock()
		behind := c.id != s.reserved
		if behind {
			s.behind = append(s.behind, time.Since(s.began).String())
		}
		s.mu.Unlock()
		if behind {
			return driver.RowsAffected(0), nil
		}
		s.at("kill")
		if s.deaf {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		time.Sleep(s.slow)
		if s.swallows {
			return driver.RowsAffected(0), nil
		}
		select {
		case s.kills[1] <- struct{}{}:
		default:
		}
	case "settle":
		s.at("settle")
		select {
		case <-s.kills[1]:
			return nil, codeError("killed")
		default:
		}
	case "work", "work; work":
		var answer <-chan time.Time
		if s.answers > 0 {
			answer = time.After(s.answers)
		}
		select {
		case <-s.kills[1]:
			s.at("killed")
			return nil, codeError("killed")
		case <-ctx.Done():
			s.at("cut")
			return nil, ctx.Err()
		case <-answer:
			s.at("answered")
		}
	default:
		select {
		case <-s.kills[1]:
			s.at("hit " + query)
			return nil, codeError("killed")
		default:
			s.at(query)
		}
	}
	return driver.RowsAffected(1), nil
}

// climb runs "work" under ctx on server, and then "next", and returns the journal.
func climb(t *testing.T, server *killable, ctx context.Context, opts ...curfewsql.Option) (lines []string, err error) {
	t.Helper()
	server.kills = map[int64]chan struct{}{1: make(chan struct{}, 1)}
	db := curfewsql.Wrap(server, append(opts, curfewsql.WithDialect(server))...)
	defer db.Close()
	require.NoError(t, db.Ping())
	server.began = time.Now()
	_, err = db.ExecContext(ctx, "work")
	server.at("back")
	_, nextErr := db.ExecContext(context.Background(), "next")
	assert.NoError(t, nextErr)
	return server.j.read(), err
}
