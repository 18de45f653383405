// Package servers starts real servers for tests: PostgreSQL, MariaDB, Redis and
// pgbouncer, each on a free loopback port, with data in a folder of its own
// that starts empty, and with a password made up for this test process. A test
// may stop, kill, freeze and restart what it started.
//
// A server is ended when its test ends, and by a guard process when the test
// process dies without running its cleanups. Only processes that were started
// here are ever signalled.
//
// Servers write to memory the operating system keeps, not through to the disk:
// what was committed survives Kill, as it does on a real machine, but it would
// not survive a power cut.
//
// When a program is not installed, its test is skipped, or fails when the
// environment says CURFEW_SERVERS=required. Servers do not work inside a
// synctest bubble, which cannot see sockets.
package servers

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Kind is a kind of server.
type Kind string

// The kinds of servers.
const (
	PostgreSQL Kind = "PostgreSQL"
	MariaDB    Kind = "MariaDB"
	Redis      Kind = "Redis"
	PgBouncer  Kind = "pgbouncer"
)

// Kinds lists the kinds that Start starts. PgBouncer is not among them: it
// needs a PostgreSQL to stand in front of, see StartPgBouncer.
var Kinds = []Kind{PostgreSQL, MariaDB, Redis}

const (
	startLimit = 90 * time.Second      // from start until it answers; a busy machine needs a few seconds
	stopLimit  = 60 * time.Second      // from the polite signal until it is killed
	pingLimit  = 2 * time.Second       // one question whether it answers
	pingPause  = 20 * time.Millisecond // between two questions
	logTail    = 8 << 10               // bytes of its log in a failure
)

// A Server is one server program:
//
//	running ──Freeze──▶ frozen ──Thaw──▶ running
//	running, frozen ──Stop or Kill──▶ down ──Restart──▶ running
//
// Its methods may be called from any goroutine, but Restart, like Start, only
// from the test's own, because it ends the test when it fails. The others mark
// the test as failed and go on.
type Server struct {
	Kind     Kind
	Host     string // always 127.0.0.1
	Port     int    // the same after Restart
	User     string // "" for Redis
	Password string
	Database string // "" for Redis

	tb       testing.TB // nil once it is shared
	maker    maker
	dir      string
	settings []string
	upstream *Server

	mu     sync.Mutex
	cmd    *exec.Cmd     // nil while down; mu protects it
	exited chan struct{} // closed once cmd has been waited for; mu protects the field
	frozen bool          // mu protects it
}

// maker is what differs between the kinds.
type maker struct {
	kind     Kind
	programs []string // all of them are needed; the first is the server
	user     string
	database string
	stop     syscall.Signal // asks for a clean end that does not wait for clients

	// template fills an empty folder with a data folder to copy, once for each
	// test process; nil when there is nothing worth copying.
	template func(dir string, programs map[string]string) error
	// command writes what the server reads at its start into its folder and
	// returns the command line that starts it.
	command func(s *Server, programs map[string]string) ([]string, error)
	// ping returns nil when the server at the other end of conn serves.
	ping func(s *Server, conn net.Conn) error
	// sweep removes what a killed server leaves outside of its folder.
	sweep func(dataDir string)
}

var makers = map[Kind]maker{
	PostgreSQL: postgres,
	MariaDB:    mariadb,
	Redis:      redis,
	PgBouncer:  pgbouncer,
}

// Start starts a server and returns once it answers. Each setting has the form
// name=value, in the words of the server's own configuration, and wins over
// the ones that Start makes. The server is ended when the test ends.
//
// Start skips the test when the server's programs are not installed, and ends
// it as failed when the server does not come up.
func Start(tb testing.TB, kind Kind, settings ...string) *Server {
	tb.Helper()
	if !slices.Contains(Kinds, kind) {
		tb.Fatalf("servers: Start cannot start %q", kind)
	}
	return start(tb, kind, nil, settings)
}

