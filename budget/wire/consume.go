package wire

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/curfew-go/curfew/budget"
)

// A Consumer handles messages of a queue, such as Kafka, AMQP or NATS, that say in
// a header until when they are worth anything. Its order is what it is for:
//
//	stale? ──yes──▶ Dead, or dropped ──▶ Ack
//	  └─no──▶ Work, under Limit and the message's expiry ──▶ Record ──▶ Ack
//
// A message is acknowledged only once its final state is recorded, so a crash at
// any point means that the broker delivers it again: Work is done at least once,
// and Record is where a repetition is noticed.
//
// Fill in the fields, then let as many goroutines as you like call Handle. Fields
// must not change after that, and a Consumer must not be copied.
type Consumer[M any] struct {
	// Expiry is the form, with an instant, in which a message says when it goes
	// stale, as the producer wrote it with Format. A message that waited is not
	// taken for one whose sender's clock differs; a sender whose clock is ahead by
	// more than the form's skew limit gets the time it said was left, from now.
	// A message without the header never goes stale; its name is looked for as Expiry
	// has it, letter case included.
	Expiry Form
	// Limit is how long the work on one message may take: work that is cut off by it,
	// or by the message's expiry, has failed, and is recorded so. Its Require refuses
	// messages with too little left for the work to be worth beginning, as stale.
	//
	// With the zero Limit it is the deadline of Handle's context, whose end gives a
	// message back however often it comes; without a deadline there, messages without
	// an expiry are given back with budget.ErrNoDeadline.
	Limit budget.Limit
	// Headers returns the headers of m as text.
	Headers func(m M) map[string]string
	// Work does the work. check is for between its phases, before a side effect or
	// an expensive step: it returns nil when the work may go on and need is left,
	// else a *budget.Cause that names phase, which Work returns.
	Work func(ctx context.Context, m M, check func(phase string, need time.Duration) error) error
	// Record stores the final state of m: done when outcome is nil, else failed with
	// it. When it returns an error m is not acknowledged, so it is also where a
	// failure that is worth another delivery is given back.
	Record func(ctx context.Context, m M, outcome error) error
	// Ack acknowledges m to the broker.
	Ack func(ctx context.Context, m M) error
	// Dead moves m to where stale messages go; why is a *budget.Cause, or a
	// *FormatError for an expiry that is malformed. When it is nil stale messages are
	// dropped, and those with a malformed expiry worked on under Limit alone.
	Dead func(ctx context.Context, m M, why error) error
	// SettleTime bounds each of Record, Dead and Ack, which are shielded from the
	// end of Handle's context; 5 s when zero. A negative one panics in Handle.
	SettleTime time.Duration

	done, failed, dropped, deadLettered, malformed, skewed, interrupted, unsettled atomic.Int64
}

// Stats are the counts of a Consumer since it was made. Each message that Handle
// returned from is in exactly one of Done, Failed, Dropped, DeadLettered,
// Interrupted and Unsettled; Malformed and Skewed count beside that.
type Stats struct {
	Done, Failed          int64 // worked on, recorded and acknowledged
	Dropped, DeadLettered int64 // stale on arrival, and acknowledged
	Interrupted           int64 // given back, because Handle's context ended first, or it or Limit left no time
	Unsettled             int64 // given back, because Record, Dead or Ack failed
	Malformed, Skewed     int64 // with an expiry that was not understood, or not believed
}

// Stats returns the counts. They are read one after the other, not at one instant.
func (c *Consumer[M]) Stats() Stats {
	return Stats{
		Done: c.done.Load(), Failed: c.failed.Load(),
		Dropped: c.dropped.Load(), DeadLettered: c.deadLettered.Load(),
		Interrupted: c.interrupted.Load(), Unsettled: c.unsettled.Load(),
		Malformed: c.malformed.Load(), Skewed: c.skewed.Load(),
	}
}

