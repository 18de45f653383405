package ctxnode

import (
	"runtime"
	"sync"
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
type bell struct {
	mu     sync.Mutex
	timer  *time.Timer
	ringer Ringer    // nil: nobody is to be called
	at     time.Time // when ringer is to be called
	fires  time.Time // when the timer does; zero: it is not set
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
	b := &bell{ringer: r, at: at, fires: at}
	a := &Alarm{b, again}
	*place = a
	b.mu.Lock()
	b.timer = time.AfterFunc(at.Sub(now), b.fire)
	b.mu.Unlock()
	if again {
		runtime.AddCleanup(a, func(t *time.Timer) { t.Stop() }, b.timer)
	}
}

func (b *bell) set(now, at time.Time, r Ringer) {
	b.mu.Lock()
	b.ringer, b.at = r, at
	if b.fires.IsZero() || at.Before(b.fires) {
		b.fires = at
		b.timer.Reset(at.Sub(now))
	}
	b.mu.Unlock()
}

// fire is the timer's.
func (b *bell) fire() {
	b.mu.Lock()
	r := b.ringer
	if r != nil {
		if left := time.Until(b.at); left > 0 {
			b.fires = b.at
			b.timer.Reset(left)
			b.mu.Unlock()
			return
		}
	}
	b.ringer, b.fires = nil, time.Time{}
	b.mu.Unlock()
	if r != nil {
		r.Ring()
	}
}

// Stop reports whether a will not ring any more. It must not be called again then:
// a is somebody else's.
func (a *Alarm) Stop() bool {
	b := a.bell
	b.mu.Lock()
	stopped := b.ringer != nil
	b.ringer = nil
	if !a.again {
		b.timer.Stop()
	}
	b.mu.Unlock()
	if stopped && a.again {
		alarms.Put(a)
	}
	return stopped
}
