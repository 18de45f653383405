package drivers

import (
	"database/sql"
	"database/sql/driver"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/internal/servers"
)

// A place is a database of a test's own, in a server that it may share.
type place struct {
	*servers.Server
	database string
}

// DSN is that of the server, with the place's database.
func (p place) DSN() string {
	return strings.Replace(p.Server.DSN(), "/"+p.Database, "/"+p.database, 1)
}

// freeze stops the server from running until thaw is called, at the latest by the end of the
// test. To call it again does nothing.
func (p place) freeze(tb testing.TB) (thaw func()) {
	tb.Helper()
	p.Freeze()
	thaw = sync.OnceFunc(p.Thaw)
	tb.Cleanup(thaw)
	return thaw
}

// shared makes a database in the server that the tests of this package share.
func shared(tb testing.TB, kind servers.Kind) place {
	tb.Helper()
	s := running.start(tb, kind)
	admin := bare(tb, connects[kind](tb, place{s, s.Database}))
	name := fmt.Sprintf("test%d", running.next())
	must(tb, admin, "create database "+name)
	tb.Cleanup(func() {
		drop := "drop database " + name
		if kind == servers.PostgreSQL {
			drop += " with (force)"
		}
		if _, err := admin.ExecContext(within(tb, patience), drop); err != nil {
			tb.Errorf("%s: %v", drop, err)
		}
	})
	return place{s, name}
}

var connects = map[servers.Kind]func(testing.TB, place) driver.Connector{servers.PostgreSQL: pgxConnector, servers.MariaDB: mysqlConnector}

var running pool

// A pool is the servers that tests share, one of each kind.
type pool struct {
	mu       sync.Mutex
	servers  map[servers.Kind]*servers.Server // guarded by mu
	numbered int                              // guarded by mu
	atEnd    []func()                         // guarded by mu
}

func (p *pool) next() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.numbered++
	return p.numbered
}

func (p *pool) start(tb testing.TB, kind servers.Kind) *servers.Server {
	tb.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.servers[kind] == nil {
		if p.servers == nil {
			p.servers = map[servers.Kind]*servers.Server{}
		}
		p.servers[kind] = servers.Start(&starter{TB: tb, atEnd: &p.atEnd}, kind)
	}
	return p.servers[kind]
}

func (p *pool) end() {
	for _, f := range slices.Backward(p.atEnd) {
		f()
	}
}

// A starter is the test that starts a server which outlives it.
type starter struct {
	testing.TB // as long as it starts
	atEnd      *[]func()
}

func (s *starter) Cleanup(f func())             { *s.atEnd = append(*s.atEnd, f) }
func (s *starter) Failed() bool                 { return false }
func (s *starter) Errorf(text string, a ...any) { fmt.Fprintf(os.Stderr, text+"\n", a...) }
func (s *starter) Log(a ...any)                 { fmt.Fprintln(os.Stderr, a...) }

func TestMain(m *testing.M) {
	code := m.Run()
	running.end()
	os.Exit(code)
}

// number returns the one number that a query gives.
func number(tb testing.TB, db *sql.DB, query string, args ...any) (n int) {
	tb.Helper()
	require.NoError(tb, db.QueryRow(query, args...).Scan(&n), query)
	return n
}
