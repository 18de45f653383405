package ctxnode

import (
	"sync"
	"time"
)

// An Alarm is a timer that serves one after another: a new one would be two of four
// allocations of a node that ends before its deadline (BenchmarkEnter, within).
type Alarm struct {
	timer  *time.Timer
	ringer Ringer // written while the timer is stopped
	again  bool   // it may serve another one
}

// A Ringer is whom an Alarm calls when its time has come, on a goroutine of its own.
type Ringer interface{ Ring() }

var alarms sync.Pool // of *Alarm, all of them stopped

// SetAlarm returns an alarm that calls r at the instant at. now is what the caller has
// just read from the clock, or zero.
func SetAlarm(now, at time.Time, r Ringer) *Alarm {
	if now.IsZero() {
		now = time.Now()
	}
	left := at.Sub(now)
	// In a synctest bubble a timer must be one that was made there, and nobody outside
	// gets it: time read there has no monotonic part.
	bubble := now == now.Round(0)
	if !bubble {
		if a, _ := alarms.Get().(*Alarm); a != nil {
			a.ringer = r
			a.timer.Reset(left)
			return a
		}
	}
	return newAlarm(left, r, !bubble)
}

//go:noinline
func newAlarm(left time.Duration, r Ringer, again bool) *Alarm {
	a := &Alarm{ringer: r, again: again}
	a.timer = time.AfterFunc(left, func() { a.ringer.Ring() })
	return a
}

// Stop reports whether a will not ring any more. It must not be called again then:
// a is somebody else's.
func (a *Alarm) Stop() bool {
	if !a.timer.Stop() {
		return false
	}
	if a.again {
		a.ringer = nil
		alarms.Put(a)
	}
	return true
}
