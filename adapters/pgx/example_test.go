package curfewpgx_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"

	curfewpgx "github.com/curfew-go/curfew/adapters/pgx"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/budget/wire"
	"github.com/curfew-go/curfew/checkpoint"
)

// A pool behind pgbouncer, with the slush of a slow network, that tells when the server has no limits.
func ExampleConfigure() {
	config, err := pgxpool.ParseConfig("postgres://app@db.example/shop")
	if err != nil {
		fmt.Println(err)
		return
	}
	curfewpgx.Configure(config.ConnConfig,
		curfewpgx.BehindPooler(),
		curfewpgx.Log(slog.Default()),
		curfewpgx.Slush(wire.Slush{Share: 0.1, Floor: 10 * time.Millisecond, Cap: 100 * time.Millisecond}))

	pool, err := pgxpool.NewWithConfig(context.Background(), config) // connects later
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()
	fmt.Println("ready")
	// Output: ready
}

// A caller who tells a deadline from a bad statement.
func ExampleError() {
	ctx, cancel, _ := budget.Enter(context.Background(), budget.Within(time.Nanosecond).Named("GET /order"))
	defer cancel()
	<-ctx.Done()

	err := curfewpgx.Error(ctx, &pgconn.PgError{Severity: "ERROR", Code: "57014", Message: "canceling statement"})
	fmt.Println(budget.KindOf(err) == budget.DeadlineExceeded || budget.KindOf(err) == budget.ExpiredOnArrival)
	var pg *pgconn.PgError
	fmt.Println(errors.As(err, &pg), errors.Is(err, context.DeadlineExceeded))

	err = curfewpgx.Error(ctx, &pgconn.PgError{Code: "42601"})
	fmt.Println(budget.KindOf(err))
	// Output:
	// true
	// true true
	// failed
}

// A pool whose callers keep half of their time when they wait for a lock in vain.
func ExampleLockWait() {
	config, _ := pgxpool.ParseConfig("postgres://app@db.example/shop")
	curfewpgx.Configure(config.ConnConfig, curfewpgx.LockWait(0.5))

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := curfewpgx.Error(ctx, &pgconn.PgError{Code: "55P03"}) // what a statement then returns
	fmt.Println(budget.KindOf(err), ctx.Err())
	// Output: dependency_timeout <nil>
}

// What a metrics page shows of a pool.
func ExampleStatsOf() {
	config, _ := pgxpool.ParseConfig("postgres://app@db.example/shop")
	curfewpgx.Configure(config.ConnConfig)
	pool, err := pgxpool.NewWithConfig(context.Background(), config) // connects later
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()

	s := curfewpgx.StatsOf(pool.Config().ConnConfig)
	fmt.Println("limits missed:", s.LimitsMissed, "logins saved:", s.Reused, "cancels unheard:", s.CancelsUnheard)
	// Output: limits missed: 0 logins saved: 0 cancels unheard: 0
}

// A report that may take as long as it takes, in a request that may not.
func ExampleWithout() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, bounded := curfewpgx.Without(ctx).Deadline()
	fmt.Println(bounded) // ctx still ends the call from the client
	// Output: true
}

// A worker whose job may be cancelled from any machine, and by a row in a table.
func ExampleListen() {
	config, err := pgx.ParseConfig("postgres://app@127.0.0.1:1/shop")
	if err != nil {
		fmt.Println(err)
		return
	}
	source := curfewpgx.Listen(config, curfewpgx.ListenConfig{
		Channel: "jobs",
		Query:   "select id from jobs where cancelled and id = any($1)",
	})
	defer source.Close()

	ctx, stop := checkpoint.Watch(context.Background(), source, "export-7", 20*time.Millisecond)
	defer stop()
	fmt.Println(ctx.Err()) // nobody answers there, which cancels nothing
	// Output: <nil>
}

func TestConfigureRefusesWhatIsAMistakeInTheProgram(t *testing.T) {
	assert.PanicsWithValue(t, "curfewpgx: Configure: nil cfg", func() { curfewpgx.Configure(nil) })
	cfg, err := pgx.ParseConfig("")
	assert.NoError(t, err)
	assert.PanicsWithValue(t, "curfewpgx: Configure: nil opts", func() { curfewpgx.Configure(cfg, nil) })
	cfg.Tracer = &noted{}
	curfewpgx.Configure(cfg)
	assert.PanicsWithValue(t, "curfewpgx: Configure: cfg: configured already", func() { curfewpgx.Configure(cfg) })
}

// noted is a user's own tracer.
type noted struct{ started, ended int }

func (n *noted) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	n.started++
	return ctx
}
func (n *noted) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) { n.ended++ }

func TestErrorLeavesAloneWhatIsNotAnEndOfTime(t *testing.T) {
	ctx := context.Background()
	assert.NoError(t, curfewpgx.Error(ctx, nil))
	for _, err := range []error{pgx.ErrNoRows, net.ErrClosed, context.Canceled, &pgconn.PgError{Code: "57014"}} {
		assert.Equal(t, err, curfewpgx.Error(ctx, err))
	}
}

func TestErrorTellsNeitherAddressNorUser(t *testing.T) {
	cfg, err := pgx.ParseConfig("postgres://hidden:secret@127.0.0.1:1/private")
	assert.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = pgx.ConnectConfig(ctx, cfg)
	err = curfewpgx.Error(ctx, err)
	assert.Equal(t, budget.Cancelled, budget.KindOf(err))
	assert.NotRegexp(t, "hidden|secret|private|127", err.Error())
}

func TestADeadlineOfPlainContextsIsNamedAlsoWhenItHasPassed(t *testing.T) {
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	assert.ErrorContains(t, curfewpgx.Error(ctx, ctx.Err()), "limit parent deadline")
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	assert.NotContains(t, curfewpgx.Error(cancelled, cancelled.Err()).Error(), "limit")
}
