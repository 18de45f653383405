package ctxnode

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// An Alarm calls somebody at an instant. It serves one after another: a new one costs
// more allocations than all else about a node that ends before its deadline
// (BenchmarkEnter, within).
//
// Nearly all alarms are stopped long before their time, and to stop a timer and to set
// it again is most of what they cost. So the timer of a stopped
// one is left alone, and mostly the next one finds that it is set early enough: it then
// fires once for nobody, or for somebody who wants to be called later, and is set to that.
type Alarm struct {
	bell  *bell
	again bool // it may serve another one
}

// A bell is what the timer of an Alarm holds on to. It does not lead to the Alarm: one
// that the pool lets go of takes its timer along.
//
// It takes no lock, and moves by single steps:
//
//	quiet ──set──▶ ready ──the timer fires──▶ looking ──it was early──▶ ready
//	  ▲              │                          │  └──▶ quiet   it rings
//	  └─────Stop─────┘                          └─Stop─▶ quiet  it will not, nor serve again
//
// Who sets it owns it while it is quiet, and writes ringer and at then; the timer's
// goroutine reads them while it is looking.
type bell struct {
	timer  *time.Timer
	ringer Ringer    // whom to call
	at     time.Time // and when
	state  atomic.Uint32
	// fires is when the timer does, counted from epoch; 0: it may not be set. The
	// timer's goroutine says 0 and looks at state then; who sets the bell says ready and
	// looks at fires then. Of two that do so at the same time, one sees the other.
	fires atomic.Int64
}

// The states of a bell.
const (
	quiet uint32 = iota
	ready
	looking
)

var epoch = time.Now()

// after returns the instant that is left after now, counted from epoch. It never counts up
// to an instant itself: one without a monotonic part is as far from epoch as the wall
// clock has it, which may have been set since.
func after(now time.Time, left time.Duration) int64 {
	if d := now.Sub(epoch) + left; d > 0 || left < 0 {
		return int64(d)
	}
	return math.MaxInt64
}

// A Ringer is whom an Alarm calls when its time has come, on a goroutine of its own.
type Ringer interface{ Ring() }

var alarms sync.Pool // of *Alarm without a ringer

// SetAlarm returns an alarm that calls r at the instant at. now is what the caller has
// just read from the clock, or zero. Until then r has to lead to the alarm: one that
// nobody holds is collected, and does not ring.
func SetAlarm(now, at time.Time, r Ringer) *Alarm {
	var a *Alarm
	setAlarm(&a, now, at, r)
	return a
}

// setAlarm is SetAlarm for an r that holds its alarm in place: it stands there before r
// is called.
func setAlarm(place **Alarm, now, at time.Time, r Ringer) {
	if now.IsZero() {
		now = time.Now()
	}
	// In a synctest bubble a timer must be one that was made there, and nobody outside
	// gets it: time read there has no monotonic part.
	bubble := now == now.Round(0)
	if !bubble {
		if a, _ := alarms.Get().(*Alarm); a != nil {
			*place = a
			a.bell.set(now, at, r)
			return
		}
	}
	newAlarm(place, now, at, r, !bubble)
}

//go:noinline
func newAlarm(place **Alarm, now, at time.Time, r Ringer, again bool) {
	b := &bell{}
	a := &Alarm{b, again}
	*place = a
	left := at.Sub(now)
	b.fires.Store(after(now, left))
	b.timer = time.AfterFunc(left, b.fire)
	b.set(now, at, r) // sets the timer again when it has fired already
	if again {
		runtime.AddCleanup(a, func(t *time.Timer) { t.Stop() }, b.timer)
	}
}

func (b *bell) set(now, at time.Time, r Ringer) {
	b.ringer, b.at = r, at
	b.state.Store(ready)
	left := at.Sub(now)
	due := after(now, left)
	if fires := b.fires.Load(); fires == 0 || due < fires {
		b.fires.Store(due)
		b.timer.Reset(left)
	}
}

// fire is the timer's.
func (b *bell) fire() {
	for {
		b.fires.Store(0)
		if !b.state.CompareAndSwap(ready, looking) {
			return
		}
		now := time.Now()
		left := b.at.Sub(now)
		if left <= 0 {
			break
		}
		b.fires.Store(after(now, left))
		b.timer.Reset(left)
		if !b.state.CompareAndSwap(looking, ready) {
			b.timer.Stop()
			return
		}
		if b.fires.Load() != 0 {
			return
		}
		// It has fired meanwhile, and found that somebody was looking.
	}
	r := b.ringer
	b.ringer = nil
	if b.state.CompareAndSwap(looking, quiet) {
		r.Ring()
	}
}

// Stop reports whether a will not ring any more. It must not be called again then:
// a is somebody else's.
func (a *Alarm) Stop() bool {
	b := a.bell
	switch {
	case b.state.CompareAndSwap(ready, quiet):
		b.ringer = nil
		if a.again {
			alarms.Put(a)
			return true
		}
	case !b.state.CompareAndSwap(looking, quiet):
		return false
	}
	b.timer.Stop()
	return true
}
