package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/curfew-go/curfew/bench"
)

// options are what the flags say.
type options struct {
	suites  []bench.Suite // with the cases that are to be run, each of one at least
	scale   bench.Scale
	json    bool
	save    string
	html    string
	profile string
	check   bool
}

// parse returns the exit code of arguments that are not to be run, or -1.
func parse(args []string, stderr io.Writer) (o options, code int) {
	flags := flag.NewFlagSet("curfewbench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	names := flags.String("suite", "", "comma-separated `suites` to run; all of them by default: "+strings.Join(known(), ", "))
	pattern := flags.String("case", "", "run only the cases of these suites whose name this `regexp` matches, wherever in it as in go test -run")
	flags.BoolVar(&o.scale.Quick, "quick", false, "fewer and shorter rounds: a look, not a measurement")
	flags.BoolVar(&o.json, "json", false, "write lines of JSON instead of tables")
	flags.StringVar(&o.save, "save", "", "also write the lines of JSON to this `file`; benchtables takes it only where all cases ran")
	flags.StringVar(&o.html, "html", "", "also write a page with plots to this `file`")
	flags.StringVar(&o.profile, "cpuprofile", "", "also write a CPU profile of this process, as the whole run has it, to this `file`; its cost is in all figures")
	flags.BoolVar(&o.check, "check", false, "exit with code 1 when a bound of a case that ran is missed")
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
	if o.suites, err = pick(*names); err == nil {
		o.suites, err = narrow(o.suites, o.scale, *pattern)
	}
	if err != nil {
		fmt.Fprintln(stderr, "curfewbench:", err)
		return o, 2
	}
	return o, -1
}

func known() []string {
	var names []string
	for _, s := range bench.Suites() {
		names = append(names, s.Name)
	}
	return names
}

// pick returns the suites of a list of names, all without one.
func pick(names string) ([]bench.Suite, error) {
	if names == "" {
		return bench.Suites(), nil
	}
	var picked []bench.Suite
	for name := range strings.SplitSeq(names, ",") {
		i := slices.Index(known(), strings.TrimSpace(name))
		if i < 0 {
			return nil, fmt.Errorf("no suite %q; there are %s", name, strings.Join(known(), ", "))
		}
		picked = append(picked, bench.Suites()[i])
	}
	return picked, nil
}

// narrow leaves the suites the cases whose names the pattern matches, and leaves out
// suites without any. No case at all is an error that lists what there is at this scale:
// a quick run has fewer.
func narrow(suites []bench.Suite, scale bench.Scale, pattern string) ([]bench.Suite, error) {
	matcher, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("-case: %w", err)
	}
	var narrowed []bench.Suite
	var there strings.Builder
	for _, s := range suites {
		all := s.Cases
		s.Cases = func(scale bench.Scale) []bench.Case {
			return slices.DeleteFunc(all(scale), func(c bench.Case) bool { return !matcher.MatchString(c.Name) })
		}
		if len(s.Cases(scale)) > 0 {
			narrowed = append(narrowed, s)
		}
		for _, c := range all(scale) {
			fmt.Fprintf(&there, "\n\t%s: %s", s.Name, c.Name)
		}
	}
	if narrowed == nil {
		return nil, fmt.Errorf("no case matches %q; there are%s", pattern, there.String())
	}
	return narrowed, nil
}