// Handle takes m through the order above. It returns nil when m was acknowledged,
// whether it was done, failed or stale, and else why it was not: the cause of ctx
// when ctx ended before the work was over, so that a shutdown records no failure,
// or the error of Record, Dead or Ack. An error means that the broker will deliver
// m again.
//
// A panic of a function passes through, and leaves m unacknowledged. A Consumer
// with a field missing panics.
func (c *Consumer[M]) Handle(ctx context.Context, m M) error {
	c.mustBeWhole()
	peer, err := c.expiry(m)
	if err != nil && c.Dead != nil {
		return c.dead(ctx, m, err)
	}
	limit := peer.Limit(c.Limit)
	work, cancel, err := budget.Enter(ctx, limit)
	defer cancel()
	if err != nil {
		if ctx.Err() == nil && c.blames(ctx, peer) {
			return c.dead(ctx, m, err)
		}
		c.interrupted.Add(1)
		return err
	}
	outcome := c.Work(work, m, func(phase string, need time.Duration) error {
		return inPhase(phase, budget.Require(work, need))
	})
	if outcome != nil && ctx.Err() != nil {
		// What failed after the end of ctx may have failed because of it.
		c.interrupted.Add(1)
		return context.Cause(ctx)
	}
	cancel()
	count := &c.done
	if outcome != nil {
		count = &c.failed
	}
	return c.settle(ctx, m, count, func(ctx context.Context) error { return c.Record(ctx, m, outcome) })
}

// expiry reads until when m is worth anything.
func (c *Consumer[M]) expiry(m M) (Peer, error) {
	value, ok := c.Headers(m)[c.Expiry.header]
	if !ok {
		return Peer{}, nil
	}
	f := c.Expiry
	f.queued = true
	peer, err := f.Parse(value, time.Now())
	if err != nil {
		c.malformed.Add(1)
	}
	if peer.Skewed {
		c.skewed.Add(1)
	}
	return peer, err
}

// blames reports whether it was the message's expiry that left too little time,
// and not the context or the limit, which would refuse any message.
func (c *Consumer[M]) blames(ctx context.Context, peer Peer) bool {
	if !peer.Limited {
		return false
	}
	_, cancel, err := budget.Enter(ctx, c.Limit)
	cancel()
	return err == nil
}

func (c *Consumer[M]) dead(ctx context.Context, m M, why error) error {
	if c.Dead == nil {
		return c.settle(ctx, m, &c.dropped, nil)
	}
	return c.settle(ctx, m, &c.deadLettered, func(ctx context.Context) error { return c.Dead(ctx, m, why) })
}

// settle stores the state of m, where store is not nil, and then acknowledges it.
func (c *Consumer[M]) settle(ctx context.Context, m M, count *atomic.Int64, store func(context.Context) error) error {
	for _, step := range []func(context.Context) error{store, func(ctx context.Context) error { return c.Ack(ctx, m) }} {
		if step == nil {
			continue
		}
		if err := c.shielded(ctx, step); err != nil {
			c.unsettled.Add(1)
			return err
		}
	}
	count.Add(1)
	return nil
}

func (c *Consumer[M]) shielded(ctx context.Context, f func(context.Context) error) error {
	bound := c.SettleTime
	if bound == 0 {
		bound = 5 * time.Second
	}
	ctx, cancel := budget.Detached(ctx, bound)
	defer cancel()
	return f(ctx)
}

// inPhase returns err with the phase in its cause.
func inPhase(phase string, err error) error {
	c, ok := err.(*budget.Cause)
	if !ok {
		return err
	}
	named := *c // a cause is shared by all that the same event ended
	named.Phase = phase
	return &named
}

func (c *Consumer[M]) mustBeWhole() {
	switch {
	case c.Expiry.grammar != epochMillis && c.Expiry.grammar != epochNanos:
		panic(fmt.Sprintf("wire: Consumer: Expiry %v has no instant: a time left does not run while a message waits", c.Expiry))
	case c.Headers == nil:
		panic("wire: Consumer: nil Headers")
	case c.Work == nil:
		panic("wire: Consumer: nil Work")
	case c.Record == nil:
		panic("wire: Consumer: nil Record")
	case c.Ack == nil:
		panic("wire: Consumer: nil Ack")
	case c.SettleTime < 0:
		panic(fmt.Sprintf("wire: Consumer: negative SettleTime %v", c.SettleTime))
	}
}
