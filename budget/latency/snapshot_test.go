package latency_test

import (
	"bytes"
	"encoding"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget/latency"
)

var (
	_ encoding.BinaryMarshaler   = (*latency.Snapshot)(nil)
	_ encoding.BinaryAppender    = (*latency.Snapshot)(nil)
	_ encoding.BinaryUnmarshaler = (*latency.Snapshot)(nil)
)

// The attempts of three processes, sent and added, are those of one that made
// them all.
func TestTheSumOfProcessesIsTheWhole(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	whole := latency.New(latency.Config{})
	var parts [3]*latency.Observed
	for i := range parts {
		parts[i] = latency.New(latency.Config{})
	}
	for i := range 30_000 {
		took, err := bimodal.draw(r), error(nil)
		if i%7 == 0 {
			err = timedOut
		}
		whole.Record(took, err)
		parts[i%3].Record(took, err)
	}
	sum := new(latency.Snapshot)
	for _, p := range parts {
		sent, err := p.Snapshot().MarshalBinary()
		require.NoError(t, err)
		assert.Less(t, len(sent), 3000, "compact")
		t.Logf("%d bytes", len(sent))
		received := new(latency.Snapshot)
		require.NoError(t, received.UnmarshalBinary(sent))
		assert.Equal(t, p.Snapshot(), received)
		sum.Add(received)
	}
	assert.Equal(t, whole.Snapshot(), sum)
	assert.InDelta(t, 1/7.0, sum.FalseTimeouts(), 0.001)
}

func TestBytesThatAreNoSnapshotAreRefused(t *testing.T) {
	for want, data := range map[string]string{
		"empty":                                     "",
		"unknown version":                           "\x02\x00\x00",
		"cut short, or a number beyond 64 bits":     "\x01\x00",
		"a bucket beyond the last":                  "\x01\x00\x00\x80\x0d\x01\x00",
		"an empty bucket":                           "\x01\x00\x00\x05\x00\x00",
		"a number that is too large":                "\x01\x00\x00\x05\xff\xff\xff\xff\xff\xff\xff\x01\x00",
		"a number with more bytes than it needs":    "\x01\x00\x00\x85\x00\x01\x00",
		"cut short, or a number beyond 64 bits\x00": "\x01\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
	} {
		want = string(bytes.Trim([]byte(want), "\x00"))
		s := new(latency.Snapshot)
		require.NoError(t, s.UnmarshalBinary([]byte("\x01\x01\x02\x05\x03\x04")))
		assert.Equal(t, latency.Stats{Answered: 3, CutOff: 4, TimedOut: 1, LeftOut: 2}, s.Stats())
		err := s.UnmarshalBinary([]byte(data))
		var fe *latency.FormatError
		if assert.ErrorAs(t, err, &fe, "%q", data) {
			assert.EqualError(t, err, "latency: malformed snapshot: "+want)
		}
		assert.Zero(t, s.Stats(), "empty after an error")
	}
}

// The last bucket can be written, and one after it cannot.
func TestEveryBucketIsWritten(t *testing.T) {
	o := latency.New(latency.Config{Window: time.Hour})
	for d := 4 * us; d < 300*time.Second; d += d / 200 {
		o.Record(d, nil)
	}
	data, err := o.Snapshot().AppendBinary([]byte("before"))
	require.NoError(t, err)
	s := new(latency.Snapshot)
	require.NoError(t, s.UnmarshalBinary(data[len("before"):]))
	assert.Equal(t, o.Snapshot(), s)
	assert.Error(t, s.UnmarshalBinary(append(data[len("before"):], 0, 1, 0)))
}

// Whatever peers send, sums stay within bounds and answers stay answers.
func TestSumsDoNotOverflow(t *testing.T) {
	most := new(latency.Snapshot)
	require.NoError(t, most.UnmarshalBinary([]byte("\x01\x00\x00\x05\x80\x80\x80\x80\x80\x80\x40\x80\x80\x80\x80\x80\x80\x40")))
	sum := new(latency.Snapshot)
	sum.Add(most)
	for range 70 { // 2^64 would be reached after 16
		sum.Add(sum)
	}
	assert.Equal(t, most.Stats(), sum.Stats())
	_, ok := sum.Quantile(0.5)
	assert.True(t, ok)
}

func FuzzUnmarshalSnapshot(f *testing.F) {
	f.Add([]byte("\x01\x00\x00"))
	f.Add([]byte("\x01\x01\x02\x05\x03\x04"))
	f.Add([]byte("\x01\x00\x00\x85\x00\x01\x00"))
	f.Add([]byte("\x01\x00\x00\xff\x0c\x01\x00"))
	o := latency.New(latency.Config{})
	for i := range 100 {
		o.Record(time.Duration(i)*ms, nil)
		o.Record(time.Duration(i)*us, timedOut)
	}
	sent, _ := o.Snapshot().MarshalBinary()
	f.Add(sent)
	f.Fuzz(func(t *testing.T, data []byte) {
		s := new(latency.Snapshot)
		if err := s.UnmarshalBinary(data); err != nil {
			if _, ok := err.(*latency.FormatError); !ok || *s != (latency.Snapshot{}) {
				t.Fatalf("%v, %v", err, s)
			}
			return
		}
		back, err := s.MarshalBinary()
		if err != nil || !bytes.Equal(back, data) {
			t.Fatalf("%x is written again as %x, %v", data, back, err)
		}
		low, _ := s.Quantile(0.5)
		high, _ := s.Quantile(0.999)
		if low < 0 || low > 300*time.Second || high != 0 && high < low {
			t.Fatalf("p50 %v, p99.9 %v", low, high)
		}
		if rate := s.FalseTimeouts(); !(rate >= 0 && rate <= 1) {
			t.Fatal(rate)
		}
		_ = s.String()
	})
}
