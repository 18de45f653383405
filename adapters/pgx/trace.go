package curfewpgx

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/curfew-go/curfew/adapters/internal/optout"
	"github.com/curfew-go/curfew/adapters/pgx/internal/stream"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/budget/wire"
)

// Without returns a ctx whose statements get no limit in the server. They are
// ended from the client alone, by the same steps, which begin when ctx ends and
// so come back up to the Slush's Cap after it. Inside a transaction the limit of the
// statements before is lifted. curfewsql.Without does the same: either holds in both.
func Without(ctx context.Context) context.Context {
	return optout.With(ctx)
}

// leastLimit is the shortest limit that PostgreSQL can be given: it rounds less
// to 0, which switches the limit off.
const leastLimit = time.Millisecond

type callKey struct{}

// A call is one call of the driver's API, with all the bursts it writes. Its ctx is
// the caller's if the server's limit bounds it: then nothing is to be done before
// the deadline, and a ctx of its own costs a timer and a registration. Otherwise it ends slush before, for the ladder.
type call struct {
	context.Context

	user   context.Context
	stream *stream.Conn
	slush  time.Duration      // 0 without deadline
	cancel context.CancelFunc // nil if Context is user
	depth  int                // a query may prepare inside itself: events nest
}

// Value lets nested events and the watch of ctx find the call.
func (c *call) Value(key any) any {
	if key == (callKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// Err is that of the ctx, until a COMMIT was lost. Then it is what the stream says:
// the driver puts context.DeadlineExceeded or context.Canceled in the place of every
// timeout if Err answers one of them, and keeps any other.
func (c *call) Err() error {
	if lost := (*lostError)(nil); errors.As(c.stream.Lost(), &lost) {
		return lost
	}
	return c.Context.Err()
}

// refused is a ctx under which the driver starts nothing.
type refused struct {
	context.Context
	why error
}

var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

func (r refused) Done() <-chan struct{} { return closed }
func (r refused) Err() error            { return r.why }

// tracer arms the stream when a call begins and disarms it when the outermost ends:
// what runs in between calls, such as the ping of a pool, must not
// find the limit of the last one.
type tracer struct {
	slush    wire.Slush
	config   *pgx.ConnConfig // that was configured
	keeper   *keeper         // nil where nothing is kept
	ways     [2]uintptr      // DialFunc and AfterNetConnect as Configure left them
	counters *counters
}

// begin begins a call. Of a call with one statement sqls is that; of any other it is nothing, for no limit
// bounds all of it.
func (t *tracer) begin(ctx context.Context, conn *pgx.Conn, sqls ...string) context.Context {
	s, ok := conn.PgConn().Conn().(*stream.Conn)
	if !ok || ctx.Err() != nil { // the driver reports an ended ctx itself, as safe to retry
		return ctx
	}
	if outer, ok := ctx.Value(callKey{}).(*call); ok && outer.stream == s && outer.depth > 0 {
		outer.depth++
		return ctx
	}
	c := &call{Context: ctx, user: ctx, stream: s, depth: 1}
	deadline, bounded := ctx.Deadline()
	if !bounded || optout.Of(ctx) {
		s.ArmUnlimited()
		return c
	}
	now := time.Now()
	left := deadline.Sub(now)
	if left < leastLimit {
		if err := budget.Require(ctx, leastLimit); err != nil {
			return refused{ctx, err}
		}
	}
	c.slush = max(min(t.slush.Of(left), left-leastLimit), 0)
	at := now.Add(left - c.slush)
	s.Arm(at)
	if len(sqls) != 1 || !s.Bounds(sqls[0]) {
		c.Context, c.cancel = context.WithDeadline(ctx, at)
	}
	return c
}

func (t *tracer) end(ctx context.Context) {
	c, ok := ctx.Value(callKey{}).(*call)
	if !ok || c.depth == 0 {
		return
	}
	if c.depth--; c.depth > 0 {
		return
	}
	c.stream.Disarm()
	if c.cancel != nil {
		c.cancel()
	}
}

func (t *tracer) TraceQueryStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	return t.begin(ctx, conn, data.SQL)
}

func (t *tracer) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) { t.end(ctx) }

func (t *tracer) TraceBatchStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	if all := data.Batch.QueuedQueries; len(all) == 1 {
		return t.begin(ctx, conn, all[0].SQL)
	}
	return t.begin(ctx, conn)
}

func (t *tracer) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

func (t *tracer) TraceBatchEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchEndData) { t.end(ctx) }

func (t *tracer) TraceCopyFromStart(ctx context.Context, conn *pgx.Conn, _ pgx.TraceCopyFromStartData) context.Context {
	return t.begin(ctx, conn, "copy")
}

func (t *tracer) TraceCopyFromEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceCopyFromEndData) {
	t.end(ctx)
}

func (t *tracer) TracePrepareStart(ctx context.Context, conn *pgx.Conn, data pgx.TracePrepareStartData) context.Context {
	return t.begin(ctx, conn, data.SQL)
}

func (t *tracer) TracePrepareEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TracePrepareEndData) {
	t.end(ctx)
}
