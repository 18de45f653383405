package servers

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// The guard is this test binary a second time, doing nothing but reading a
// pipe whose other end the test process holds. The pipe ends when the test
// process does, however it does: at the end of its tests, by a panic on any
// goroutine, by a timeout, by SIGKILL. The guard then kills what servers are
// left and removes their folders.
//
// The kernel's own way, a signal at the parent's death, is not used: it comes
// at the death of the thread that started the server, it reaches one process
// of PostgreSQL's many, and it stays pending while a server is frozen.
const guardEnv = "CURFEW_SERVERS_GUARD"

func init() {
	if os.Getenv(guardEnv) == "" {
		return
	}
	guard(os.Stdin)
	os.Exit(0)
}

var guardPipe io.Writer // set by guardProcess

// guardProcess starts the guard at its first call in this process.
var guardProcess = sync.OnceValue(func() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	// Neither output nor arguments are shared with the test process: go test
	// waits for its output to be closed.
	cmd := exec.Command(self)
	cmd.Dir = os.TempDir()
	cmd.Env = append(os.Environ(), guardEnv+"=1")
	aside(cmd)
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the guard: %w", err)
	}
	guardPipe = pipe
	return nil
})

func guardWatch(pid int) {
	if p, ok := readProcess(pid); ok {
		tellGuard("watch %d %s", pid, p.started)
	}
}

func guardForget(pid int)    { tellGuard("forget %d", pid) }
func guardFolder(dir string) { tellGuard("folder %s", dir) }

// tellGuard writes one line, short enough to go into the pipe in one piece.
// Without a guard the tests are as right as with it, so an error is let go.
func tellGuard(format string, args ...any) {
	_, _ = fmt.Fprintf(guardPipe, format+"\n", args...)
}

// guard follows what is told until the end of orders, then clears up.
func guard(orders io.Reader) {
	watched := map[int]string{} // pid to the time it was started
	var folders []string
	for lines := bufio.NewScanner(orders); lines.Scan(); {
		verb, rest, _ := strings.Cut(lines.Text(), " ")
		number, started, _ := strings.Cut(rest, " ")
		pid, _ := strconv.Atoi(number) // 0, which is never watched, when rest is a folder
		switch verb {
		case "watch":
			watched[pid] = started
		case "forget":
			delete(watched, pid)
		case "folder":
			folders = append(folders, rest)
		}
	}
	for pid, started := range watched {
		if p, ok := readProcess(pid); ok && p.started == started {
			_ = killTree(pid) // there is nobody left to tell
		}
	}
	for _, dir := range folders {
		removeSharedMemory(filepath.Join(dir, "data"))
		_ = os.RemoveAll(dir)
	}
}
