package wire_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/budget/wire"
)

// A message of a queue that exists for these tests alone.
type message struct {
	headers map[string]string
	did     []string // what was done with it, in order
}

func (m *message) do(step string) { m.did = append(m.did, step) }

var expiry = wire.EpochMillis("X-Expires", time.Minute)

// stamped is a message worth something for d, sent at an instant that a form can say:
// a bubble begins before.
func stamped(t *testing.T, d time.Duration) *message {
	value, ok := expiry.Format(d, time.Now())
	require.True(t, ok)
	return &message{headers: map[string]string{"X-Expires": value}}
}

// consumer notes all steps in the message; each may be replaced.
func consumer() *wire.Consumer[*message] {
	return &wire.Consumer[*message]{
		Expiry:  expiry,
		Limit:   budget.Within(10 * time.Second).Named("per message"),
		Headers: func(m *message) map[string]string { return m.headers },
		Work: func(_ context.Context, m *message, _ func(string, time.Duration) error) error {
			m.do("work")
			return nil
		},
		Record: func(_ context.Context, m *message, outcome error) error {
			m.do(fmt.Sprintf("record %v", outcome))
			return nil
		},
		Ack: func(_ context.Context, m *message) error { m.do("ack"); return nil },
	}
}

// inQueue runs f in a bubble in the year 2002.
func inQueue(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(2 * 366 * 24 * time.Hour)
		f(t)
	})
}

func TestAMessageIsWorkedOnRecordedAndThenAcknowledged(t *testing.T) {
	inQueue(t, func(t *testing.T) {
		c := consumer()
		m := stamped(t, time.Hour)
		time.Sleep(59 * time.Minute) // far more than the limit of skew: it waited
		require.NoError(t, c.Handle(context.Background(), m))
		assert.Equal(t, []string{"work", "record <nil>", "ack"}, m.did)

		c.Work = func(context.Context, *message, func(string, time.Duration) error) error {
			return errors.New("no such order")
		}
		m = &message{}
		require.NoError(t, c.Handle(context.Background(), m), "what failed for good is settled too")
		assert.Equal(t, []string{"record no such order", "ack"}, m.did)
		assert.Equal(t, wire.Stats{Done: 1, Failed: 1}, c.Stats())
	})
}

func TestAStaleMessageIsDroppedBeforeAnyWork(t *testing.T) {
	inQueue(t, func(t *testing.T) {
		c := consumer()
		m := stamped(t, time.Hour)
		time.Sleep(time.Hour)
		require.NoError(t, c.Handle(context.Background(), m))
		assert.Equal(t, []string{"ack"}, m.did)
		assert.Equal(t, wire.Stats{Dropped: 1}, c.Stats())

		c = consumer()
		var why error
		c.Dead = func(_ context.Context, m *message, err error) error { m.do("dead"); why = err; return nil }
		m.did = nil
		require.NoError(t, c.Handle(context.Background(), m))
		assert.Equal(t, []string{"dead", "ack"}, m.did)
		assert.EqualError(t, why, "budget: expired on arrival: limit peer header X-Expires 0s < per message 10s")
		assert.Equal(t, wire.Stats{DeadLettered: 1}, c.Stats())
	})
}

// Too little left for the work to be worth it is stale too; too little left of the
// consumer's own time is not the message's fault.
func TestTooLittleLeftIsTheMessagesFaultOrTheConsumers(t *testing.T) {
	inQueue(t, func(t *testing.T) {
		c := consumer()
		c.Limit = c.Limit.Require(2 * time.Second)
		m := stamped(t, time.Second)
		require.NoError(t, c.Handle(context.Background(), m))
		assert.Equal(t, []string{"ack"}, m.did)

		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		for _, m := range []*message{stamped(t, time.Hour), stamped(t, time.Second), {}} {
			err := c.Handle(ctx, m)
			assert.Equal(t, budget.LocalBudgetRejected, budget.KindOf(err))
			assert.Empty(t, m.did, "it is delivered again")
		}
		cancel()
		m = stamped(t, time.Hour)
		assert.Error(t, c.Handle(ctx, m))
		assert.Empty(t, m.did)
		assert.Equal(t, wire.Stats{Dropped: 1, Interrupted: 4}, c.Stats())
	})
}

