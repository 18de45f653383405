package wire_test

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget/wire"
)

const (
	ms = time.Millisecond
	// ceiling is what ten digits can say, about 115 days.
	ceiling = 9_999_999_999 * ms
)

// vectors are those of the project, as far as they are about this form.
type vectors struct {
	Parse []struct {
		Input, Result, Ns, Note string
	}
	Encode []struct {
		RemainingNs string `json:"remaining_ns"`
		SlushNs     string `json:"slush_ns"`
		Output      *string
	}
	Transit []struct {
		Remaining, Slush, Transit, Sent int64
		TrueRemaining                   int64 `json:"true_remaining_on_arrival"`
		ErrsEarlyBy                     int64 `json:"callee_errs_early_by"`
	}
	Slush struct {
		PerHopMs  []int64 `json:"per_hop_ms"`
		Hops      int
		RemovedMs []int64 `json:"removed_ms"`
		Share     []float64
	}
}

func read(t testing.TB) (v vectors) {
	text, err := os.ReadFile("testdata/remaining-ms.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &v))
	require.NotEmpty(t, v.Parse)
	require.NotEmpty(t, v.Encode)
	require.NotEmpty(t, v.Transit)
	return v
}

func nanos(t testing.TB, s string) time.Duration {
	n, err := strconv.ParseInt(s, 10, 64)
	require.NoError(t, err)
	return time.Duration(n)
}

func TestParseVectors(t *testing.T) {
	for _, v := range read(t).Parse {
		t.Run(v.Input, func(t *testing.T) {
			got, err := wire.ParseMillis(v.Input)
			switch v.Result {
			case "duration":
				require.NoError(t, err)
				assert.Equal(t, nanos(t, v.Ns), got)
			case "expired":
				require.NoError(t, err)
				assert.Zero(t, got)
			case "malformed":
				var fe *wire.FormatError
				require.ErrorAs(t, err, &fe)
				assert.Zero(t, got, "a malformed value is never a value")
				assert.Equal(t, "remaining-ms", fe.Form)
				assert.True(t, strings.HasPrefix(err.Error(), "wire: malformed remaining-ms "), err)
				if strings.Contains(v.Note, "looks like an epoch") {
					assert.ErrorContains(t, err, "an instant")
				}
			default:
				t.Fatalf("result %q", v.Result)
			}
		})
	}
}

func TestEncodeVectors(t *testing.T) {
	for _, v := range read(t).Encode {
		t.Run(v.RemainingNs+" less "+v.SlushNs, func(t *testing.T) {
			slush := nanos(t, v.SlushNs)
			left := nanos(t, v.RemainingNs)
			got, ok := wire.FormatMillis(left - slush)
			if slush > 0 { // the same by the type that takes it off
				assert.Equal(t, slush, wire.Slush{Floor: slush, Cap: slush}.Of(left))
			}
			if v.Output == nil {
				assert.False(t, ok)
				assert.Empty(t, got, "there is nothing that could be sent by mistake")
				return
			}
			assert.True(t, ok)
			assert.Equal(t, *v.Output, got)
		})
	}
}

// A receiver never gets more than the sender had: it errs early, by the slush
// less what the way took.
func TestTransit(t *testing.T) {
	for _, v := range read(t).Transit {
		slush := wire.Slush{Floor: time.Duration(v.Slush) * ms, Cap: time.Duration(v.Slush) * ms}
		left := time.Duration(v.Remaining) * ms
		sent, ok := wire.FormatMillis(left - slush.Of(left))
		require.True(t, ok)
		assert.Equal(t, strconv.FormatInt(v.Sent, 10), sent)
		got, err := wire.ParseMillis(sent)
		require.NoError(t, err)
		onArrival := left - time.Duration(v.Transit)*ms
		assert.Equal(t, time.Duration(v.TrueRemaining)*ms, onArrival)
		assert.Equal(t, time.Duration(v.ErrsEarlyBy)*ms, onArrival-got)
		assert.LessOrEqual(t, got, onArrival)
	}
}

// What several hops take off, at so much per hop.
func TestSlushOverSeveralHops(t *testing.T) {
	v := read(t).Slush
	for i, perHop := range v.PerHopMs {
		slush := wire.Slush{Floor: time.Duration(perHop) * ms, Cap: time.Duration(perHop) * ms}
		left := 500 * ms // of which that is the share given
		for range v.Hops {
			left -= slush.Of(left)
		}
		removed := 500*ms - left
		assert.Equal(t, time.Duration(v.RemovedMs[i])*ms, removed)
		assert.InDelta(t, v.Share[i], float64(removed)/float64(500*ms), 1e-9)
	}
}

func TestEncodingRoundsDownAndIsBounded(t *testing.T) {
	for _, tt := range []struct {
		left time.Duration
		want string
	}{
		{ms - 1, ""},
		{ms, "1"},
		{2*ms - 1, "1"},
		{300*ms + 999_999, "300"},
		{time.Second, "1000"},
		{ceiling, "9999999999"},
		{ceiling + 1, "9999999999"},
		{ceiling + ms, "9999999999"},
		{math.MaxInt64, "9999999999"},
		{0, ""},
		{-1, ""},
		{-ms, ""},
		{-time.Hour, ""},
		{math.MinInt64, ""},
	} {
		got, ok := wire.FormatMillis(tt.left)
		assert.Equal(t, tt.want, got, "%d", tt.left)
		assert.Equal(t, tt.want != "", ok, "%d", tt.left)
	}
}

func TestParsingIsStrict(t *testing.T) {
	for _, s := range []string{
		"0x1", "1_000", "1,000", "１", "1\x00", "\x001", "1\n", "\t1", "NaN", "Inf", "-0", "+0", "1 2", "1;2", "1,2",
		"99999999999", "00000000001", strings.Repeat("9", 1000), strings.Repeat("0", 11), "\xff", "é",
	} {
		got, err := wire.ParseMillis(s)
		var fe *wire.FormatError
		assert.ErrorAs(t, err, &fe, "%q", s)
		assert.Zero(t, got)
	}
	for s, want := range map[string]time.Duration{"0000000001": ms, "0000000000": 0, "007": 7 * ms, "9999999999": ceiling} {
		got, err := wire.ParseMillis(s)
		assert.NoError(t, err)
		assert.Equal(t, want, got, "%q", s)
	}
}

// A peer can send anything; what stands in our logs is short, and on one line.
func TestAFormatErrorIsShortAndPrintable(t *testing.T) {
	for _, s := range []string{strings.Repeat("é", 5000), "1\r\nX-Evil: 1", strings.Repeat("9", 100)} {
		_, err := wire.ParseMillis(s)
		require.Error(t, err)
		text := err.Error()
		assert.Less(t, len(text), 300)
		assert.NotContains(t, text, "\n")
		assert.NotContains(t, text, "\r")
		var fe *wire.FormatError
		require.True(t, errors.As(err, &fe))
		assert.LessOrEqual(t, len(fe.Value), 32)
		assert.NotEmpty(t, fe.Why)
	}
}

func TestSlush(t *testing.T) {
	for _, tt := range []struct {
		name  string
		slush wire.Slush
		left  time.Duration
		want  time.Duration
	}{
		{"default, its share", wire.Slush{}, 500 * ms, 25 * ms},
		{"default, its floor", wire.Slush{}, 10 * ms, 2 * ms},
		{"default, at its floor", wire.Slush{}, 40 * ms, 2 * ms},
		{"default, its cap", wire.Slush{}, time.Minute, 50 * ms},
		{"default, at its cap", wire.Slush{}, time.Second, 50 * ms},
		{"default, nothing left", wire.Slush{}, 0, 2 * ms},
		{"default, less than nothing left", wire.Slush{}, -time.Second, 2 * ms},
		{"default, all the time there is", wire.Slush{}, math.MaxInt64, 50 * ms},
		{"own", wire.Slush{Share: 0.1, Floor: 5 * ms, Cap: 20 * ms}, 100 * ms, 10 * ms},
		{"own, floor", wire.Slush{Share: 0.1, Floor: 5 * ms, Cap: 20 * ms}, 10 * ms, 5 * ms},
		{"own, cap", wire.Slush{Share: 0.1, Floor: 5 * ms, Cap: 20 * ms}, time.Second, 20 * ms},
		{"fixed", wire.Slush{Floor: 10 * ms, Cap: 10 * ms}, time.Second, 10 * ms},
		{"a share alone", wire.Slush{Share: 0.1}, time.Second, 100 * ms},
		{"a floor alone", wire.Slush{Floor: 5 * ms}, time.Second, 5 * ms},
		{"a share and a floor", wire.Slush{Share: 0.1, Floor: 5 * ms}, time.Minute, 6 * time.Second},
		{"next to nothing", wire.Slush{Cap: 1}, time.Second, 0},
		{"a floor above the cap", wire.Slush{Floor: 20 * ms, Cap: 10 * ms}, time.Second, 10 * ms},
		{"more than all of it", wire.Slush{Share: 2, Cap: time.Hour}, time.Second, 2 * time.Second},
		{"a negative share", wire.Slush{Share: -1, Cap: time.Second}, time.Second, 0},
		{"negative bounds", wire.Slush{Share: 0.1, Floor: -time.Second, Cap: -time.Second}, time.Second, 0},
		{"no number", wire.Slush{Share: math.NaN(), Floor: ms, Cap: time.Second}, time.Second, ms},
	} {
		t.Run(tt.name, func(t *testing.T) { assert.Equal(t, tt.want, tt.slush.Of(tt.left)) })
	}
}

// The receiver never gets more than the sender had, whatever slush is set.
func TestSlushIsNeverNegative(t *testing.T) {
	for _, share := range []float64{0, 0.05, 1, 1e300, -1, math.NaN(), math.Inf(1), math.Inf(-1)} {
		for _, floor := range []time.Duration{0, ms, -ms, math.MaxInt64, math.MinInt64} {
			for _, most := range []time.Duration{0, ms, -ms, math.MaxInt64, math.MinInt64} {
				for _, left := range []time.Duration{0, 1, ms, time.Hour, -time.Hour, math.MaxInt64, math.MinInt64} {
					s := wire.Slush{Share: share, Floor: floor, Cap: most}
					assert.GreaterOrEqual(t, s.Of(left), time.Duration(0), "%+v of %v", s, left)
				}
			}
		}
	}
}

func FuzzParseMillis(f *testing.F) {
	for _, v := range read(f).Parse {
		f.Add(v.Input)
	}
	for _, s := range []string{"", "0", "1", "00", "0000000001", "9999999999", "10000000000", "-1", "1e9", "\x00", "９"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := wire.ParseMillis(s)
		if err != nil {
			var fe *wire.FormatError
			if !errors.As(err, &fe) || got != 0 {
				t.Fatalf("%q: %v, %v", s, got, err)
			}
			return
		}
		if got < 0 || got > ceiling || got%ms != 0 {
			t.Fatalf("%q: %v", s, got)
		}
		if len(s) > 10 || strings.Trim(s, "0123456789") != "" {
			t.Fatalf("%q was taken for a number", s)
		}
		want, err := strconv.ParseUint(s, 10, 64) // the plain twin
		if err != nil || time.Duration(want)*ms != got {
			t.Fatalf("%q: %v, not %v", s, got, want)
		}
		back, ok := wire.FormatMillis(got)
		if ok != (got > 0) || ok && back != strconv.FormatUint(want, 10) {
			t.Fatalf("%q: written again as %q, %v", s, back, ok)
		}
	})
}

func FuzzFormatMillis(f *testing.F) {
	for _, d := range []int64{0, 1, -1, 999_999, 1_000_000, 1_999_999, int64(ceiling), math.MaxInt64, math.MinInt64} {
		f.Add(d, int64(0))
		f.Add(d, int64(50*ms))
	}
	f.Fuzz(func(t *testing.T, left, slush int64) {
		if slush < 0 || left < math.MinInt64+slush {
			return
		}
		d := time.Duration(left - slush)
		s, ok := wire.FormatMillis(d)
		if !ok {
			if s != "" || d >= ms {
				t.Fatalf("%d: %q, not ok", d, s)
			}
			return
		}
		if s == "0" || len(s) == 0 || len(s) > 10 || strings.Trim(s, "0123456789") != "" || s[0] == '0' {
			t.Fatalf("%d: %q", d, s)
		}
		got, err := wire.ParseMillis(s)
		if err != nil || got > d || d < ceiling && d-got >= ms {
			t.Fatalf("%d: %q is read as %v, %v", d, s, got, err)
		}
	})
}
