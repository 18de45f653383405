// Command curfewbench measures curfew beside other libraries, within one run on the
// machine it runs on. See -h for its flags.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/curfew-go/curfew/bench"
)

func main() {
	bench.Simulate()
	slog.SetDefault(slog.New(slog.DiscardHandler)) // where scopes report stragglers, of which a cancel of many has some
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr, term.IsTerminal(int(os.Stderr.Fd()))))
}

// options are what the flags say.
type options struct {
	suites []bench.Suite
	scale  bench.Scale
	json   bool
	save   string
	html   string
	check  bool
}

// parse returns the exit code of arguments that are not to be run, or -1.
func parse(args []string, stderr io.Writer) (o options, code int) {
	flags := flag.NewFlagSet("curfewbench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	names := flags.String("suite", "", "comma-separated `suites` to run; all of them by default: "+strings.Join(known(), ", "))
	flags.BoolVar(&o.scale.Quick, "quick", false, "fewer and shorter rounds: a look, not a measurement")
	flags.BoolVar(&o.json, "json", false, "write lines of JSON instead of tables")
	flags.StringVar(&o.save, "save", "", "also write the lines of JSON to this `file`")
	flags.StringVar(&o.html, "html", "", "also write a page with plots to this `file`")
	flags.BoolVar(&o.check, "check", false, "exit with code 1 when a bound is missed")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return o, 0
		}
		return o, 2
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(stderr, "curfewbench: unexpected argument %q\n", flags.Arg(0))
		return o, 2
	}
	var err error
	if o.suites, err = pick(*names); err != nil {
		fmt.Fprintln(stderr, err)
		return o, 2
	}
	return o, -1
}

// run returns the exit code: 2 for arguments that are wrong, 1 when a system failed, the
// report could not be written or, with -check, a bound was missed, else 0.
func run(args []string, stdout, stderr io.Writer, terminal bool) int {
	o, code := parse(args, stderr)
	if code >= 0 {
		return code
	}
	defer bench.StopServers()
	missed, failed, err := measure(o, stdout, stderr, terminal)
	switch {
	case err != nil:
		fmt.Fprintln(stderr, "curfewbench:", err)
		return 1
	case failed || o.check && missed > 0:
		return 1
	}
	return 0
}

// measure runs the suites. It returns how many bounds were missed, and whether a
// system failed.
func measure(o options, stdout, stderr io.Writer, terminal bool) (missed int, failed bool, err error) {
	about := describe(o.scale.Quick)
	lines, text := io.Discard, stdout
	if o.json {
		lines, text = stdout, io.Discard
	}
	if o.save != "" {
		// As the run goes, so that what was measured is there also if it ends early.
		f, failure := os.Create(o.save)
		if failure != nil {
			return 0, false, failure
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		lines = io.MultiWriter(lines, f)
	}
	if err := about.WriteJSON(lines); err != nil {
		return 0, false, err
	}
	fmt.Fprintf(text, "%s\n%s\ncommit %s\nload average %s\n\n", about.Machine, about.Go, about.Commit, about.Load)
	show := newProgress(o, stderr, terminal)
	var results []bench.Result
	began := time.Now()
	for _, s := range o.suites {
		fmt.Fprintf(text, "# %s: %s\n\n", s.Name, s.About)
		for _, c := range s.Cases(o.scale) {
			show.begin(s.Name + ": " + c.Name)
			stop := watch(stderr, s.Name+": "+c.Name)
			r := bench.Run(s.Name, c, o.scale)
			stop()
			results = append(results, r)
			show.pause()
			if err := errors.Join(r.WriteTable(text), r.WriteJSON(lines)); err != nil {
				return 0, false, err
			}
			show.end()
			failed = failed || r.Failed()
		}
	}
	if missed, _, err = bench.WriteBounds(text, results); err != nil {
		return missed, failed, err
	}
	fmt.Fprintf(text, "took %.0f s\n", time.Since(began).Seconds())
	if o.html != "" {
		err = writeHTML(o.html, about, results)
	}
	return missed, failed, err
}

// hangs is how long no case takes, on any machine.
const hangs = 5 * time.Minute

// watch ends the program when stop is not called in time, and says where everything
// was. What was measured before has been written.
func watch(stderr io.Writer, what string) (stop func()) {
	timer := time.AfterFunc(hangs, func() {
		fmt.Fprintf(stderr, "curfewbench: %s has not ended after %v\n", what, hangs)
		_ = pprof.Lookup("goroutine").WriteTo(stderr, 1)
		os.Exit(1)
	})
	return func() { timer.Stop() }
}

// progress is a bar on a terminal, and nothing elsewhere.
type progress struct{ bar *progressbar.ProgressBar }

func newProgress(o options, stderr io.Writer, terminal bool) progress {
	if !terminal {
		return progress{}
	}
	total := 0
	for _, s := range o.suites {
		total += len(s.Cases(o.scale))
	}
	return progress{progressbar.NewOptions(total, progressbar.OptionSetWriter(stderr), progressbar.OptionClearOnFinish(),
		progressbar.OptionShowCount(), progressbar.OptionSetElapsedTime(true), progressbar.OptionSetPredictTime(false))}
}

func (p progress) begin(what string) {
	if p.bar != nil {
		p.bar.Describe(what)
	}
}

// pause takes the bar away so that a table can be written.
func (p progress) pause() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}

func (p progress) end() {
	if p.bar != nil {
		_ = p.bar.Add(1)
	}
}

func known() []string {
	var names []string
	for _, s := range bench.Suites() {
		names = append(names, s.Name)
	}
	return names
}

func pick(names string) ([]bench.Suite, error) {
	if names == "" {
		return bench.Suites(), nil
	}
	var picked []bench.Suite
	for name := range strings.SplitSeq(names, ",") {
		i := slices.Index(known(), strings.TrimSpace(name))
		if i < 0 {
			return nil, fmt.Errorf("curfewbench: no suite %q; there are %s", name, strings.Join(known(), ", "))
		}
		picked = append(picked, bench.Suites()[i])
	}
	return picked, nil
}

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

func writeHTML(path string, about bench.About, results []bench.Result) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := bench.WriteHTML(f, about, results); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}
