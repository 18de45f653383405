package curfewpgx

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/curfew-go/curfew/budget"
)

// ListenConfig says where cancels are written down and how they are told. Channel and Query
// are needed.
type ListenConfig struct {
	// Channel is the name for NOTIFY. Its payload is the job, or empty for all of them. Who cancels
	// a job writes that down and notifies in one transaction:
	//
	//	update jobs set cancelled = true where id = $1;
	//	select pg_notify('jobs', $1);
	Channel string
	// Query returns, of the jobs in its only argument, a text[], those that are cancelled, in
	// one column of type text:
	//
	//	select id from jobs where cancelled and id = any($1)
	Query string
	// Refresh is how often everything is asked for again, by which a connection that was
	// lost without a sign is found out; and how long the server has for each answer. The default is
	// 30 s.
	Refresh time.Duration
	// MaxJobs bounds how many jobs are watched at once. The default is 10,000.
	MaxJobs int
	// Log is told, as warnings, of lost connections. The default is nobody.
	Log *slog.Logger
}

// A Listener is a source for checkpoint.Watch over one connection, however many jobs are
// watched. What is written down is the truth, a notification only says when to
// look: so nothing is missed while the connection is away, and nothing believed that is not so.
// It may be used by many goroutines.
//
//	source := curfewpgx.Listen(config.ConnConfig, curfewpgx.ListenConfig{Channel: "jobs", Query: "..."})
//	defer source.Close()
//	ctx, stop := checkpoint.Watch(ctx, source, job, 20*time.Millisecond)
type Listener struct {
	connConfig *pgx.ConnConfig
	config     ListenConfig
	end        context.CancelFunc
	ended      chan struct{}

	mu    sync.Mutex
	jobs  map[string]*watched // guarded by mu, as all below
	fresh []string            // jobs to ask for
	wake  context.CancelFunc  // ends the wait for a notification
	last  error               // why there is no connection
}

// watched is what is known of one job.
type watched struct {
	known     chan struct{} // closed once the server has said something since it was last lost
	cancelled bool
	asked     time.Time // by a caller
}

// Reconnects wait between these, doubling, and half of it at random.
const (
	backoffLeast = 50 * time.Millisecond
	backoffMost  = 5 * time.Second
)

