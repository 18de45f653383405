package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/curfew-go/curfew/bench"
)

// describe says what is run, and where.
func describe(quick bool) bench.About {
	a := bench.About{
		Machine: fmt.Sprintf("%s/%s, %d processors, GOMAXPROCS %d", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.GOMAXPROCS(0)),
		Go:      runtime.Version(), Commit: commit(), Date: time.Now().UTC().Format(time.RFC3339), Quick: quick, Load: load(),
	}
	if model := cpuModel(); model != "" {
		a.Machine = model + ", " + a.Machine
	}
	return a
}

// commit is of the sources that the program was built from. The go command writes it
// into programs that it builds and not into those that it runs, so git is asked next.
func commit() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		id, changed := "", ""
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				id = s.Value
			case s.Key == "vcs.modified" && s.Value == "true":
				changed = " with changes"
			}
		}
		if id != "" {
			return id + changed
		}
	}
	id, err := exec.Command("git", "rev-parse", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	text := strings.TrimSpace(string(id))
	if changes, err := exec.Command("git", "status", "--porcelain", "--untracked-files=no").Output(); err == nil && len(changes) > 0 {
		text += " with changes"
	}
	return text
}

// load is the load average of the last minute. It is known on Linux only.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	minute, _, _ := strings.Cut(string(text), " ")
	return minute
}

// cpuModel is known on Linux only.
func cpuModel() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
