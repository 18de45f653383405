package curfewpgx

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/multitracer"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"

	"github.com/curfew-go/curfew/adapters/pgx/internal/stream"
	"github.com/curfew-go/curfew/budget/wire"
)

// An Option changes what Configure sets up.
type Option interface{ apply(*settings) }

type option func(*settings)

func (o option) apply(s *settings) { o(s) }

type settings struct {
	slush  wire.Slush
	pooler bool
	locks  float64
	log    *slog.Logger // nil for nobody

	keep, idle, patience time.Duration // of a keeper; nothing is kept where keep is 0
}

// Slush sets how much of the time left is kept back from the server's limit, for
// both ways and the steps of a cancel. The default is the zero wire.Slush: 5%, at
// least 2 ms and at most 50 ms. A call without deadline that is cancelled has the Slush's
// Cap for these steps, or a second where there is none. Where more than two are cancelled at once they
// have up to five times as long, a second at most: by default a call is then back 250 ms after its
// cancel at the latest, and not 50.
func Slush(s wire.Slush) Option { return option(func(c *settings) { c.slush = s }) }

// BehindPooler says that a pooler stands before the server and gives each
// transaction another server connection, as pgbouncer does in transaction mode. No
// statement is then kept prepared for the limit, which costs the server one parse
// a burst. Without the option a connection finds out for itself: at no price in the modes that
// leave statements unnamed, and with cached statements at that of up to two that fail with 26000 or 42P05.
func BehindPooler() Option { return option(func(c *settings) { c.pooler = true }) }

// LockWait has a statement that waits for a lock give up after a share of its limit, above 0 and below
// 1: with 55P03, of which [Error] makes a DependencyTimeout of the phase "lock_wait".
// So the caller learns what the time went for, and has some of it left. It is sent with the
// limit, as a lock_timeout that is local to the transaction, and replaces one that the
// session has. Each lock is waited for anew, and a LOCK outside of a transaction is none of it. The
// default is that a lock may take all there is. Another share panics.
func LockWait(share float64) Option {
	if !(share > 0 && share < 1) {
		panic(fmt.Sprintf("curfewpgx: LockWait: share %v is not between 0 and 1", share))
	}
	return option(func(c *settings) { c.locks = share })
}

// FreshSessions has every connection log in. By default a session that was given up at a deadline
// is made as new and given to a connection that is made later: see the package's text.
func FreshSessions() Option { return option(func(c *settings) { c.keep = 0 }) }

// Log has l told, as warnings, of what is no error of any call: that the server does not have the
// limits that it is told (see [Stats]). The default is nobody.
func Log(l *slog.Logger) Option { return option(func(c *settings) { c.log = l }) }

// Configure has connections made from cfg carry deadlines into the server. Call
// it once, before cfg is used, and after its own Tracer, DialFunc and
// AfterNetConnect are set: these go on working. A BuildContextWatcherHandler
// is replaced. For a pgxpool.Config, hand in its ConnConfig; for database/sql,
// give cfg to stdlib.GetConnector.
//
// Configure panics if cfg is nil or has been through it before.
func Configure(cfg *pgx.ConnConfig, opts ...Option) {
	if cfg == nil {
		panic("curfewpgx: Configure: nil cfg")
	}
	s := settings{keep: keepFor, idle: idleFor, patience: patience}
	for _, o := range opts {
		if o == nil {
			panic("curfewpgx: Configure: nil opts")
		}
		o.apply(&s)
	}
	n := &counters{log: s.log}
	ours := &tracer{slush: s.slush, config: cfg, keeper: newKeeper(cfg, s, n), counters: n}
	switch theirs := cfg.Tracer.(type) {
	case nil:
		cfg.Tracer = ours
	default:
		if oursIn(theirs) != nil {
			panic("curfewpgx: Configure: cfg: configured already")
		}
		cfg.Tracer = multitracer.New(theirs, ours)
	}

	crowd := newCrowd(cfg, s.pooler, n)
	check := stream.NewCheck(n.limit)
	dial := cfg.DialFunc
	cfg.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if network == stream.GivenUp {
			server, ok := ctx.Value(serverKey{}).(net.Addr)
			if !ok { // the driver asks by itself
				return nil, errMoot
			}
			network, addr = server.Network(), server.String()
			if network == "unix" { // which knows only the end of its path
				network, addr = pgconn.NetworkAddress(cfg.Host, cfg.Port)
			}
		}
		if l, ok := ctx.Value(loginKey{}).(*login); ok {
			return l.dial(ctx, network, addr, dial)
		}
		conn, err := dial(ctx, network, addr)
		if r, ok := ctx.Value(requestKey{}).(*request); ok && err == nil {
			return &requestConn{Conn: conn, request: r, counters: n}, nil
		}
		return conn, err
	}
	most := ownLimit(cfg)
	after := cfg.AfterNetConnect
	cfg.AfterNetConnect = func(ctx context.Context, c *pgconn.Config, conn net.Conn) (net.Conn, error) {
		if after != nil {
			var err error
			if conn, err = after(ctx, c, conn); err != nil {
				return conn, err
			}
		}
		if c.RuntimeParams["replication"] != "" { // whose commands are not SQL
			return conn, nil
		}
		over := stream.Config{Nameless: s.pooler, Locks: s.locks, Most: most, Check: check, Lost: lostCommit}
		if l, ok := ctx.Value(loginKey{}).(*login); ok {
			over.Keep = l.keep(conn)
		}
		return stream.New(conn, over), nil
	}
	ours.ways = waysOf(cfg)
	cfg.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		return &ladder{conn: conn, slush: s.slush, crowd: crowd}
	}
}

// ownLimit returns the statement_timeout that cfg asks for at login, 0 for none. Of one that the role
// or the database has, or that was set later, the client learns at the cost of a turn only.
func ownLimit(cfg *pgx.ConnConfig) time.Duration {
	return stream.Limit(cfg.RuntimeParams["statement_timeout"])
}

// oursIn returns the tracer that Configure made, and nil where there is none in t.
func oursIn(t pgx.QueryTracer) *tracer {
	switch t := t.(type) {
	case *tracer:
		return t
	case *multitracer.Tracer:
		for _, one := range t.QueryTracers {
			if ours := oursIn(one); ours != nil {
				return ours
			}
		}
	}
	return nil
}
