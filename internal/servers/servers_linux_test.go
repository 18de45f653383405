package servers

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// room is how long a test waits for what should happen soon. It is long since
// a busy machine takes its time, and costs nothing when all is well.
const room = 60 * time.Second

// forEachKind runs the story once for every kind of server.
func forEachKind(t *testing.T, story func(t *testing.T, s *Server)) {
	for _, kind := range Kinds {
		t.Run(string(kind), func(t *testing.T) { story(t, Start(t, kind)) })
	}
	t.Run(string(PgBouncer), func(t *testing.T) { story(t, StartPgBouncer(t, Start(t, PostgreSQL))) })
}

func mustAnswer(t *testing.T, s *Server) {
	t.Helper()
	if err := s.Ping(); err != nil {
		t.Fatalf("%s should answer: %v", s.Kind, err)
	}
}

func mustRefuse(t *testing.T, s *Server) {
	t.Helper()
	if err := s.Ping(); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatalf("%s should refuse connections, but Ping returned: %v", s.Kind, err)
	}
}

// mustHang asks a question that a server in good health answers within
// milliseconds, and wants no answer at all.
func mustHang(t *testing.T, s *Server) {
	t.Helper()
	var timeout net.Error
	if err := s.pingWithin(300 * time.Millisecond); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Fatalf("%s should not answer, but Ping returned: %v", s.Kind, err)
	}
}

func TestServerCanBeStoppedKilledFrozenAndRestarted(t *testing.T) {
	forEachKind(t, func(t *testing.T, s *Server) {
		addr := s.Addr()
		mustAnswer(t, s)

		s.Freeze()
		mustHang(t, s)
		s.Thaw()
		mustAnswer(t, s)

		s.Kill()
		mustRefuse(t, s)
		s.Restart()
		mustAnswer(t, s)

		s.Freeze()
		s.Kill()
		mustRefuse(t, s)
		s.Restart()
		mustAnswer(t, s)

		s.Freeze()
		s.Stop()
		mustRefuse(t, s)
		s.Restart()
		mustAnswer(t, s)

		s.Restart() // of one that is up
		mustAnswer(t, s)
		if s.Addr() != addr {
			t.Errorf("the address changed from %s to %s", addr, s.Addr())
		}
	})
}

func TestNothingIsLeftWhenATestEnds(t *testing.T) {
	for _, state := range []string{"running", "frozen", "killed"} {
		t.Run(state, func(t *testing.T) {
			var dir, memory string
			var list []process
			t.Run("test", func(t *testing.T) {
				s := Start(t, PostgreSQL)
				dir, list = s.dir, tree(s.cmd.Process.Pid)
				memory = sharedMemory(s.dataDir())
				switch state {
				case "frozen":
					s.Freeze()
				case "killed":
					s.Kill()
				}
			})
			if dir == "" {
				t.Skip("no server was started")
			}
			if len(list) < 3 {
				t.Errorf("a PostgreSQL of %d processes: did tree miss some?", len(list))
			}
			for _, p := range list {
				if now, ok := readProcess(p.pid); ok && now.started == p.started && !now.ended() {
					t.Errorf("process %d is left", p.pid)
				}
			}
			if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("its folder %s is left (%v)", dir, err)
			}
			switch segments, err := os.ReadFile("/proc/sysvipc/shm"); {
			case err != nil:
				t.Logf("shared memory cannot be seen: %v", err)
			case memory == "":
				t.Errorf("postmaster.pid names no shared memory")
			default:
				for line := range strings.Lines(string(segments)) {
					if words := strings.Fields(line); len(words) > 1 && words[1] == memory {
						t.Errorf("its shared memory segment %s is left", memory)
					}
				}
			}
		})
	}
}

// Frozen means every process: a session that was open before must hang too,
// not only the door for new ones.
func TestFreezeStopsEveryProcessOfPostgreSQL(t *testing.T) {
	s := Start(t, PostgreSQL)
	s.Freeze()
	list := tree(s.cmd.Process.Pid)
	if len(list) < 3 {
		t.Errorf("a PostgreSQL of %d processes: did tree miss some?", len(list))
	}
	for _, p := range list {
		if !p.stopped() {
			t.Errorf("process %d is in state %s", p.pid, p.state)
		}
	}
	s.Thaw()
	mustAnswer(t, s)
}

