package servers

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestServersDieWithTheTestProcess lets test processes die in ways that run no
// cleanup, each with a server that is frozen, which is the hardest to end.
func TestServersDieWithTheTestProcess(t *testing.T) {
	for _, kind := range []Kind{Redis, PostgreSQL} {
		for _, death := range []string{"panic", "exit", "kill"} {
			t.Run(string(kind)+"/"+death, func(t *testing.T) {
				if _, err := find(makers[kind].programs); err != nil {
					leaveOut(t, kind, err)
				}
				dir, list := dieWithServer(t, kind, death)
				deadline := time.Now().Add(room)
				for _, p := range list {
					for {
						now, ok := readProcess(p.pid)
						if !ok || now.started != p.started || now.ended() {
							break
						}
						if time.Now().After(deadline) {
							t.Fatalf("process %d still runs, %v after its test process died", p.pid, room)
						}
						<-time.After(10 * time.Millisecond)
					}
				}
				for {
					if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
						break
					}
					if time.Now().After(deadline) {
						t.Fatalf("folder %s is still there, %v after its test process died", dir, room)
					}
					<-time.After(10 * time.Millisecond)
				}
			})
		}
	}
}

// dieWithServer runs TestHelperDies in another process until it is dead, and
// returns the folder and the processes of the server that it had started.
func dieWithServer(t *testing.T, kind Kind, death string) (dir string, list []process) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^TestHelperDies$")
	cmd.Env = append(os.Environ(), "CURFEW_SERVERS_HELPER="+string(kind)+" "+death)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	for lines := bufio.NewScanner(io.TeeReader(out, &said)); lines.Scan(); {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		switch word {
		case "folder":
			dir = rest
		case "server":
			pid, err := strconv.Atoi(rest)
			if err != nil {
				t.Fatal(err)
			}
			list = tree(pid)
			in.Close() // we have seen it alive: it may die now
		}
	}
	if err := cmd.Wait(); err == nil {
		t.Errorf("the helper ended well")
	}
	if dir == "" || len(list) == 0 {
		t.Fatalf("the helper started no server; it said:\n%s", said.String())
	}
	return dir, list
}

func TestHelperDies(t *testing.T) {
	order := os.Getenv("CURFEW_SERVERS_HELPER")
	if order == "" {
		t.Skip("runs only as TestServersDieWithTheTestProcess's other process")
	}
	kind, death, _ := strings.Cut(order, " ")
	s := Start(t, Kind(kind))
	s.Freeze()
	fmt.Printf("folder %s\nserver %d\n", s.dir, s.cmd.Process.Pid)
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		t.Fatal(err)
	}
	switch death {
	case "panic":
		go panic("on a goroutine that no test owns")
	case "exit":
		os.Exit(3)
	case "kill":
		if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	select {}
}
