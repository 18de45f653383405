package servers

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const supported = true

// signalLimit bounds how long the kernel may take to stop or end processes.
const signalLimit = 20 * time.Second

// unprivileged returns who servers run as when we are root, which PostgreSQL
// and pgbouncer refuse to be, and nil when we are somebody else already.
var unprivileged = sync.OnceValues(func() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(nobody.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(nobody.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
})

// giveAway makes a file or folder belong to who servers run as.
func giveAway(name string) error {
	who, err := unprivileged()
	if err != nil || who == nil {
		return err
	}
	return os.Chown(name, int(who.Uid), int(who.Gid))
}

// command prepares a program that runs as who servers run as, in a process
// group of its own, so that a Ctrl-C reaches it only through us.
func command(dir string, args ...string) *exec.Cmd {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = dir
	path := append([]string{os.Getenv("PATH")}, debianPlaces...)
	cmd.Env = []string{"PATH=" + strings.Join(path, ":"), "HOME=" + dir, "TMPDIR=" + dir, "LC_ALL=C", "TZ=UTC"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if who, err := unprivileged(); err != nil {
		cmd.Err = err
	} else {
		cmd.SysProcAttr.Credential = who
	}
	return cmd
}

// aside makes cmd run in a session of its own, out of reach of the terminal.
func aside(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
}

// A process is what /proc tells of one.
type process struct {
	pid, parent int
	state       string // T is stopped, Z is ended and not waited for yet
	started     string // in ticks since boot; together with pid it names the process for good
}

func readProcess(pid int) (process, bool) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return process{}, false
	}
	// pid (name) state parent ..., and the name may hold spaces and brackets.
	rest := string(text[strings.LastIndexByte(string(text), ')')+1:])
	fields := strings.Fields(rest)
	if len(fields) < 20 {
		return process{}, false
	}
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		return process{}, false
	}
	return process{pid: pid, parent: parent, state: fields[0], started: fields[19]}, true
}

func (p process) ended() bool   { return p.state == "Z" || p.state == "X" }
func (p process) stopped() bool { return p.state == "T" || p.state == "t" || p.ended() }

// tree returns the process and all that descend from it, parents first.
// Process groups would not do: each of PostgreSQL's sessions has its own.
func tree(root int) []process {
	first, ok := readProcess(root)
	if !ok {
		return nil
	}
	names, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		panic(err) // a bad pattern
	}
	children := map[int][]process{}
	for _, name := range names {
		pid, err := strconv.Atoi(filepath.Base(name))
		if err != nil {
			continue
		}
		if p, ok := readProcess(pid); ok {
			children[p.parent] = append(children[p.parent], p)
		}
	}
	found := []process{first}
	for i := 0; i < len(found); i++ {
		found = append(found, children[found[i].pid]...)
	}
	return found
}

// freezeTree stops the process and all its descendants, and returns once all
// of them stand still, so none can start another behind our back.
func freezeTree(root int) error {
	return until(func() (waiting string) {
		for _, p := range tree(root) {
			if p.stopped() {
				continue
			}
			waiting = fmt.Sprintf("process %d is in state %s, not stopped", p.pid, p.state)
			if err := send(p, syscall.SIGSTOP); err != nil {
				return err.Error()
			}
		}
		return waiting
	})
}

func thawTree(root int) error {
	list := tree(root)
	slices.Reverse(list) // the parent last, when its children can answer it
	for _, p := range list {
		if err := send(p, syscall.SIGCONT); err != nil {
			return err
		}
	}
	return nil
}

// killTree ends the process and all its descendants, and returns once none of
// them runs any more.
func killTree(root int) error {
	if err := freezeTree(root); err != nil {
		return err
	}
	list := tree(root)
	for _, p := range list {
		if err := send(p, syscall.SIGKILL); err != nil {
			return err
		}
	}
	return until(func() (waiting string) {
		for _, p := range list {
			if now, ok := readProcess(p.pid); ok && now.started == p.started && !now.ended() {
				return fmt.Sprintf("process %d is still there", p.pid)
			}
		}
		return ""
	})
}

// send signals a process; one that has ended needs no signal.
func send(p process, sig syscall.Signal) error {
	if err := syscall.Kill(p.pid, sig); err != nil && err != syscall.ESRCH {
		return fmt.Errorf("signal %v to process %d: %w", sig, p.pid, err)
	}
	return nil
}

// until asks again, every few milliseconds, until nothing is waited for.
func until(ask func() (waiting string)) error {
	limit := time.NewTimer(signalLimit)
	defer limit.Stop()
	pause := time.NewTicker(2 * time.Millisecond)
	defer pause.Stop()
	for {
		waiting := ask()
		if waiting == "" {
			return nil
		}
		select {
		case <-pause.C:
		case <-limit.C:
			return fmt.Errorf("after %v %s", signalLimit, waiting)
		}
	}
}

// sharedMemory returns the number of the small System V segment that marks a
// PostgreSQL's data folder as in use, or "": the second word in line 7 of its
// postmaster.pid.
func sharedMemory(dataDir string) string {
	text, err := os.ReadFile(filepath.Join(dataDir, "postmaster.pid"))
	if err != nil {
		return ""
	}
	lines := strings.Split(string(text), "\n")
	if len(lines) < 7 {
		return ""
	}
	words := strings.Fields(lines[6])
	if len(words) != 2 {
		return ""
	}
	return words[1]
}

// removeSharedMemory removes that segment: a killed PostgreSQL leaves it in the
// kernel, whose number of segments is limited.
func removeSharedMemory(dataDir string) {
	if id := sharedMemory(dataDir); id != "" {
		// It may be gone already, and without ipcrm it stays: no test depends on it.
		_ = exec.Command("ipcrm", "-m", id).Run()
	}
}
