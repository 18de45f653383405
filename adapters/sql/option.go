package curfewsql

import (
	"context"
	"log/slog"

	"github.com/curfew-go/curfew/adapters/internal/optout"
	"github.com/curfew-go/curfew/adapters/sql/dialect"
	"github.com/curfew-go/curfew/budget/wire"
)

// An Option changes what Open and Wrap set up.
type Option interface{ apply(*settings) }

type option func(*settings)

func (o option) apply(s *settings) { o(s) }

type settings struct {
	slush     wire.Slush
	pooler    bool
	track     bool
	lockWaits bool
	dialect   dialect.Dialect
	log       *slog.Logger
}

// Slush sets how much of the time left is kept back from the server's limit, for
// both ways and the steps of a cancel. The default is the zero wire.Slush: 5%, at
// least 2 ms and at most 50 ms. A call without deadline that is cancelled has the Slush's
// Cap for these steps, or a second where there is none.
func Slush(s wire.Slush) Option { return option(func(c *settings) { c.slush = s }) }

// BehindPooler says that a pooler stands before the server and gives each
// transaction another server connection, as pgbouncer and ProxySQL do. Nothing is
// then killed by the id that a connection had when it was made.
func BehindPooler() Option { return option(func(c *settings) { c.pooler = true }) }

// TrackTx has each transaction ask the server, before COMMIT and at one turn, for what
// names it, so that Resolve can ask what became of it. Only PostgreSQL has
// such a name; elsewhere the option does nothing.
func TrackTx() Option { return option(func(c *settings) { c.track = true }) }

// LimitLockWaits has a statement that waits for a lock give up after four fifths of its limit,
// so that the cause has the phase lock_wait and not statement. Of the databases here MariaDB can
// do so, in whole seconds: with a limit under 1.25 s nothing is limited beside it, nor in a
// statement that Prepare made. It costs no turn.
func LimitLockWaits() Option { return option(func(c *settings) { c.lockWaits = true }) }

// WithDialect says what the server speaks, instead of asking it by the first connection.
// A nil d panics.
func WithDialect(d dialect.Dialect) Option {
	if d == nil {
		panic("curfewsql: WithDialect: nil d")
	}
	return option(func(c *settings) { c.dialect = d })
}

// Log has l told, as warnings, of what is no error of any call: that statements
// cannot be killed, or not as fast as they should be. The default is nobody.
func Log(l *slog.Logger) Option { return option(func(c *settings) { c.log = l }) }

func settle(where string, opts []Option) settings {
	var s settings
	for _, o := range opts {
		if o == nil {
			panic("curfewsql: " + where + ": nil opts")
		}
		o.apply(&s)
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	return s
}

// Without returns a ctx whose statements get no limit in the server. They are
// ended from the client alone, by the same steps, which begin when ctx ends and
// so come back up to the Slush's Cap after it. curfewpgx.Without does the same: either
// holds in both.
func Without(ctx context.Context) context.Context {
	return optout.With(ctx)
}
