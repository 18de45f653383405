package servers

import (
	"fmt"
	"slices"
	"sync"
	"testing"
)

// The servers that tests of this process share, by kind and settings.
var shared = struct {
	sync.Mutex
	all map[string]*Server
}{all: map[string]*Server{}}

// Shared returns a server that all tests of the process share which ask for the same
// kind with the same settings. The first one to ask starts it. A test that must find it
// empty makes a database of its own, see InDatabase. Settings are as for Start, and so is
// what happens without the server's programs.
//
// A shared server cannot be stopped, killed, frozen or restarted: that panics. It ends when
// the test process does, in good order if TestMain is
//
//	func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }
func Shared(tb testing.TB, kind Kind, settings ...string) *Server {
	tb.Helper()
	if !slices.Contains(Kinds, kind) {
		tb.Fatalf("servers: Shared cannot start %q", kind)
	}
	shared.Lock()
	defer shared.Unlock()
	key := fmt.Sprintf("%s %q", kind, settings)
	if s := shared.all[key]; s != nil {
		return s
	}
	s := newServer(tb, kind, nil, settings)
	if s == nil {
		return nil // reached only when tb does not end its goroutine
	}
	s.restart()
	s.mu.Lock()
	s.tb = nil // which ends before it does
	s.mu.Unlock()
	shared.all[key] = s
	return s
}

// InDatabase returns the same server, shared or not, with another database in its DSN. Who
// calls it makes the database. The one returned cannot be stopped, killed, frozen or
// restarted.
func (s *Server) InDatabase(name string) *Server {
	return &Server{
		Kind: s.Kind, Host: s.Host, Port: s.Port, User: s.User, Password: s.Password, Database: name,
		maker: s.maker, dir: s.dir, settings: s.settings, upstream: s.upstream,
	}
}

// Main runs the tests of m, ends the servers that they shared, and returns the exit code.
func Main(m *testing.M) int {
	code := m.Run()
	shared.Lock()
	defer shared.Unlock()
	for key, s := range shared.all {
		if err := s.remove(); err != nil {
			fmt.Printf("servers: %s: %v\n", key, err)
			code = max(code, 1)
		}
	}
	clear(shared.all)
	return code
}

// own panics for a server that others use as well.
func (s *Server) own(method string) testing.TB {
	if s.tb == nil {
		panic(fmt.Sprintf("servers: %s of a %s that tests share", method, s.Kind))
	}
	return s.tb
}
