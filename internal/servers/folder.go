package servers

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// makeFolder makes a folder that belongs to the user that servers run as and
// that only this user can enter. It does not lie in testing's TempDir, whose
// parent only we could enter.
func makeFolder(kind Kind) (string, error) {
	dir, err := os.MkdirTemp("", "curfew-"+strings.ToLower(string(kind))+"-")
	if err != nil {
		return "", err
	}
	guardFolder(dir)
	return dir, giveAway(dir)
}

var templates = struct {
	sync.Mutex
	made map[Kind]func() (string, error)
}{made: map[Kind]func() (string, error){}}

// templateOf returns the data folder to copy for a kind, made at the first call
// in this test process: making one takes seconds, copying it a blink.
func templateOf(m maker, programs map[string]string) (string, error) {
	templates.Lock()
	once := templates.made[m.kind]
	if once == nil {
		once = sync.OnceValues(func() (string, error) {
			dir, err := makeFolder(m.kind)
			if err != nil {
				return "", err
			}
			if err := m.template(dir, programs); err != nil {
				return "", fmt.Errorf("making a data folder: %w", err)
			}
			return filepath.Join(dir, "data"), nil
		})
		templates.made[m.kind] = once
	}
	templates.Unlock()
	return once()
}

// run runs a tool of the server's to its end.
func run(dir string, args ...string) error {
	out, err := command(dir, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", filepath.Base(args[0]), err, out)
	}
	return nil
}

// Ports are taken from below the range from which the kernel gives ports to
// outgoing connections: one of those could otherwise sit on a server's port
// while the server is down. Each process starts at another place, so that test
// processes running side by side do not choose the same one, and never takes a
// port twice, so that no client of an ended server meets its successor.
const (
	firstPort = 10000
	portCount = 20000
)

var nextPort = struct {
	sync.Mutex
	n int
}{n: os.Getpid() * 61 % portCount}

func freePort() (int, error) {
	nextPort.Lock()
	defer nextPort.Unlock()
	var last error
	for range 1000 {
		port := firstPort + nextPort.n
		nextPort.n = (nextPort.n + 1) % portCount
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			last = err
			continue
		}
		return port, l.Close()
	}
	return 0, fmt.Errorf("found no free port: %w", last)
}