// The work ends at the message's expiry or at its own limit, whichever is first.
func TestTheWorkHasALimitOfItsOwnAndEndsAtTheExpiry(t *testing.T) {
	inQueue(t, func(t *testing.T) {
		for left, want := range map[time.Duration]string{
			3 * time.Second: "budget: deadline exceeded: limit peer header X-Expires 3s < per message 10s",
			time.Hour:       "budget: deadline exceeded: limit per message 10s",
		} {
			c := consumer()
			c.Work = func(ctx context.Context, m *message, _ func(string, time.Duration) error) error {
				<-ctx.Done()
				return context.Cause(ctx)
			}
			start := time.Now()
			m := stamped(t, left)
			require.NoError(t, c.Handle(context.Background(), m))
			assert.Equal(t, []string{"record " + want, "ack"}, m.did)
			assert.Equal(t, min(left, 10*time.Second), time.Since(start))
			assert.Equal(t, wire.Stats{Failed: 1}, c.Stats())
		}
	})
}

func TestPhasesAreCheckedAndNamed(t *testing.T) {
	inQueue(t, func(t *testing.T) {
		c := consumer()
		c.Work = func(ctx context.Context, m *message, check func(string, time.Duration) error) error {
			for _, phase := range []string{"load", "render", "send"} {
				if err := check(phase, 4*time.Second); err != nil {
					return err
				}
				m.do(phase)
				time.Sleep(4 * time.Second)
			}
			return nil
		}
		m := stamped(t, time.Hour)
		require.NoError(t, c.Handle(context.Background(), m))
		assert.Equal(t, []string{"load", "render", "record budget: local budget rejected: phase send, limit per message 10s", "ack"}, m.did)

		// After the end it is the cause of the end that names the phase, and that cause
		// is everybody's: it stays as it was.
		var work context.Context
		c.Work = func(ctx context.Context, _ *message, check func(string, time.Duration) error) error {
			work = ctx
			<-ctx.Done()
			return check("send", 0)
		}
		m = &message{}
		require.NoError(t, c.Handle(context.Background(), m))
		assert.Equal(t, []string{"record budget: deadline exceeded: phase send, limit per message 10s", "ack"}, m.did)
		assert.Empty(t, context.Cause(work).(*budget.Cause).Phase)
	})
}

// A shutdown in the middle of the work is not a failure of the message: it is given
// back. Work that was done all the same is recorded.
func TestAShutdownGivesBackWhatIsNotDone(t *testing.T) {
	inQueue(t, func(t *testing.T) {
		c := consumer()
		for _, done := range []bool{false, true} {
			shutdown, stop, err := budget.Enter(context.Background(), budget.Within(time.Hour))
			require.NoError(t, err)
			c.Work = func(ctx context.Context, m *message, _ func(string, time.Duration) error) error {
				stop()
				if done {
					return nil
				}
				return fmt.Errorf("load: %w", context.Cause(ctx))
			}
			m := stamped(t, time.Minute)
			err = c.Handle(shutdown, m)
			if done {
				assert.NoError(t, err)
				assert.Equal(t, []string{"record <nil>", "ack"}, m.did, "shielded from the shutdown")
			} else {
				assert.Same(t, context.Cause(shutdown), err)
				assert.Empty(t, m.did)
			}
		}
		assert.Equal(t, wire.Stats{Done: 1, Interrupted: 1}, c.Stats())
	})
}

// Nothing is acknowledged whose state is not recorded, and none of the steps hangs.
func TestNothingIsAcknowledgedThatIsNotRecorded(t *testing.T) {
	boom := errors.New("boom")
	fails := func(ctx context.Context, m *message, _ error) error { m.do("fails"); return boom }
	hangs := func(ctx context.Context, m *message, _ error) error { <-ctx.Done(); return context.Cause(ctx) }
	inQueue(t, func(t *testing.T) {
		c := consumer()
		c.Record = fails
		m := &message{}
		assert.Same(t, boom, c.Handle(context.Background(), m))
		assert.Equal(t, []string{"work", "fails"}, m.did)

		c.Dead = fails
		m = stamped(t, ms)
		time.Sleep(ms)
		assert.Same(t, boom, c.Handle(context.Background(), m))
		assert.Equal(t, []string{"fails"}, m.did)

		for bound, want := range map[time.Duration]time.Duration{0: 5 * time.Second, time.Second: time.Second} {
			c.Record, c.SettleTime = hangs, bound
			start := time.Now()
			assert.ErrorIs(t, c.Handle(context.Background(), &message{}), context.DeadlineExceeded)
			assert.Equal(t, want, time.Since(start))
		}

		c.Record = func(context.Context, *message, error) error { return nil }
		c.Ack = func(context.Context, *message) error { return boom }
		assert.Same(t, boom, c.Handle(context.Background(), &message{}))
		assert.Equal(t, wire.Stats{Unsettled: 5}, c.Stats())

		c.Work = func(context.Context, *message, func(string, time.Duration) error) error { panic(boom) }
		assert.PanicsWithValue(t, boom, func() { _ = c.Handle(context.Background(), &message{}) })
	})
}

