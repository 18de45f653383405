package retrybudget

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

var errNoAnswer = errors.New("retrybudget: Sync of the Pool did not return")

// Calls are made at most once for each period, over time. One that a want makes
// before its time is borrowed from the next period, and only one can be, so that
//
//	calls in any span ≤ span ÷ period + 2
//
// A period is 200 to 300 ms, drawn anew each time: members that started together
// do not call together for ever.
func drawPeriod() int64 { return poolPeriod*4/5 + rand.Int64N(poolPeriod*2/5+1) }

// arm starts the timer; the core calls it when its own starts.
func (f *fleet) arm(now int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armLocked(now)
}

func (f *fleet) armLocked(now int64) {
	// One that is long overdue belongs to a bubble that is gone.
	if f.left != nil || f.armed && now < f.tickAt+4*poolPeriod && now >= f.tickAt-4*poolPeriod {
		return
	}
	f.armed = true
	if f.nextAt <= now { // also of those that were made at this instant
		f.nextAt = now + rand.Int64N(poolPeriod+1) // the first one at a random place of the period
	}
	f.startTimerLocked(now)
}

func (f *fleet) startTimerLocked(now int64) {
	f.timer++
	number := f.timer
	f.tickAt = min(max(f.nextAt, now+1), now+2*poolPeriod)
	time.AfterFunc(time.Duration(f.tickAt-now), func() { f.tick(number) })
}

// tick makes the call that is due, and the next timer unless there is nothing
// left that could need one.
func (f *fleet) tick(number uint64) {
	now := f.core.upToDate()
	f.mu.Lock()
	defer f.mu.Unlock()
	if number != f.timer || f.left != nil {
		return
	}
	f.lapseLocked(now)
	if f.flight != nil && now-f.sentAt > int64(poolTimeout) {
		f.failLocked(errNoAnswer) // it does not even obey its context
	}
	if f.flight == nil && now >= f.nextAt {
		f.startLocked(now)
	}
	// The core sets its own armed before it calls arm.
	busy := f.core.armed.Load() || len(f.leases) > 0 || !f.backs.none() || f.wanted.Load() > 0 || now < f.holdTill
	if !busy && (f.flight == nil || f.lost.Load()) {
		f.armed = false
		f.askLaterLocked()
		return
	}
	if f.nextAt <= now {
		f.nextAt = now + drawPeriod()
	}
	f.startTimerLocked(now)
}

// startLocked starts a call if there is something to say.
func (f *fleet) startLocked(now int64) {
	early := now < f.nextAt
	f.nextAt = max(f.nextAt, now) + drawPeriod()
	f.flight = make(chan struct{})
	f.sentAt = now
	f.askAt.Store(f.nextAt)
	go f.call(now, early)
}

// call makes one call of the pool, which began at the instant at. Own credit is
// given only while the pool answers and its clock is known; otherwise it goes on
// paying here, and the call is there to ask for the time.
func (f *fleet) call(at int64, early bool) {
	extra := f.core.extra()
	f.mu.Lock()
	local, knows := f.lost.Load(), f.knowsClockLocked(at)
	f.mu.Unlock()
	var p part
	talk := local
	switch {
	case local:
	case knows:
		p = f.core.excess(false)
	default:
		talk = f.core.spares(false)
	}
	r, ok := f.request(at, p, extra, talk)
	if !ok {
		return
	}
	g, err := PoolGrant{}, errNoAnswer
	defer func() { f.finish(at, r, g, err, early) }() // also when Sync ends the goroutine
	ctx, cancel := context.WithTimeout(context.Background(), poolTimeout)
	defer cancel()
	g, err = f.sync(ctx, r)
}

// sync calls the pool. A panic there would be on a goroutine of ours, where nobody
// else can recover it.
func (f *fleet) sync(ctx context.Context, r PoolRequest) (g PoolGrant, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("retrybudget: Sync of the Pool panicked: %v", p)
		}
	}()
	return f.pool.Sync(ctx, r)
}