// StartPgBouncer starts a pgbouncer in front of a PostgreSQL, pooling
// transactions unless the settings say otherwise. It takes the same user and
// password as upstream, leads to any of its databases, and goes on running while upstream is down.
func StartPgBouncer(tb testing.TB, upstream *Server, settings ...string) *Server {
	tb.Helper()
	if upstream == nil || upstream.Kind != PostgreSQL {
		tb.Fatalf("servers: StartPgBouncer needs a %s to stand in front of", PostgreSQL)
	}
	return start(tb, PgBouncer, upstream, settings)
}

func start(tb testing.TB, kind Kind, upstream *Server, settings []string) *Server {
	tb.Helper()
	s := newServer(tb, kind, upstream, settings)
	if s != nil {
		tb.Cleanup(s.end)
		s.restart()
	}
	return s
}

// newServer returns a server that is down, with all it needs, or nil after leaving out the test.
func newServer(tb testing.TB, kind Kind, upstream *Server, settings []string) *Server {
	tb.Helper()
	m := makers[kind]
	programs, err := find(m.programs)
	if err != nil {
		leaveOut(tb, kind, err)
		return nil // reached only when tb does not end its goroutine
	}
	s := &Server{
		Kind: kind, Host: "127.0.0.1", User: m.user, Password: password(), Database: m.database,
		tb: tb, maker: m, settings: settings, upstream: upstream,
	}
	if upstream != nil {
		s.Database = upstream.Database
	}
	if err := s.prepare(programs); err != nil {
		_ = s.remove()
		tb.Fatalf("servers: %s: %v", kind, err)
	}
	return s
}

// Addr returns the address clients dial, as host:port.
func (s *Server) Addr() string {
	return net.JoinHostPort(s.Host, strconv.Itoa(s.Port))
}

// DSN returns what the usual Go driver takes to connect: a URL for jackc/pgx
// and for go-redis, a data source name for go-sql-driver. It holds the password.
func (s *Server) DSN() string {
	switch s.Kind {
	case MariaDB:
		return fmt.Sprintf("%s:%s@tcp(%s)/%s", s.User, s.Password, s.Addr(), s.Database)
	case Redis:
		return fmt.Sprintf("redis://:%s@%s/0", s.Password, s.Addr())
	default:
		return fmt.Sprintf("postgres://%s:%s@%s/%s?sslmode=disable", s.User, s.Password, s.Addr(), s.Database)
	}
}

// Log returns what the server has written to its log so far, over all its
// restarts.
func (s *Server) Log() string {
	text, err := os.ReadFile(s.logFile())
	if err != nil {
		return "" // never started
	}
	return string(text)
}

// Ping returns nil when the server takes a connection and is ready to serve.
func (s *Server) Ping() error {
	return s.pingWithin(pingLimit)
}

// prepare makes the server's folder and chooses its port.
func (s *Server) prepare(programs map[string]string) (err error) {
	if err := guardProcess(); err != nil {
		return err
	}
	if s.dir, err = makeFolder(s.Kind); err != nil {
		return err
	}
	if s.maker.template != nil {
		made, err := templateOf(s.maker, programs)
		if err != nil {
			return err
		}
		// cp keeps owners and modes, on which the servers insist.
		if out, err := exec.Command("cp", "-a", made+"/.", s.dataDir()).CombinedOutput(); err != nil {
			return fmt.Errorf("copying the data folder: %w\n%s", err, out)
		}
	}
	s.Port, err = freePort()
	return err
}

func (s *Server) dataDir() string { return filepath.Join(s.dir, "data") }
func (s *Server) logFile() string { return filepath.Join(s.dir, "server.log") }

// write puts a file that the server reads into its folder.
func (s *Server) write(name, text string) (string, error) {
	name = filepath.Join(s.dir, name)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		return "", err
	}
	return name, giveAway(name)
}
