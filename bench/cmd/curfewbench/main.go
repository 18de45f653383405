// Command curfewbench measures curfew beside other libraries, within one run on the
// machine it runs on. See -h for its flags.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/curfew-go/curfew/bench"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr, term.IsTerminal(int(os.Stderr.Fd()))))
}

// run returns the exit code: 2 for arguments that are wrong, 1 when the report could
// not be written or, with -check, a bound was missed, else 0.
func run(args []string, stdout, stderr io.Writer, terminal bool) int {
	flags := flag.NewFlagSet("curfewbench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	names := flags.String("suite", "", "comma-separated `suites` to run; all of them by default: "+strings.Join(known(), ", "))
	quick := flags.Bool("quick", false, "fewer and shorter rounds: a look, not a measurement")
	asJSON := flags.Bool("json", false, "write lines of JSON instead of tables")
	html := flags.String("html", "", "also write a page with plots to this `file`")
	check := flags.Bool("check", false, "exit with code 1 when a bound is missed")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(stderr, "curfewbench: unexpected argument %q\n", flags.Arg(0))
		return 2
	}
	suites, err := pick(*names)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 2
	}
	scale := bench.Scale{Quick: *quick}
	total := 0
	for _, s := range suites {
		total += len(s.Cases(scale))
	}
	var bar *progressbar.ProgressBar
	if terminal {
		bar = progressbar.NewOptions(total, progressbar.OptionSetWriter(stderr), progressbar.OptionClearOnFinish())
	}
	about := describe()
	if !*asJSON {
		fmt.Fprintf(stdout, "%s\n%s\ncommit %s\n\n", about.Machine, about.Go, about.Commit)
	}
	var results []bench.Result
	missed := false
	for _, s := range suites {
		if !*asJSON {
			fmt.Fprintf(stdout, "# %s: %s\n\n", s.Name, s.About)
		}
		for _, c := range s.Cases(scale) {
			if bar != nil {
				bar.Describe(s.Name + ": " + c.Name)
			}
			r := bench.Run(s.Name, c, scale)
			results = append(results, r)
			if bar != nil {
				_ = bar.Clear()
			}
			write := r.WriteTable
			if *asJSON {
				write = r.WriteJSON
			}
			if err := write(stdout); err != nil {
				fmt.Fprintln(stderr, "curfewbench:", err)
				return 1
			}
			if bar != nil {
				_ = bar.Add(1)
			}
			missed = missed || slices.ContainsFunc(r.Findings(), func(f bench.Finding) bool { return !f.Holds })
		}
	}
	if *html != "" {
		if err := writeHTML(*html, about, results); err != nil {
			fmt.Fprintln(stderr, "curfewbench:", err)
			return 1
		}
	}
	if *check && missed {
		return 1
	}
	return 0
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

func describe() bench.About {
	a := bench.About{
		Machine: fmt.Sprintf("%s/%s, %d processors, GOMAXPROCS %d", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.GOMAXPROCS(0)),
		Go:      runtime.Version(), Commit: "unknown", Date: time.Now().UTC().Format(time.RFC3339),
	}
	if model := cpuModel(); model != "" {
		a.Machine = model + ", " + a.Machine
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				a.Commit = s.Value
			case s.Key == "vcs.modified" && s.Value == "true":
				a.Commit += " with changes"
			}
		}
	}
	return a
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
