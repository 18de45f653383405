package bench

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/curfew-go/curfew/internal/servers"
)

// A host stands for the test that package servers wants to start a server for. It
// implements what that package calls and nothing else of testing.TB.
type host struct {
	testing.TB
	cleanups []func()
	failed   bool
}

// notStarted is what a host panics with, to end what it was asked to do.
type notStarted struct{ why string }

func (h *host) Helper()          {}
func (h *host) Name() string     { return "curfewbench" }
func (h *host) Failed() bool     { return h.failed }
func (h *host) Cleanup(f func()) { h.cleanups = append(h.cleanups, f) }
func (h *host) Log(args ...any)  {}
func (h *host) Errorf(string, ...any) {
	h.failed = true
}
func (h *host) Fatalf(format string, args ...any) {
	h.failed = true
	panic(notStarted{fmt.Sprintf(format, args...)})
}
func (h *host) Skipf(format string, args ...any) { panic(notStarted{fmt.Sprintf(format, args...)}) }

var (
	hosting sync.Mutex
	running = map[servers.Kind]*servers.Server{} // under hosting
	missing = map[servers.Kind]string{}          // under hosting
	hosted  host                                 // under hosting
)

// server returns the server of a kind, which it starts at its first call, or why
// there is none. All cases share one.
func server(kind servers.Kind) (s *servers.Server, why string) {
	hosting.Lock()
	defer hosting.Unlock()
	if running[kind] != nil || missing[kind] != "" {
		return running[kind], missing[kind]
	}
	defer func() {
		switch p := recover().(type) {
		case nil:
		case notStarted:
			missing[kind], why = p.why, p.why
		default:
			panic(p)
		}
	}()
	running[kind] = servers.Start(&hosted, kind)
	return running[kind], ""
}

// StopServers ends the database servers that cases have started.
func StopServers() {
	hosting.Lock()
	defer hosting.Unlock()
	for _, f := range slices.Backward(hosted.cleanups) {
		f()
	}
	hosted = host{}
	clear(running)
	clear(missing)
}
