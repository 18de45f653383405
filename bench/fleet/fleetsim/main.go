// Command fleetsim shows what the retries of many processes add to the load of one
// failing target, under retry budgets of several kinds. See -h for its flags.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/curfew-go/curfew/bench/fleet"
)

func main() { run(os.Args[1:], os.Stdout, os.Stderr) }

// run ends the process, with code 2 when arguments are wrong.
func run(args []string, stdout, stderr io.Writer) {
	c, kinds, code := parse(args, stderr)
	if code >= 0 {
		os.Exit(code)
	}
	fleet.Main(func(t *testing.T) {
		if err := table(t, stdout, c, kinds); err != nil {
			t.Fatal(err)
		}
	})
}

// parse returns the exit code of arguments that are not to be run, or -1.
func parse(args []string, stderr io.Writer) (c fleet.Config, all []string, code int) {
	c = fleet.Default()
	flags := flag.NewFlagSet("fleetsim", flag.ContinueOnError)
	flags.SetOutput(stderr)
	kinds := flags.String("kinds", strings.Join(fleet.Kinds, ","), "comma-separated `kinds` of budgets")
	flags.IntVar(&c.Members, "members", c.Members, "processes")
	flags.Float64Var(&c.Rate, "rate", c.Rate, "calls a second of all together")
	flags.Float64Var(&c.Failing, "failing", c.Failing, "share of the attempts that fail")
	flags.IntVar(&c.Retries, "retries", c.Retries, "retries of one call, at most")
	flags.DurationVar(&c.Length, "length", c.Length, "simulated time")
	flags.Uint64Var(&c.Seed, "seed", c.Seed, "of the load")
	flags.DurationVar(&c.Store.RTT, "rtt", c.Store.RTT, "of a call of curfew's pool")
	flags.Float64Var(&c.Store.Lost, "lost", 0, "share of the pool's answers that never come")
	flags.DurationVar(&c.Store.Down, "down", 0, "when the pool stops to answer")
	flags.DurationVar(&c.Store.Up, "up", 0, "when it answers again")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return c, nil, 0
		}
		return c, nil, 2
	}
	all = strings.Split(*kinds, ",")
	for _, kind := range all {
		if !slices.Contains(fleet.Kinds, kind) {
			fmt.Fprintf(stderr, "fleetsim: unknown kind %q; there are %s\n", kind, strings.Join(fleet.Kinds, ", "))
			return c, nil, 2
		}
	}
	if flags.NArg() > 0 || c.Members < 1 || c.Rate <= 0 || c.Failing < 0 || c.Failing > 1 || c.Retries < 0 || c.Length < time.Second {
		fmt.Fprintln(stderr, "fleetsim: want at least one member, calls, a share from 0 to 1, no negative number, a second or more, and nothing else")
		return c, nil, 2
	}
	return c, all, -1
}

// table runs c for each of the kinds.
func table(t *testing.T, stdout io.Writer, c fleet.Config, kinds []string) error {
	fmt.Fprintf(stdout, "%d members, %g calls/s together, %g%% failing, up to %d retries, %v\n\n", c.Members, c.Rate, 100*c.Failing, c.Retries, c.Length)
	out := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "kind\tload\tsuccess\tretries/s\tpool calls/s\tsimulated in\t")
	for _, c.Kind = range kinds {
		began := time.Now()
		r := fleet.Run(t, c)
		s := c.Length.Seconds()
		fmt.Fprintf(out, "%s\t%.3f\t%.3f\t%.1f\t%.0f\t%v\t\n", c.Kind, r.Load(), r.Success(),
			float64(r.Retries())/s, float64(r.StoreCalls)/s, time.Since(began).Round(time.Millisecond))
	}
	return out.Flush()
}