// An expiry that nobody understands is dead-lettered where there is a place for it,
// and else worked on: it is not thrown away. It has the consumer's limit either way.
func TestAMalformedExpiryIsCountedAndNeverDropped(t *testing.T) {
	inQueue(t, func(t *testing.T) {
		c := consumer()
		m := &message{headers: map[string]string{"X-Expires": "soon"}}
		require.NoError(t, c.Handle(context.Background(), m))
		assert.Equal(t, []string{"work", "record <nil>", "ack"}, m.did)

		m.did = nil
		c.Dead = func(_ context.Context, m *message, why error) error { m.do(why.Error()); return nil }
		require.NoError(t, c.Handle(context.Background(), m))
		assert.Equal(t, []string{`wire: malformed epoch-ms in X-Expires "soon": not a number of ASCII digits`, "ack"}, m.did)
		assert.Equal(t, wire.Stats{Done: 1, DeadLettered: 1, Malformed: 2}, c.Stats())
	})
}

// A sender whose clock is an hour ahead does not make its messages last an hour
// longer; one that is behind is not told from one whose message waited.
func TestASkewedSenderGetsTheTimeItSaidWasLeft(t *testing.T) {
	inQueue(t, func(t *testing.T) {
		for _, form := range instants(time.Minute) {
			value, ok := form.Format(3*time.Second, time.Now().Add(time.Hour))
			require.True(t, ok)
			c := consumer()
			c.Expiry = form
			c.Work = func(ctx context.Context, m *message, _ func(string, time.Duration) error) error {
				left, _ := budget.Remaining(ctx)
				m.do(left.String())
				return nil
			}
			m := &message{headers: map[string]string{"X-Deadline": value}}
			require.NoError(t, c.Handle(context.Background(), m))
			assert.Equal(t, []string{"3s", "record <nil>", "ack"}, m.did)

			value, _ = form.Format(3*time.Second, time.Now().Add(-time.Hour))
			m = &message{headers: map[string]string{"X-Deadline": value}}
			require.NoError(t, c.Handle(context.Background(), m))
			assert.Equal(t, []string{"ack"}, m.did)
			assert.Equal(t, wire.Stats{Done: 1, Dropped: 1, Skewed: 1}, c.Stats())
		}
	})
}

func TestManyMessagesAtOnceAreEachCountedOnce(t *testing.T) {
	inQueue(t, func(t *testing.T) {
		const each = 200
		c := consumer()
		var all sync.WaitGroup
		for i := range 4 * each {
			m := stamped(t, []time.Duration{time.Hour, ms}[i%2])
			all.Go(func() {
				time.Sleep(ms)
				ctx, cancel := context.WithCancel(context.Background())
				if i%4 == 0 {
					cancel()
				}
				defer cancel()
				_ = c.Handle(ctx, m)
			})
		}
		all.Wait()
		assert.Equal(t, wire.Stats{Done: each, Dropped: 2 * each, Interrupted: each}, c.Stats())
	})
}

func TestAConsumerWithAFieldMissingPanics(t *testing.T) {
	for want, spoil := range map[string]func(*wire.Consumer[*message]){
		"wire: Consumer: Expiry X-Expires (remaining-ms) has no instant: a time left does not run while a message waits": func(c *wire.Consumer[*message]) { c.Expiry = wire.Millis("X-Expires") },
		"wire: Consumer: Expiry  (no form) has no instant: a time left does not run while a message waits":               func(c *wire.Consumer[*message]) { c.Expiry = wire.Form{} },
		"wire: Consumer: nil Headers":             func(c *wire.Consumer[*message]) { c.Headers = nil },
		"wire: Consumer: nil Work":                func(c *wire.Consumer[*message]) { c.Work = nil },
		"wire: Consumer: nil Record":              func(c *wire.Consumer[*message]) { c.Record = nil },
		"wire: Consumer: nil Ack":                 func(c *wire.Consumer[*message]) { c.Ack = nil },
		"wire: Consumer: negative SettleTime -1s": func(c *wire.Consumer[*message]) { c.SettleTime = -time.Second },
	} {
		c := consumer()
		spoil(c)
		assert.PanicsWithValue(t, want, func() { _ = c.Handle(context.Background(), &message{}) })
	}
}
