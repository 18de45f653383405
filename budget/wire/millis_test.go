package wire_test

import (
	"errors"
	"math"
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
