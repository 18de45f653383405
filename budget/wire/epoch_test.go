package wire_test

import (
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget/wire"
)

// instants are the forms with an instant, at the skew that a service would set.
func instants(skew time.Duration) []wire.Form {
	return []wire.Form{wire.EpochMillis("X-Deadline", skew), wire.EpochNanos("X-Deadline", skew)}
}

// A sender whose clock is off by each of the skews says 500 ms. Within the limit a
// clock that is behind takes time away; beyond it, and ahead, what it said is left
// counts. It never gets more.
func TestSkewedClocks(t *testing.T) {
	const told, limit = 500 * ms, time.Minute
	now := time.UnixMilli(1_700_000_000_000)
	seen := map[time.Duration]bool{}
	for _, v := range readSeeds(t).SkewMs {
		skew := time.Duration(v) * ms
		for _, f := range instants(limit) {
			value, ok := f.Format(told, now.Add(skew))
			require.True(t, ok)
			got, err := f.Parse(value, now)
			require.NoError(t, err, value)
			assert.Equal(t, max(skew, -skew) > limit, got.Skewed, "%v: %v", f, skew)
			want := told
			if skew < 0 && !got.Skewed {
				want = told + skew
			}
			assert.Equal(t, want, got.Left, "%v: %v", f, skew)
			seen[skew] = true
		}
		// With no skew allowed for, the time left is all that counts.
		for _, f := range instants(0) {
			value, _ := f.Format(told, now.Add(skew))
			got, err := f.Parse(value, now)
			require.NoError(t, err)
			assert.Equal(t, wire.Peer{Limited: true, Left: told, Header: "X-Deadline", Skewed: true}, got)
		}
	}
	assert.Len(t, seen, 6)

	// A bare instant has nothing to tell by.
	bare := wire.EpochMillis("X-Deadline", limit)
	for skew, left := range map[time.Duration]time.Duration{100 * ms: 600 * ms, -200 * ms: 300 * ms, -time.Hour: 0, time.Hour: time.Hour + told} {
		got, err := bare.Parse(strconv.FormatInt(now.Add(skew+told).UnixMilli(), 10), now)
		require.NoError(t, err)
		assert.Equal(t, wire.Peer{Limited: true, Left: left, Header: "X-Deadline"}, got)
	}
}

// What counts is the wall clock, also for a now whose monotonic part says otherwise.
func TestInstantsAreReadByTheWallClock(t *testing.T) {
	for _, f := range instants(time.Minute) {
		now := time.Now()
		value, ok := f.Format(500*ms, now)
		require.True(t, ok)
		got, err := f.Parse(value, now)
		require.NoError(t, err)
		assert.InDelta(t, 500, got.Left.Seconds()*1000, 1)
		without, err := f.Parse(value, now.Round(0))
		require.NoError(t, err)
		assert.Equal(t, got, without)
	}
}

func TestWrongInstantsAreMalformed(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	for i, values := range [][]string{
		{"", "0", "-1", "999999999999", "10000000000000", "1700000000500000", "1700000000500;", ";500", "1700000000500;500;1",
			"1700000000500;-1", "1700000000500; 1", "1700000000500,500", "+1700000000500", "1700000000500.0", "99999999999999999999",
			"1700000000500;12345678901", "1700000000500 ", " 1700000000500", "１７00000000500"},
		{"", " ", "1700000000000000000", "1700000000000000000 ", " 1700000000000000000", "1700000000000000000  1700000000500000000",
			"1700000000000000000 1699999999999999999", "1700000000000 1700000000500", "1700000000000000000 99999999999999999999",
			"1700000000000000000 1700000000500000000 1", "1700000000000000000;1700000000500000000", "-1 1", "a b", "0 0"},
	} {
		for _, value := range values {
			p, err := instants(time.Hour)[i].Parse(value, now)
			var fe *wire.FormatError
			assert.ErrorAs(t, err, &fe, "%q", value)
			assert.Zero(t, p)
		}
	}
}

func TestAnInstantInTheWrongPlaceIsNamed(t *testing.T) {
	_, err := instants(0)[0].Parse("300", time.Now())
	assert.EqualError(t, err, `wire: malformed epoch-ms in X-Deadline "300": too small for an instant in this unit: the time left, where an instant belongs?`)
}

// Whenever it is and however much is left, an instant is written that can be read,
// or none.
func TestInstantsAtTheEndsOfTime(t *testing.T) {
	for _, at := range []time.Time{
		{}, time.Unix(0, 0), time.UnixMilli(999_999_999_999), time.UnixMilli(1_000_000_000_000), time.Now(),
		time.Unix(0, math.MaxInt64).Add(-time.Second), time.Unix(0, math.MaxInt64), time.UnixMilli(9_999_999_999_998), time.UnixMilli(9_999_999_999_999),
		time.UnixMilli(10_000_000_000_000), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC),
	} {
		for _, left := range []time.Duration{ms, time.Second, ceiling, ceiling + ms, math.MaxInt64} {
			for i, f := range instants(time.Minute) {
				value, ok := f.Format(left, at)
				unix := at.Unix()
				if !ok {
					end := []int64{9_999_999_999, math.MaxInt64/int64(time.Second) - 1}[i]
					assert.True(t, unix < 1_000_000_000 || unix >= end, "%v at %v", f, at)
					continue
				}
				assert.True(t, unix >= 1_000_000_000, "%v at %v", f, at)
				got, err := f.Parse(value, at)
				if assert.NoError(t, err, "%v at %v: %q", f, at, value) {
					assert.LessOrEqual(t, got.Left, left)
					assert.Positive(t, got.Left)
				}
				assert.Empty(t, strings.Trim(value, "0123456789; "))
			}
		}
	}
}

func TestQueueTimeOfAProxy(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	f := wire.RequestStart("X-Request-Start")
	for value, want := range map[string]time.Duration{
		"t=1700000000000": 0, "1700000000000": 0, "t=1699999999960": 40 * ms, "t=1699999999.960": 40 * ms, "1699999999.960": 40 * ms, "t=1699999400000": 10 * time.Minute,
	} {
		got, err := f.Parse(value, now)
		require.NoError(t, err, value)
		assert.Equal(t, wire.Peer{Waited: want}, got, value)
	}
	for _, value := range []string{
		"", "t=", "t", "t=t=1699999999960", "T=1699999999960", "t=1700000000001", "t=1699999399999", "1699999999", "t=1699999999.96", "t=1699999999.9600",
		"t=.960", "1699999999960000", "t=-5", "t=1699999999960ms", "1699999999,960",
	} {
		p, err := f.Parse(value, now)
		assert.Error(t, err, "%q", value)
		assert.Zero(t, p)
	}
	value, ok := f.Format(0, now.Add(-40*ms))
	assert.True(t, ok)
	assert.Equal(t, "t=1699999999960", value)
	_, ok = f.Format(time.Hour, time.Time{})
	assert.False(t, ok)
}

// A testing/synctest bubble begins at an instant that no form can say.
func TestBeforeSeptember2001NothingIsWritten(t *testing.T) {
	at := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, f := range append(instants(0), wire.RequestStart("X-Request-Start")) {
		_, ok := f.Format(time.Second, at)
		assert.False(t, ok, f)
	}
}
