// Fleet starts many processes that call one failing service, three times side by side:
// with three retries for each call, with a retry budget in each process, and with one
// retry budget for all of them, which lies in Redis. It shows what each adds to the
// service's load, second by second, and writes a page with a plot at the end.
//
//	go run ./examples/fleet
//
// It needs redis-server on PATH. Where to look: member.go is what a process does,
// service.go what is called and counted.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if order := os.Getenv(memberEnv); order != "" {
		if err := beMember(ctx, order); err != nil {
			fmt.Fprintln(os.Stderr, "fleet: member:", err)
			os.Exit(1)
		}
		return
	}
	switch err := run(ctx, os.Args[1:], os.Stdout); {
	case err == nil, errors.Is(err, flag.ErrHelp):
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "fleet: stopped")
		os.Exit(130)
	default:
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
}

// settings are what the user chose.
type settings struct {
	processes int
	rate      float64 // calls a second of all processes together, for each kind
	failing   float64 // share of the calls that the service fails
	length    time.Duration
	page      string
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("fleet", flag.ContinueOnError)
	var s settings
	flags.IntVar(&s.processes, "processes", 20, "how many to start, 1 to 200")
	flags.Float64Var(&s.rate, "rate", 100, "calls a second of all together, for each kind")
	flags.Float64Var(&s.failing, "failing", 0.5, "share of the calls that the service fails")
	flags.DurationVar(&s.length, "length", 20*time.Second, "how long, 2s to 10m")
	flags.StringVar(&s.page, "html", filepath.Join(os.TempDir(), "curfew-fleet.html"), "where to write the page with the plot")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case s.processes < 1 || s.processes > 200:
		return fmt.Errorf("-processes %d: must be from 1 to 200", s.processes)
	case !(s.rate > 0 && s.rate <= 2000):
		return fmt.Errorf("-rate %g: must be above 0 and at most 2000", s.rate)
	case !(s.failing >= 0 && s.failing <= 1):
		return fmt.Errorf("-failing %g: must be from 0 to 1", s.failing)
	case s.length < 2*time.Second || s.length > 10*time.Minute:
		return fmt.Errorf("-length %v: must be from 2s to 10m", s.length)
	}
	return s.run(ctx, out)
}

// run starts all there is, watches it, and ends it.
func (s settings) run(ctx context.Context, out io.Writer) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	store, err := startRedis(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.stop()) }()
	service, err := startService(s.failing)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, service.close()) }()
	crowd, err := startMembers(ctx, s.processes, order{
		Service: service.url, Redis: store.addr, Rate: s.rate / float64(s.processes),
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d processes, %g calls/s together, %g%% failing. Retries per second:\n\n", s.processes, s.rate, 100*s.failing)
	past, err := service.watch(ctx, s.length, out)
	err = errors.Join(err, crowd.stop())
	if err != nil {
		return err
	}
	past.summary(out)
	if err := past.writePage(s); err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	fmt.Fprintln(out, "\nplot:", s.page)
	return nil
}
