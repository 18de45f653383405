// Export makes files of all orders of a shop, which takes longer than any request should: a POST is
// answered with 202 and where to ask. The service is a process of its own, and this program kills it
// (kill -9) while exports are in different phases, once right after a user has cancelled one, and
// starts it again each time. Each export goes on where it was, or ends as the user wished.
//
//	go run ./examples/export
//
// Where to look: worker.go has the phases and which of them may be stopped, jobs.go what must not be
// lost, phases.go the work, service.go what users ask.
package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	curfewsql "github.com/curfew-go/curfew/adapters/sql"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/examples/internal/database"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if text := os.Getenv(serviceEnv); text != "" {
		if err := beService(ctx, text); err != nil {
			fmt.Fprintln(os.Stderr, "export: service:", err)
			os.Exit(1)
		}
		return
	}
	switch err := run(ctx, os.Args[1:], os.Stdout); {
	case err == nil, errors.Is(err, flag.ErrHelp):
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "export: stopped")
		os.Exit(130)
	default:
		fmt.Fprintln(os.Stderr, "export:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("export", flag.ContinueOnError)
	dsn := flags.String("dsn", "", "URL of a PostgreSQL to work on, in a schema that is removed again; without it a file of SQLite is used")
	orders := flags.Int("orders", 3000, "how many the shop has, 1 to 1000000")
	pace := flags.Duration("pace", 20*time.Millisecond, "what each page of 100 orders takes on top, up to 1s")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case *orders < 1 || *orders > 1_000_000:
		return fmt.Errorf("-orders %d: must be from 1 to 1000000", *orders)
	case *pace < 0 || *pace > time.Second:
		return fmt.Errorf("-pace %v: must be from 0 to 1s", *pace)
	}
	return show(ctx, *dsn, *orders, *pace, out)
}

// show tells the story in four lives of the service.
func show(ctx context.Context, dsn string, orders int, pace time.Duration, out io.Writer) (err error) {
	o, remove, err := prepare(ctx, dsn, orders)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	o.Pace = pace
	c := newClient()
	life := func(about string, hold string) (*process, error) {
		o.Hold = hold
		p, err := o.start(ctx)
		if err != nil {
			return nil, err
		}
		c.url = p.url
		fmt.Fprintf(out, "process %d %s\n", p.cmd.Process.Pid, about)
		return p, nil
	}
	end := func(p *process, what string) {
		p.kill()
		left, _ := files{o.Dir}.list()
		fmt.Fprintf(out, "  %s: killed; %d temporary files are left\n", what, len(left))
	}

	p, err := life("takes two exports", "")
	if err != nil {
		return err
	}
	defer func() { p.kill() }() // of whichever is the last
	first, err := c.create(ctx)
	if err != nil {
		return err
	}
	second, err := c.create(ctx)
	if err != nil {
		return err
	}
	for _, id := range []string{first, second} {
		if _, err := c.until(ctx, id, func(s status) bool { return s.Rows > 0 || over(s) }); err != nil {
			return err
		}
	}
	code, at, err := c.ask(ctx, http.MethodDelete, "/exports/"+second)
	if err != nil {
		return err
	}
	end(p, fmt.Sprintf("the second is cancelled by a user (%d) in phase %s", code, at.Phase))

	if p, err = life("goes on", "pack: block"); err != nil {
		return err
	}
	if at, err = c.until(ctx, second, over); err != nil {
		return err
	}
	fmt.Fprintf(out, "  the second is %s\n", at.State)
	if _, err := p.line(); err != nil {
		return err
	}
	end(p, "the first is packed, block by block")

	if p, err = life("goes on", "publish: moved"); err != nil {
		return err
	}
	if _, err := p.line(); err != nil {
		return err
	}
	if code, _, err = c.ask(ctx, http.MethodDelete, "/exports/"+first); err != nil {
		return err
	}
	end(p, fmt.Sprintf("the first is published, which must finish, and a cancel is too late (%d)", code))

	if p, err = life("goes on", ""); err != nil {
		return err
	}
	if at, err = c.until(ctx, first, over); err != nil {
		return err
	}
	if at.State != done {
		return fmt.Errorf("the first is %s: %s", at.State, at.Why)
	}
	n, err := c.rows(ctx, at)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "  the first is %s: %d of %d orders, each once and in order\n", at.State, n, orders)
	if err := p.stop(); err != nil {
		return err
	}
	left, err := files{o.Dir}.list()
	fmt.Fprintf(out, "  stopped in order; %d temporary files are left\n", len(left))
	return err
}

// prepare makes a shop with orders. remove removes all of it.
func prepare(ctx context.Context, dsn string, orders int) (o order, remove func() error, err error) {
	dir, err := os.MkdirTemp("", "export-")
	if err != nil {
		return o, nil, err
	}
	o = order{
		Place: database.Place{DSN: dsn, Schema: "curfew_export_" + strings.ToLower(rand.Text()[:8]), File: filepath.Join(dir, "shop.db")},
		Dir:   dir,
		Every: 100 * time.Millisecond,
	}
	db, err := o.Place.Open(ctx)
	if err != nil {
		return o, nil, errors.Join(err, os.RemoveAll(dir))
	}
	remove = func() error {
		ctx, cancel := context.WithTimeout(context.Background(), setUpAtMost)
		defer cancel()
		return errors.Join(o.Place.Remove(ctx, db), db.Close(), os.RemoveAll(dir))
	}
	err = curfewsql.WithTx(ctx, db, budget.Within(time.Minute), func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `CREATE TABLE orders (id BIGINT PRIMARY KEY, customer TEXT NOT NULL, cents BIGINT NOT NULL)`); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO orders WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $1)
			SELECT i, 'customer ' || i % 97, 100 + i % 5000 FROM n`, orders)
		return err
	})
	if err != nil {
		return o, nil, errors.Join(fmt.Errorf("filling the shop: %w", err), remove())
	}
	return o, remove, nil
}
