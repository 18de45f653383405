// Command curfewbench measures curfew beside other libraries, within one run on the
// machine it runs on. See -h for its flags.
//
//	curfewbench -suite fanout,nested -case '^(1|4) '
//
// measures only the cases of these two suites whose names begin so.
package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/pprof"
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

// run returns the exit code: 2 for arguments that are wrong, 1 when a system failed, the
// report could not be written or, with -check, a bound was missed, else 0.
func run(args []string, stdout, stderr io.Writer, terminal bool) int {
	o, code := parse(args, stderr)
	if code >= 0 {
		return code
	}
	defer bench.StopServers()
	stop, err := profile(o.profile)
	if err != nil {
		fmt.Fprintln(stderr, "curfewbench:", err)
		return 1
	}
	missed, failed, err := measure(o, stdout, stderr, terminal)
	err = errors.Join(err, stop())
	switch {
	case err != nil:
		fmt.Fprintln(stderr, "curfewbench:", err)
		return 1
	case failed || o.check && missed > 0:
		return 1
	}
	return 0
}

// profile writes a CPU profile to the file until it is stopped; without a name it does
// nothing.
func profile(file string) (stop func() error, err error) {
	if file == "" {
		return func() error { return nil }, nil
	}
	f, err := os.Create(file)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() error { pprof.StopCPUProfile(); return f.Close() }, nil
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
	fmt.Fprint(text, "In brackets are the least and the greatest of the rounds.\n")
	if o.scale.Quick {
		fmt.Fprint(text, "This is a quick run: a look, not a measurement.\n")
	}
	fmt.Fprintln(text)
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
	fmt.Fprintf(text, "took %.1f s\n", time.Since(began).Seconds())
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