// Listen returns a Listener and connects it behind the caller's back, again and again until Close.
// cfg, which is copied, must lead to the server itself or to a pooler that pools sessions: one that pools transactions
// forgets who listens. Whether it was given to Configure makes no difference.
//
// Listen panics if cfg is nil, Channel or Query is empty, or Refresh or MaxJobs is negative.
func Listen(cfg *pgx.ConnConfig, c ListenConfig) *Listener {
	switch {
	case cfg == nil:
		panic("curfewpgx: Listen: nil cfg")
	case c.Channel == "":
		panic("curfewpgx: Listen: empty Channel")
	case c.Query == "":
		panic("curfewpgx: Listen: empty Query")
	case c.Refresh < 0:
		panic(fmt.Sprintf("curfewpgx: Listen: Refresh %v is negative", c.Refresh))
	case c.MaxJobs < 0:
		panic(fmt.Sprintf("curfewpgx: Listen: MaxJobs %d is negative", c.MaxJobs))
	}
	if c.Refresh == 0 {
		c.Refresh = 30 * time.Second
	}
	if c.MaxJobs == 0 {
		c.MaxJobs = 10_000
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	ctx, end := context.WithCancel(context.Background())
	l := &Listener{connConfig: cfg.Copy(), config: c, end: end, ended: make(chan struct{}), jobs: map[string]*watched{}}
	go l.run(ctx)
	return l
}

// Close ends the Listener and its connection. Cancelled answers with an error from then on.
func (l *Listener) Close() {
	l.end()
	<-l.ended
}

// Cancelled reports whether job was cancelled. It is part of checkpoint.Source. Of a job that
// it was asked about in the last minute or two, or two Refreshes if these are longer, it answers from memory:
// asking often costs the server nothing. Of another, and while there is no connection, it
// waits for an answer until ctx ends. Then the error is a *budget.Cause, with what kept the
// server from answering behind it. An empty job panics.
func (l *Listener) Cancelled(ctx context.Context, job string) (bool, error) {
	if job == "" {
		panic("curfewpgx: Cancelled: empty job")
	}
	select {
	case <-l.ended:
		return false, errClosed
	default:
	}
	l.mu.Lock()
	w := l.jobs[job]
	if w == nil {
		if len(l.jobs) >= l.config.MaxJobs {
			l.mu.Unlock()
			return false, fmt.Errorf("curfewpgx: Cancelled: %d jobs are watched already", l.config.MaxJobs)
		}
		w = &watched{known: make(chan struct{})}
		l.jobs[job] = w
		l.fresh = append(l.fresh, job)
		if l.wake != nil {
			l.wake()
		}
	}
	w.asked = time.Now()
	known, cancelled := w.known, w.cancelled
	l.mu.Unlock()
	if cancelled {
		return true, nil
	}
	select {
	case <-known:
	case <-l.ended:
		return false, errClosed
	case <-ctx.Done():
		l.mu.Lock()
		defer l.mu.Unlock()
		return false, endOf(ctx, l.last)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return w.cancelled, nil
}

var errClosed = errors.New("curfewpgx: Cancelled: the Listener is closed")

// run keeps a connection until ctx ends.
func (l *Listener) run(ctx context.Context) {
	defer close(l.ended)
	for pause := backoffLeast; ; pause = min(2*pause, backoffMost) {
		served, err := l.serve(ctx)
		if ctx.Err() != nil {
			return
		}
		if served {
			pause = backoffLeast
		}
		err = nameless(err)
		l.lose(err)
		l.config.Log.Warn("curfewpgx: Listen: no connection", "error", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause/2 + rand.N(pause/2)):
		}
	}
}

// nameless is err without the texts that name user, database or host: those of connections.
func nameless(err error) error {
	if have := (*budget.Cause)(nil); errors.As(err, &have) { // first: that of a login has a PgError too
		return have
	}
	if pg := (*pgconn.PgError)(nil); errors.As(err, &pg) {
		return pg
	}
	return lostConnection{err}
}

type lostConnection struct{ err error }

func (e lostConnection) Error() string { return "curfewpgx: Listen: the connection was lost" }
func (e lostConnection) Unwrap() error { return e.err }

// lose notes that nothing is known any more, but for what was cancelled, which it
// will be found to be.
func (l *Listener) lose(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = why
	for _, w := range l.jobs {
		select {
		case <-w.known:
			w.known = make(chan struct{})
		default:
		}
	}
}

// serve connects and answers until the connection is lost. served reports whether it
// came as far as having read all there is.
func (l *Listener) serve(ctx context.Context) (served bool, err error) {
	step := func(f func(ctx context.Context) error) error {
		ctx, cancel, err := budget.Enter(ctx, budget.Within(l.config.Refresh).Named("listen"))
		defer cancel()
		if err != nil {
			return err
		}
		return Error(ctx, f(ctx))
	}
	var conn *pgx.Conn
	if err := step(func(ctx context.Context) (err error) {
		conn, err = pgx.ConnectConfig(ctx, l.connConfig)
		return err
	}); err != nil {
		return false, err
	}
	defer func() {
		ctx, cancel := budget.Detached(ctx, time.Second)
		defer cancel()
		_ = conn.Close(ctx)
	}()
	if err := step(func(ctx context.Context) error {
		_, err := conn.Exec(ctx, "listen "+pgx.Identifier{l.config.Channel}.Sanitize())
		return err
	}); err != nil {
		return false, err
	}
	for { // what is written down after LISTEN is told, and what was before is read
		jobs := l.all()
		if err := step(func(ctx context.Context) error { return l.ask(ctx, conn, jobs) }); err != nil {
			return served, err
		}
		served = true
		for until := time.Now().Add(l.config.Refresh); time.Now().Before(until); {
			told, err := l.await(ctx, conn, until)
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				return served, err
			}
			if len(told) == 0 {
				continue
			}
			if err := step(func(ctx context.Context) error { return l.ask(ctx, conn, told) }); err != nil {
				return served, err
			}
		}
	}
}

// all returns all jobs that are watched, and forgets those for which nobody asked lately.
func (l *Listener) all() (jobs []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := time.Now().Add(-2 * max(l.config.Refresh, time.Minute))
	for job, w := range l.jobs {
		select {
		case <-w.known: // or somebody may be waiting
			if w.asked.Before(old) {
				delete(l.jobs, job)
				continue
			}
		default:
		}
		jobs = append(jobs, job)
	}
	l.fresh, l.last = nil, nil
	return jobs
}

// await waits until there is something to ask for, or until, and returns what.
func (l *Listener) await(ctx context.Context, conn *pgx.Conn, until time.Time) (told []string, err error) {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	l.mu.Lock()
	if len(l.fresh) > 0 {
		cancel()
	}
	l.wake = cancel
	l.mu.Unlock()
	n, err := conn.WaitForNotification(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wake = nil
	if err != nil && (ctx.Err() == nil || conn.IsClosed()) {
		return nil, err
	}
	cancel()
	for ; err == nil; n, err = conn.WaitForNotification(ctx) { // what else came with it
		if n.Channel != l.config.Channel {
			continue
		}
		if n.Payload != "" {
			if l.jobs[n.Payload] != nil {
				told = append(told, n.Payload)
			}
			continue
		}
		for job := range l.jobs {
			told = append(told, job)
		}
	}
	told = append(told, l.fresh...)
	l.fresh = nil
	return told, nil
}

// ask asks the server which of jobs are cancelled.
func (l *Listener) ask(ctx context.Context, conn *pgx.Conn, jobs []string) error {
	cancelled := map[string]bool{}
	rows, err := conn.Query(ctx, l.config.Query, jobs)
	if err != nil {
		return err
	}
	var job string
	if _, err := pgx.ForEachRow(rows, []any{&job}, func() error {
		cancelled[job] = true
		return nil
	}); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, job := range jobs {
		w := l.jobs[job]
		if w == nil {
			continue
		}
		w.cancelled = cancelled[job]
		select {
		case <-w.known:
		default:
			close(w.known)
		}
	}
	return nil
}
