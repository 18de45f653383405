package servers

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// debianPlaces are where Debian puts server programs that it keeps off a
// user's PATH.
var debianPlaces = []string{"/usr/sbin", "/usr/lib/postgresql/*/bin"}

// errMissing is what leaveOut expects: the programs are not installed, or
// servers cannot be started on this system at all.
var errMissing = errors.New("not installed")

// find returns where the programs are, the newest version first where there
// are several.
func find(programs []string) (map[string]string, error) {
	if !supported {
		return nil, fmt.Errorf("%w: servers are started on Linux only, this is %s", errMissing, runtime.GOOS)
	}
	found := map[string]string{}
	for _, name := range programs {
		file, err := exec.LookPath(name)
		if err != nil {
			file = findInDebian(name)
		}
		if file == "" {
			return nil, fmt.Errorf("%w: no %s on PATH or in %s", errMissing, name, strings.Join(debianPlaces, ", "))
		}
		found[name] = file
	}
	return found, nil
}

func findInDebian(name string) string {
	for _, place := range debianPlaces {
		files, err := filepath.Glob(filepath.Join(place, name))
		if err != nil || len(files) == 0 {
			continue
		}
		slices.SortFunc(files, func(a, b string) int {
			if len(a) != len(b) {
				return len(b) - len(a) // 15 is newer than 9
			}
			return strings.Compare(b, a)
		})
		return files[0]
	}
	return ""
}

// leaveOut skips the test, or fails it when servers are required. It notes the
// skip in the file that CURFEW_LEFT_OUT names, from which make test makes its
// closing line.
func leaveOut(tb testing.TB, kind Kind, why error) {
	tb.Helper()
	switch mode := os.Getenv("CURFEW_SERVERS"); mode {
	case "", "auto", "skip":
	case "required":
		tb.Fatalf("servers: %s is required (CURFEW_SERVERS=required), but %v", kind, why)
		return
	default:
		tb.Fatalf("servers: CURFEW_SERVERS=%s is not one of auto, required, skip", mode)
		return
	}
	if name := os.Getenv("CURFEW_LEFT_OUT"); name != "" {
		if err := note(name, fmt.Sprintf("%s\t%s\n", kind, tb.Name())); err != nil {
			tb.Errorf("servers: %v", err)
		}
	}
	tb.Skipf("servers: left out, %s is %v (make servers installs it on Debian)", kind, why)
}

// note appends a line in one write, so that test processes that run side by
// side do not mix theirs.
func note(name, line string) error {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line)
	return errors.Join(err, f.Close())
}

// password is made up anew in each test process, so no other user of the
// machine can connect. It is the same for all servers of the process because
// they share templates.
func password() string { return passwordOfProcess }

var passwordOfProcess = rand.Text()
