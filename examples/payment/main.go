// Payment takes payments over HTTP while commits get lost: the connection to the database ends before,
// in or behind a COMMIT, or the COMMIT comes too late, so that nobody knows whether it was done.
// Clients ask again until they are told: first ones that make a new idempotency key for each request,
// then ones that keep theirs.
//
//	go run ./examples/payment
//
// It prints what was booked how often, and what the service could find out. Where to look: ledger.go
// has the transaction, reconcile.go what happens to a COMMIT without an answer, service.go what
// clients are told, trouble.go how commits get lost.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/examples/internal/database"
	"github.com/curfew-go/curfew/scope"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch err := run(ctx, os.Args[1:], os.Stdout); {
	case err == nil, errors.Is(err, flag.ErrHelp):
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "payment: stopped")
		os.Exit(130)
	default:
		fmt.Fprintln(os.Stderr, "payment:", err)
		os.Exit(1)
	}
}

// settings are what the user chose.
type settings struct {
	dsn      string
	payments int
	clients  int
	lose     float64
	limit    time.Duration
	delay    time.Duration // the most that a slow commit takes
	seed     uint64
}

// connections are few: where each request may open one of its own and has little time, those that were
// lost are opened again all at once, none is ready in time, and so it goes on for ever.
const connections = 4

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("payment", flag.ContinueOnError)
	var s settings
	flags.StringVar(&s.dsn, "dsn", "", "URL of a PostgreSQL to book in, in a schema that is removed again; without it a file of SQLite is used")
	flags.IntVar(&s.payments, "payments", 300, "how many to make, each way, 1 to 100000")
	flags.IntVar(&s.clients, "clients", 8, "how many pay at once, 1 to 64")
	flags.Float64Var(&s.lose, "lose", 0.25, "share of the commits that get lost or come late, 0 to 0.9")
	flags.DurationVar(&s.limit, "limit", 150*time.Millisecond, "for each request, 20ms to 10s")
	flags.Uint64Var(&s.seed, "seed", 1, "draws which commits get lost")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case s.payments < 1 || s.payments > 100_000:
		return fmt.Errorf("-payments %d: must be from 1 to 100000", s.payments)
	case s.clients < 1 || s.clients > 64:
		return fmt.Errorf("-clients %d: must be from 1 to 64", s.clients)
	case !(s.lose >= 0 && s.lose <= 0.9):
		return fmt.Errorf("-lose %g: must be from 0 to 0.9", s.lose)
	case s.limit < 20*time.Millisecond || s.limit > 10*time.Second:
		return fmt.Errorf("-limit %v: must be from 20ms to 10s", s.limit)
	}
	s.delay = s.limit * 3 / 2
	return s.run(ctx, out)
}

// ways are how clients name their requests.
var ways = []struct {
	name string
	key  func() func() string // the keys of one payment
}{
	{"a new key for each request", func() func() string { return rand.Text }},
	{"one key for each payment", func() func() string { key := rand.Text(); return func() string { return key } }},
}

func (s settings) run(ctx context.Context, out io.Writer) error {
	fmt.Fprintf(out, "%d payments each way by %d clients. Of the commits %g%% get lost or come late; a request has %v.\n\n",
		s.payments, s.clients, 100*s.lose, s.limit)
	fmt.Fprintf(out, "%-28s%10s%8s%16s%7s\n", "", "requests", "booked", "more than once", "never")
	var last *figures
	for _, way := range ways {
		f, err := s.pay(ctx, way.key)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%-28s%10d%8d%16d%7d\n", way.name, f.posts, s.payments-f.never, f.twice, f.never)
		last = f
	}
	fmt.Fprintf(out, "\nWith one key, %d requests found that an earlier one was booked, whose answer was lost.\n", last.replayed)
	fmt.Fprintf(out, "The service got no answer to %d commits. It found out by itself about %d: %d booked, %d not.\n",
		last.unknown, last.booked+last.not, last.booked, last.not)
	return nil
}

// figures are what one way of paying came to.
type figures struct {
	posts, replayed, unknown int64
	twice, never             int // payments
	booked, not              int // what commits without an answer turned out to be
}

// payAtMost bounds one payment with all its requests: much more than it ever takes.
const payAtMost = 30 * time.Second

// pay makes all payments one way, against a service and a database of their own.
func (s settings) pay(ctx context.Context, keys func() func() string) (f *figures, err error) {
	dir, err := os.MkdirTemp("", "payment-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	t := newTrouble(s.delay, s.seed)
	place := database.Place{
		DSN: s.dsn, Schema: "curfew_payment_" + strings.ToLower(rand.Text()[:8]), File: filepath.Join(dir, "payments.db"),
		Dial: t.dial, Through: t.through,
	}
	db, err := place.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() {
		t.set(0)
		bye, cancel := context.WithTimeout(context.Background(), setUpAtMost)
		defer cancel()
		err = errors.Join(err, place.Remove(bye, db), db.Close())
	}()
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	l := ledger{db}
	if err := l.setUp(ctx); err != nil {
		return nil, err
	}
	t.set(s.lose) // now that the tables are there

	service := &service{ledger: l, reconciler: newReconciler(db), useful: s.limit / 20}
	url, stop, err := service.start(s.limit)
	if err != nil {
		return nil, err
	}
	c := newClient(url, s.limit)
	payments := make([]payment, s.payments)
	for i := range payments {
		payments[i] = payment{Account: fmt.Sprintf("account-%d", i), Cents: int64(100 + i)}
	}
	all := budget.Within(payAtMost * time.Duration(1+s.payments/s.clients))
	err = scope.Run(ctx, "clients", all, func(ctx context.Context, _ *scope.Scope) error {
		return scope.Each(ctx, "pay", s.clients, payments, func(ctx context.Context, p payment) error {
			return scope.Run(ctx, "payment", budget.Within(payAtMost), func(ctx context.Context, _ *scope.Scope) error {
				return c.pay(ctx, p, keys())
			})
		})
	})
	t.set(0)
	if err := errors.Join(err, stop()); err != nil {
		return nil, err
	}
	c.http.CloseIdleConnections()
	f = &figures{posts: c.posts.Load(), replayed: c.replayed.Load(), unknown: service.unknown.Load()}
	f.booked, f.not = service.reconciler.counts()
	return f, l.count(ctx, f, payments)
}
