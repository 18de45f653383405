package curfewpgx

import (
	"context"
	"net"

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
}

// Slush sets how much of the time left is kept back from the server's limit, for
// both ways and the steps of a cancel. The default is the zero wire.Slush: 5%, at
// least 2 ms and at most 50 ms. A call without deadline that is cancelled has the Slush's
// Cap for these steps, or a second where there is none.
func Slush(s wire.Slush) Option { return option(func(c *settings) { c.slush = s }) }

// BehindPooler says that a pooler stands before the server and gives each
// transaction another server connection, as pgbouncer does in transaction mode. No
// statement is then kept prepared for the limit, which costs the server one parse
// a burst. Without the option a connection finds out for itself, at the price of up to two
// statements that fail with 26000 or 42P05.
func BehindPooler() Option { return option(func(c *settings) { c.pooler = true }) }

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
	var s settings
	for _, o := range opts {
		if o == nil {
			panic("curfewpgx: Configure: nil opts")
		}
		o.apply(&s)
	}
	ours := &tracer{slush: s.slush}
	switch theirs := cfg.Tracer.(type) {
	case nil:
		cfg.Tracer = ours
	default:
		if isOurs(theirs) {
			panic("curfewpgx: Configure: cfg: configured already")
		}
		cfg.Tracer = multitracer.New(theirs, ours)
	}

	dial := cfg.DialFunc
	cfg.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if network == stream.GivenUp {
			return nil, errMoot
		}
		conn, err := dial(ctx, network, addr)
		if r, ok := ctx.Value(requestKey{}).(*request); ok && err == nil {
			return &requestConn{Conn: conn, request: r}, nil
		}
		return conn, err
	}
	after := cfg.AfterNetConnect
	cfg.AfterNetConnect = func(ctx context.Context, c *pgconn.Config, conn net.Conn) (net.Conn, error) {
		if after != nil {
			var err error
			if conn, err = after(ctx, c, conn); err != nil {
				return conn, err
			}
		}
		return stream.New(conn, s.pooler, lostCommit), nil
	}
	cfg.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		return &ladder{conn: conn, slush: s.slush}
	}
}

func isOurs(t pgx.QueryTracer) bool {
	switch t := t.(type) {
	case *tracer:
		return true
	case *multitracer.Tracer:
		for _, one := range t.QueryTracers {
			if isOurs(one) {
				return true
			}
		}
	}
	return false
}
