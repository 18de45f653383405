package retrybudget

import (
	"fmt"
	"sync/atomic"
)

// A Budget caps the retries and hedges of all calls to one target: successful
// calls earn credit, each retry or hedge spends it, and a small floor needs no
// success. In every span of time from a to b
//
//	retries + hedges ≤ Ratio × successes from a − Window to b
//	                 + PerSecond × (b − a) + Burst
//
// each counted at the instant at which it is allowed and reads the clock. A
// retry starts later than that by its backoff.
//
// Make one for each target and process, and share it between goroutines and
// callers: a Budget made per call caps nothing. It needs no closing: it holds
// no goroutine, and its timer stops by itself a Window after the last success.
//
// With a Pool the Budgets of all processes are one fleet. PerSecond and Burst are
// there once for all of it, and the same bound holds for the fleet together: for
// what all of them retry, and all of their successes. It does so while the Pool is
// slow, gone, restarted, or has forgotten everything, and while members come, crash
// and leave, as long as all clocks agree how long a second is, and one Pool at a
// time lends the floor. Such a Budget is better closed, so that others get what it
// has left. In a synctest bubble it must be made there.
//
// A Budget used in a synctest bubble is best made there; the clock of a bubble
// starts anew, and to a Budget from outside no time passes until it does.
//
// A nil *Budget panics, and so does a zero Budget: whoever wants no cap says so,
// with [Unlimited].
type Budget struct {
	core  *core
	hedge bool
	fan   *fan
}

// A fan is the number of extra attempts left to one fan-out.
type fan struct {
	left atomic.Int64
	up   *fan // of the view it was made from; nil: none
}

// New returns a Budget for the target of that name, which stands in reports and
// errors and must hold nothing secret. An empty name and a Config out of bounds
// panic. New talks to nobody: a Pool is called when there is something to say, and
// must answer within 20 ms to be of use, so it should be less than 15 ms away.
func New(target string, c Config) *Budget {
	if target == "" {
		panic("retrybudget: New: empty target")
	}
	return &Budget{core: newCore(target, c.settle("New"))}
}

// Unlimited returns a Budget that denies nothing and says so in String. It
// counts as any other.
func Unlimited() *Budget {
	c := newCore("unlimited", Config{}.settle("Unlimited"))
	c.unlimited = true
	return &Budget{core: c}
}

// Success adds the credit of one call that went well. One call, one deposit:
// whichever of its attempts it was, and hedged or not. An answer that the
// caller does not like but the target is right to give, such as HTTP 404, is a
// success. Do and DoValue call it themselves. Success never blocks; it costs
// about what an atomic addition costs (BenchmarkContended).
func (b *Budget) Success() {
	b.must("Success")
	b.core.success()
}

// TryTake spends the credit of one retry, or hedge, and reports whether it may
// be made. It never blocks. Do and DoValue call it themselves.
func (b *Budget) TryTake() bool {
	b.must("TryTake")
	var g grant
	return b.take(&g, perToken)
}

// Hedges returns the view of b for hedges. It counts them apart, and it yields
// to retries: a hedge gets nothing of the last half of the live credit, nor of
// the last half of Burst. A hedge makes a good answer faster; a retry makes an
// error good. Nor do hedges save up more than HedgeBurst, see [Config]. The view fits what package race asks of a gate. A race reports no
// successes: call Success yourself, or run the race inside Do.
func (b *Budget) Hedges() *Budget {
	b.must("Hedges")
	v := *b
	v.hedge = true
	return &v
}

// AtMost returns a view of b for one fan-out: all that share the view make n
// extra attempts together, at most, and b has to allow each of them as well.
// Attempts given back count as never made. A view of a view obeys both.
// Zero allows none; a negative n panics.
func (b *Budget) AtMost(n int) *Budget {
	b.must("AtMost")
	if n < 0 {
		panic(fmt.Sprintf("retrybudget: AtMost: negative n %d", n))
	}
	v := *b
	v.fan = &fan{up: b.fan}
	v.fan.left.Store(int64(n))
	return &v
}

// must panics in the name of method when b is nil or was not made by New.
func (b *Budget) must(method string) {
	if b == nil || b.core == nil {
		b.refuse(method)
	}
}

func (b *Budget) refuse(method string) {
	if b == nil {
		panic("retrybudget: " + method + ": nil *Budget; Unlimited() is the one without a cap")
	}
	panic("retrybudget: " + method + ": zero Budget; New makes one")
}

// take takes from every fan and then from the core. A token of a fan is held
// while the core is asked, so another taker may be denied in that instant.
func (b *Budget) take(g *grant, cost uint64) bool {
	for f := b.fan; f != nil; f = f.up {
		if f.left.Add(-1) >= 0 {
			continue
		}
		// Observing denies nothing, so the count may go below zero.
		b.core.denied(b.hedge)
		if b.core.observe {
			b.core.countBeside(b.hedge, 1)
			for f = f.up; f != nil; f = f.up {
				f.left.Add(-1)
			}
			g.hedge = b.hedge
			return true
		}
		b.fan.giveBackUpTo(f.up)
		return false
	}
	ok := b.core.take(g, cost, b.hedge)
	if !ok {
		b.fan.giveBackUpTo(nil)
	}
	return ok
}

func (b *Budget) giveBack(g grant) {
	b.core.giveBack(g)
	b.fan.giveBackUpTo(nil)
}

// giveBackUpTo gives one back to f and all above it until end.
func (f *fan) giveBackUpTo(end *fan) {
	for ; f != end; f = f.up {
		f.left.Add(1)
	}
}

// spent reports whether a fan of b has none left.
func (b *Budget) spent() bool {
	for f := b.fan; f != nil; f = f.up {
		if f.left.Load() <= 0 {
			return true
		}
	}
	return false
}
