package curfewpgx

import (
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
)

// Stats counts what curfewpgx did for the connections of one configuration, since Configure. All but
// KeptNow only grow. The numbers are read one by one, and need not be of the same instant.
type Stats struct {
	// LimitsSeen and LimitsMissed count connections that asked the server for its statement_timeout right
	// behind the first limit they set, in the same write and transaction, and were shown that limit, or
	// none or a longer one. Once a connection has seen its limit no further ones ask, so in most programs they stay
	// at 1 and 0. LimitsMissed without LimitsSeen is a pooler or a product that looks like PostgreSQL and drops
	// what sets the limit: then the client alone ends its calls, and the server works on. Log tells of it.
	LimitsSeen, LimitsMissed int64

	// Kept counts calls that were given up and whose session was kept; Reused those sessions that took
	// the place of a login; Dropped those that were closed, because they did not answer, nobody
	// wanted them, or a login was sooner. KeptNow is how many there are of neither.
	Kept, Reused, Dropped, KeptNow int64

	// CancelRequests counts cancel requests that had a connection of their own, and CancelSignals calls
	// that were cancelled over the connection that many share. CancelsUnheard counts calls of which
	// no cancel was seen to end in time: each cost its connection.
	CancelRequests, CancelSignals, CancelsUnheard int64
}

// StatsOf returns the Stats of the configuration that cfg is, or that it is a copy of: the one given to
// Configure, the ConnConfig of a pool's Config, or the Config of a connection. It may be called at any time and
// from any goroutine. StatsOf panics if cfg is nil or has not been through Configure.
func StatsOf(cfg *pgx.ConnConfig) Stats {
	if cfg == nil {
		panic("curfewpgx: StatsOf: nil cfg")
	}
	ours := oursIn(cfg.Tracer)
	if ours == nil {
		panic("curfewpgx: StatsOf: cfg: not configured")
	}
	n := ours.counters
	return Stats{
		LimitsSeen: n.seen.Load(), LimitsMissed: n.missed.Load(),
		Kept: n.kept.Load(), Reused: n.reused.Load(), Dropped: n.dropped.Load(), KeptNow: ours.keeper.now(),
		CancelRequests: n.requests.Load(), CancelSignals: n.signals.Load(), CancelsUnheard: n.unheard.Load(),
	}
}

// counters are what Stats is read from.
type counters struct {
	log  *slog.Logger // nil for nobody
	once sync.Once    // of the log

	seen, missed               atomic.Int64
	kept, reused, dropped      atomic.Int64
	requests, signals, unheard atomic.Int64
}

// limit notes whether a connection has seen the limit that it set. It does not wait: the log is told
// behind the caller's back.
func (n *counters) limit(seen bool) {
	if seen {
		n.seen.Add(1)
		return
	}
	n.missed.Add(1)
	if n.log == nil {
		return
	}
	n.once.Do(func() {
		go n.log.Warn("curfewpgx: the server does not show the statement limit that it was told: behind this pooler, or in this product, statements are ended by the client alone")
	})
}
