// Checkout replays an incident over real HTTP, twice: a warehouse slows down from 40 ms to 2.5 s under
// five services whose timeouts and retries were chosen one by one, and then under the same five
// services on one curfew budget.
//
//	go run ./examples/checkout
//
// It prints the incident's table, measured, and writes a page with plots. The warehouse's stock lies in
// a file of SQLite, or with -dsn in a PostgreSQL, opened by curfewsql. Where to look: constants.go has
// every number, before.go and after.go the services, figures.go what is measured and how.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch err := run(ctx, os.Args[1:]); {
	case err == nil:
	case errors.Is(err, flag.ErrHelp):
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "checkout: stopped")
		os.Exit(130)
	default:
		fmt.Fprintln(os.Stderr, "checkout:", err)
		os.Exit(1)
	}
}

// errBounds is the error of -check when a bound was not met; the lines that name them are printed.
var errBounds = errors.New("not all bounds are met")

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("checkout", flag.ContinueOnError)
	var (
		scale  = flags.Float64("scale", 10, "how many times as fast as the incident, 1 to 20")
		seed   = flags.Uint64("seed", 1, "draws the arrivals and the warehouse's service times")
		asJSON = flags.Bool("json", false, "print the figures as JSON")
		check  = flags.Bool("check", false, "exit 1, naming each bound that curfew does not meet")
		pooled = flags.Bool("fleet", false, "make the clients of mode curfew members of one retry budget's pool, which lies in memory")
		dsn    = flags.String("dsn", "", "URL of a PostgreSQL to keep the stock in, in a schema that is removed again; without it a file of SQLite has it")
		html   = flags.String("html", filepath.Join(os.TempDir(), "curfew-checkout.html"), "where to write the page with the plots")
	)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if !(*scale >= 1 && *scale <= 20) {
		return fmt.Errorf("-scale %g: must be from 1 to 20, beyond which the machine's own timers blur the figures", *scale)
	}

	// Both modes run in this process, as do all their servers: collect rarely, so that pauses of the
	// collector do not pass for those of a service. Collecting only between the modes was tried and was
	// no better.
	debug.SetGCPercent(400)

	p := plan{pace: pace(*scale), seed: *seed, dsn: *dsn, healthy: healthyPhase, degraded: degradedPhase}
	show := newProgress(os.Stderr)
	before, err := p.run(ctx, mode{"before", startBefore}, show)
	if err != nil {
		return err
	}
	start := startAfter
	if *pooled {
		start = startInFleet
	}
	curfew, err := p.run(ctx, mode{"curfew", start}, show)
	if err != nil {
		return err
	}

	r := newReport(p, measure(before), measure(curfew), *html)
	if err := writePage(*html, r, before, curfew); err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	write := r.writeText
	if *asJSON {
		write = r.writeJSON
	}
	if err := write(os.Stdout); err != nil {
		return err
	}
	if err := r.complain(os.Stderr); err != nil && *check {
		return err
	}
	return nil
}
