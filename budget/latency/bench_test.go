package latency_test

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/curfew-go/curfew/budget/latency"
)

// drawn are latencies to record, so that drawing them costs nothing.
var drawn = func() (d [4096]time.Duration) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range d {
		d[i] = usual.draw(r)
	}
	return d
}()

// net/http returns the cause of the context within an error of its own.
func TestRecordingAnAttemptAllocatesNothing(t *testing.T) {
	o := latency.New(latency.Config{})
	for _, err := range []error{nil, timedOut, lost, &url.Error{Op: "Get", Err: timedOut}, fmt.Errorf("call: %w", lost)} {
		assert.Zero(t, testing.AllocsPerRun(100, func() { o.Record(5*ms, err) }), "%v", err)
	}
	assert.Equal(t, uint64(2*101), o.Snapshot().Stats().TimedOut)
}

// BenchmarkRecord is what one attempt costs, the reading of the clock included;
// "clock" is that reading alone.
func BenchmarkRecord(b *testing.B) {
	b.Run("clock", func(b *testing.B) {
		start := time.Now()
		for b.Loop() {
			if time.Since(start) < 0 {
				b.Fatal("backwards")
			}
		}
	})
	for name, err := range map[string]error{"answer": nil, "timeout": timedOut, "race lost": lost, "wrapped timeout": fmt.Errorf("call: %w", timedOut)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			o := latency.New(latency.Config{})
			for i := 0; b.Loop(); i++ {
				o.Record(drawn[i%len(drawn)], err)
			}
		})
		b.Run(name+", parallel", func(b *testing.B) {
			b.ReportAllocs()
			o := latency.New(latency.Config{})
			b.RunParallel(func(pb *testing.PB) {
				for i := 0; pb.Next(); i++ {
					o.Record(drawn[i%len(drawn)], err)
				}
			})
		})
	}
	b.Run("answer, all alike, parallel", func(b *testing.B) {
		b.ReportAllocs()
		o := latency.New(latency.Config{})
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				o.Record(5*ms, nil)
			}
		})
	})
}

// BenchmarkAnswer is what a question costs: kept, and worked out anew.
func BenchmarkAnswer(b *testing.B) {
	o := latency.New(latency.Config{})
	for range 10 {
		for _, d := range drawn {
			o.Record(d, nil)
		}
	}
	b.Run("kept", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if o.Timeout() == 0 {
				b.Fatal("no timeout")
			}
		}
	})
	b.Run("anew", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			o.SetPeers()
			if o.Timeout() == 0 {
				b.Fatal("no timeout")
			}
		}
	})
}