func TestTwoServersOfAKindAreStrangers(t *testing.T) {
	a, b := Start(t, Redis), Start(t, Redis)
	if a.Port == b.Port || a.dir == b.dir {
		t.Fatalf("they share port %d or folder %s", a.Port, a.dir)
	}
	a.Kill()
	mustRefuse(t, a)
	mustAnswer(t, b)
}

func TestSettingsReachTheServer(t *testing.T) {
	s := Start(t, Redis, "maxmemory=12345678")
	conn, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(room)); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "AUTH %s\r\nCONFIG GET maxmemory\r\nQUIT\r\n", s.Password)
	if answer, err := io.ReadAll(conn); err != nil || !strings.Contains(string(answer), "12345678") {
		t.Errorf("the server answered %q (%v)", answer, err)
	}
}

// A server that cannot come up must fail its test soon and show its log.
func TestFailedStartShowsTheLog(t *testing.T) {
	if _, err := find(redis.programs); err != nil {
		leaveOut(t, Redis, err)
	}
	started := time.Now()
	fake := &fakeTB{TB: t}
	fake.run(func() { Start(fake, Redis, "no-such-setting=1") })
	fake.end()
	if !strings.Contains(fake.fatal, "Redis did not start: it ended before it was ready") || !strings.Contains(fake.fatal, "no-such-setting") {
		t.Errorf("the failure reads %q", fake.fatal)
	}
	if took := time.Since(started); took > startLimit/2 {
		t.Errorf("it took %v to notice", took)
	}
}

func TestMethodsRefuseTheWrongState(t *testing.T) {
	s := Start(t, Redis)
	fake := &fakeTB{TB: t}
	s.tb = fake
	defer func() { s.tb = t }()
	for _, c := range []struct {
		act  func()
		want string
	}{
		{s.Thaw, "Thaw of a Redis that is not frozen"},
		{func() { s.Freeze(); s.Freeze() }, "Freeze of a Redis that is not running"},
		{func() { s.Kill(); s.Kill() }, "Kill of a Redis that is down"},
		{s.Stop, "Stop of a Redis that is down"},
		{s.Freeze, "Freeze of a Redis that is not running"},
	} {
		fake.errors = nil
		c.act()
		if len(fake.errors) != 1 || !strings.Contains(fake.errors[0], c.want) {
			t.Errorf("got %q, want %q", fake.errors, c.want)
		}
	}
}

func TestServerThatDiedByItselfIsNoTrouble(t *testing.T) {
	s := Start(t, Redis)
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-s.exited
	s.Restart()
	mustAnswer(t, s)
}

// fakeTB notes what a helper does to its test. Like a real one it ends the
// helper's goroutine on a fatal error or a skip.
type fakeTB struct {
	testing.TB
	name           string
	errors         []string
	fatal, skipped string
	cleanups       []func()
}

func (f *fakeTB) Helper()          {}
func (f *fakeTB) Log(...any)       {}
func (f *fakeTB) Cleanup(c func()) { f.cleanups = append(f.cleanups, c) }
func (f *fakeTB) Failed() bool     { return f.fatal != "" }
func (f *fakeTB) Name() string     { return f.name }

func (f *fakeTB) Errorf(format string, args ...any) {
	f.errors = append(f.errors, fmt.Sprintf(format, args...))
}

func (f *fakeTB) Fatalf(format string, args ...any) {
	f.fatal = fmt.Sprintf(format, args...)
	panic(f)
}

func (f *fakeTB) Skipf(format string, args ...any) {
	f.skipped = fmt.Sprintf(format, args...)
	panic(f)
}

func (f *fakeTB) run(helper func()) {
	defer func() {
		if v := recover(); v != nil && v != any(f) {
			panic(v)
		}
	}()
	helper()
}

func (f *fakeTB) end() {
	for _, c := range f.cleanups {
		c()
	}
}