// request puts together what is to be said. There may be nothing, and then the
// period is as if it had not been: who wants something meanwhile asks at once. That
// it has retried is something to say, whatever paid for that: who retries must hear
// of a hold. A member that has lost the pool always asks, to find it again.
func (f *fleet) request(at int64, p part, extra uint64, talk bool) (r PoolRequest, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	wanted := min(f.wanted.Swap(0), maxPoolAmount)
	if p.amount == 0 && f.backs.none() && wanted == 0 && f.holdTill == 0 && extra == f.told && !talk {
		f.endFlightLocked()
		if f.left == nil {
			f.askAt.Store(0)
		}
		return r, false
	}
	f.told = extra
	r = f.messageLocked(at, p)
	r.Want = wanted
	return r, true
}

// messageLocked takes what goes back out of f.
func (f *fleet) messageLocked(at int64, p part) PoolRequest {
	f.seq++
	d := f.dateLocked(p)
	r := PoolRequest{
		Target: f.core.target, Member: f.member, Seq: f.seq,
		Epoch: f.epoch, Donate: d.amount, Expires: d.expires, PerSecond: f.rate, Burst: f.burst,
		Hold: time.Duration(min(max(f.holdTill-at, 0), int64(maxHold))),
	}
	f.holdTill = 0
	f.takeBacksLocked(&r)
	return r
}

// finish books the answer to a call that began at the instant at. Without one, what
// was given is lost, and so is what may have been lent: the pool's books have both
// as spent.
func (f *fleet) finish(at int64, r PoolRequest, g PoolGrant, err error, early bool) {
	now := f.core.upToDate()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.endFlightLocked()
	if err == nil {
		err = g.Check(r)
	}
	if err != nil {
		f.stranded.Add(uint64(r.Donate + r.Return))
		if r.Hold > 0 && now < at+int64(r.Hold) {
			f.holdTill = max(f.holdTill, at+int64(r.Hold))
		}
		f.failLocked(err)
		return
	}
	f.heardLocked(now, r, g)
	f.granted.Add(uint64(g.Granted))
	switch {
	case f.left != nil && f.left.gone:
		f.stranded.Add(uint64(g.Granted)) // too late to be given back
	case g.Granted > 0:
		l := &lease{
			credit: g.Granted - g.Floor, floor: g.Floor, until: at + int64(g.Life),
			epoch: g.Epoch, expires: g.Expires, lent: g.Lent,
		}
		f.lent.Add(g.Granted)
		f.listLocked(l)
	}
	f.core.holdUntil(now + int64(g.Hold))
	switch {
	case f.left != nil: // asks for nothing any more
	case g.Granted < r.Want || early:
		f.askAt.Store(f.nextAt)
	default:
		f.askAt.Store(0)
	}
}

// heardLocked books what an answer says of the pool itself.
func (f *fleet) heardLocked(now int64, r PoolRequest, g PoolGrant) {
	if g.Epoch != r.Epoch { // it has forgotten what this was about
		f.stranded.Add(uint64(r.Donate+r.Return) + f.backs.clear())
	}
	f.lost.Store(false)
	f.err = nil
	f.empty = g.Granted < r.Want || g.Balance < perToken
	f.members, f.answered = g.Members, now
	f.epoch, f.clock = g.Epoch, g.Now
}

func (f *fleet) endFlightLocked() {
	if f.flight != nil {
		close(f.flight)
		f.flight = nil
	}
}

// failLocked goes on without the pool: nobody waits for it, and one call each
// period looks whether it is back.
func (f *fleet) failLocked(err error) {
	f.lost.Store(true)
	f.err = err
	f.stranded.Add(f.backs.clear())
	f.askLaterLocked()
}

// askLaterLocked says who looks whether a lost pool is back: the timer, or when
// that has stopped the next want.
func (f *fleet) askLaterLocked() {
	switch {
	case !f.lost.Load():
	case f.armed || f.left != nil:
		f.askAt.Store(never)
	default:
		f.askAt.Store(0)
	}
}
