package latency

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
	"math"
)

func TestZZStaleTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := New(Config{Window: 6 * time.Second})
		time.Sleep(5500 * time.Millisecond) // epoch 5
		late := &o.ring[index(5)]
		time.Sleep(6 * time.Second) // epoch 11: same place
		for range 1000 { o.Record(time.Millisecond, nil) }
		o.turn(late, 5) // a goroutine that stood still between reading the clock and the epoch
		t.Log(o.Snapshot().Stats())
	})
}

func TestZZExtremes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := New(Config{Window: 1})
		for range 100 { o.Record(math.MinInt64, nil); o.Record(math.MaxInt64, nil); o.CutOff(-5) ; o.Record(-1, errors.New("x"))}
		t.Log(o.Snapshot(), o.Typical(), o.Timeout(), o.HedgeDelay())
		for _, c := range []Config{{FalseTimeouts: 1e-300}, {FalseTimeouts: math.SmallestNonzeroFloat64}, {HedgeAt: 1e-300}, {HedgeAt: 0.9999999999999999}, {FalseTimeouts: 0.9999999999999999},{FalseTimeouts: 1e-18}} {
			o := New(c)
			for range 100000 { o.Record(5*time.Millisecond, nil) }
			t.Log(c, o.Snapshot().Stats(), o.Typical(), o.Timeout(), o.HedgeDelay())
			func() { defer func() { if r := recover(); r != nil { t.Log(r) } }(); o.Snapshot().Quantile(1-c.FalseTimeouts) }()
		}
		for _, c := range []Config{{FalseTimeouts: math.NaN()}, {Initial: time.Minute}, {Max: time.Millisecond}, {Max: time.Millisecond, Initial: time.Second}} {
			func() { defer func() { t.Log(recover()) }(); o := New(c); t.Log(o.Timeout()) }()
		}
	})
}

func TestZZEmptyTimeoutBelowTypical(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// timeouts that only cut: Typical vs Timeout order
		o := New(Config{Max: 50 * time.Millisecond})
		for range 20000 { o.Record(100*time.Millisecond, nil) }
		t.Log(o.Typical(), o.Timeout(), o.HedgeDelay(), "Require above Within!")
	})
}

func TestZZHedgeWithCutoffs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := New(Config{})
		for range 20000 { o.Record(100*time.Millisecond, context.DeadlineExceeded) }
		t.Log(o.Typical(), o.Timeout(), o.HedgeDelay(), o.Snapshot())
	})
}
