package ctxnode

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type ringFunc func()

func (f ringFunc) Ring() { f() }

func in(d time.Duration, r Ringer) *Alarm {
	now := time.Now()
	return SetAlarm(now, now.Add(d), r)
}

// The timer of the one before is still set, for earlier or for later.
func TestAnAlarmThatServesAgainRingsAtItsOwnTime(t *testing.T) {
	for range 20 {
		for _, before := range []time.Duration{time.Millisecond, time.Hour} {
			in(before, ringFunc(func() { t.Error("it was stopped") })).Stop()
			rung := make(chan time.Time)
			began := time.Now()
			a := in(5*time.Millisecond, ringFunc(func() { rung <- time.Now() }))
			select {
			case at := <-rung:
				assert.GreaterOrEqual(t, at.Sub(began), 5*time.Millisecond)
			case <-time.After(10 * time.Second):
				t.Fatal("it did not ring")
			}
			runtime.KeepAlive(a) // as the ringers of others do: see SetAlarm
		}
	}
}

// stepped is t as it would be had the wall clock been set by that much before it was read.
func stepped(t time.Time, by time.Duration) time.Time {
	// A time with a monotonic part has the seconds of the wall clock from bit 30 on.
	wall := (*uint64)(unsafe.Pointer(&t))
	*wall += uint64(by/time.Second) << 30
	return t
}

// The wall clock is set while the process runs. A deadline that is an instant of it, and has no
// monotonic part, shares timers with others that have one.
func TestAlarmsRingInTimeAfterTheClockWasSet(t *testing.T) {
	began := epoch
	t.Cleanup(func() { epoch = began })
	onTime := func(at time.Time, what string) {
		rung := make(chan struct{})
		a := SetAlarm(time.Now(), at, ringFunc(func() { close(rung) }))
		select {
		case <-rung:
			assert.False(t, time.Now().Before(at), what)
		case <-time.After(10 * time.Second):
			t.Fatalf("%s did not ring", what)
		}
		runtime.KeepAlive(a)
	}
	unset := ringFunc(func() { t.Error("it was stopped") })
	for range 20 { // not each time is the next one given the timer of the one before
		epoch = stepped(began, -time.Hour) // and set forward since
		in(time.Minute, unset).Stop()
		onTime(time.Now().Add(time.Millisecond).Round(0), "an instant of the wall clock")

		epoch = stepped(began, time.Hour) // and set back
		now := time.Now()
		SetAlarm(now, now.Add(time.Minute).Round(0), unset).Stop()
		onTime(time.Now().Add(time.Millisecond), "behind an instant of the wall clock")
	}
}

// Each alarm rings once, or its Stop reports that it will not, also when both come in
// the same instant and the next one gets its timer.
func TestAnAlarmRingsOrWasStopped(t *testing.T) {
	var all sync.WaitGroup
	var stopped, late atomic.Int64
	for range 4 {
		all.Go(func() {
			for i := range 3000 {
				var rung atomic.Int32
				over := make(chan struct{})
				a := in(time.Duration(i%50)*time.Microsecond, ringFunc(func() { rung.Add(1); close(over) }))
				for range i % 64 {
					runtime.Gosched()
				}
				if a.Stop() {
					stopped.Add(1)
					assert.Zero(t, rung.Load())
				} else {
					late.Add(1)
					<-over
					assert.False(t, a.Stop(), "once more")
				}
			}
		})
	}
	all.Wait()
	assert.Positive(t, stopped.Load())
	assert.Positive(t, late.Load())
}

// Its timer fires early, is set to what is left, which is next to nothing, and fires again
// at once.
func TestAnAlarmWhoseTimerIsAMomentEarlyRings(t *testing.T) {
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range 3000 {
				soon := time.Duration(i%40) * 100 * time.Nanosecond
				in(soon, ringFunc(func() {})).Stop()
				rung := make(chan struct{})
				a := in(soon+time.Duration(i%7)*50*time.Nanosecond, ringFunc(func() { close(rung) }))
				select {
				case <-rung:
				case <-time.After(10 * time.Second):
					t.Error("it did not ring")
					return
				}
				runtime.KeepAlive(a)
			}
		})
	}
	all.Wait()
}

// Stop comes while the timer's goroutine looks at whether it is time.
func TestAnAlarmThatIsStoppedWhileItsTimerLooksDoesNotServeAgain(t *testing.T) {
	rung := false
	a := in(time.Hour, ringFunc(func() { rung = true }))
	b := a.bell
	require.True(t, b.state.CompareAndSwap(ready, looking))
	assert.True(t, a.Stop())
	assert.False(t, b.state.CompareAndSwap(looking, ready), "as fire does")
	b.fire()
	assert.False(t, rung)
	for range 100 {
		other := in(time.Hour, ringFunc(func() {}))
		assert.NotSame(t, a, other)
		defer other.Stop()
	}
}

// An alarm that nobody uses any more is not kept by its timer, which may be set to
// fire in an hour.
func TestAnAlarmThatThePoolLetsGoOfIsForgotten(t *testing.T) {
	a := in(time.Hour, ringFunc(func() {}))
	b := weak.Make(a.bell)
	a.Stop()
	a = nil
	assert.Eventually(t, func() bool { runtime.GC(); return b.Value() == nil }, 10*time.Second, time.Millisecond)
}

func TestAnAlarmOfABubbleStaysThere(t *testing.T) {
	in(time.Hour, ringFunc(func() {})).Stop()
	for range 3 {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			for range 3 {
				in(time.Minute, ringFunc(func() { t.Error("it was stopped") })).Stop()
			}
			rung := make(chan struct{})
			in(2*time.Minute, ringFunc(func() { close(rung) }))
			<-rung
			assert.Equal(t, 2*time.Minute, time.Since(began))
		})
	}
}
