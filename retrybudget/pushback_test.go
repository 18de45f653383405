package retrybudget_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/curfew-go/curfew/retrybudget"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestRetryAfterReadsSecondsAndDatesStrictly(t *testing.T) {
	const day = 24 * time.Hour
	for _, tt := range []struct {
		values []string
		wait   time.Duration
		ok     bool
	}{
		{nil, 0, false},
		{[]string{""}, 0, false},
		{[]string{"0"}, 0, true},
		{[]string{"1"}, time.Second, true},
		{[]string{" 120\t"}, 2 * time.Minute, true},
		{[]string{"00000000000000000000007"}, 7 * time.Second, true},
		{[]string{"-1"}, 0, false},
		{[]string{"+1"}, 0, false},
		{[]string{"1.5"}, 0, false},
		{[]string{"1 2"}, 0, false},
		{[]string{"1s"}, 0, false},
		{[]string{"１"}, 0, false},
		{[]string{"1, 2"}, 0, false},
		{[]string{"1000000000000"}, day, true},
		{[]string{"99999999999999999999999999999999"}, day, true},
		{[]string{now.Add(30 * time.Second).Format(http.TimeFormat)}, 30 * time.Second, true},
		{[]string{now.Add(30 * time.Second).Format(time.ANSIC)}, 30 * time.Second, true},
		{[]string{"Friday, 02-Jan-26 03:04:35 GMT"}, 30 * time.Second, true},
		{[]string{now.Add(-time.Hour).Format(http.TimeFormat)}, 0, true},
		{[]string{"Fri, 31 Dec 9999 23:59:59 GMT"}, day, true},
		{[]string{"Fri, 02 Jan 2026"}, 0, false},
		{[]string{"1", "3", "2"}, 3 * time.Second, true},
		{[]string{"5", "junk"}, 5 * time.Second, true},
		{[]string{"junk", "0"}, 0, true},
		{[]string{"2", now.Add(time.Minute).Format(http.TimeFormat)}, time.Minute, true},
	} {
		wait, ok := retrybudget.RetryAfter(tt.values, now)
		assert.Equal(t, tt.wait, wait, "%q", tt.values)
		assert.Equal(t, tt.ok, ok, "%q", tt.values)
	}
}

func TestGRPCPushbackFollowsA6(t *testing.T) {
	for _, tt := range []struct {
		values []string
		wait   time.Duration
		ok     bool
	}{
		{nil, 0, false},
		{[]string{"0"}, 0, true},
		{[]string{"250"}, 250 * time.Millisecond, true},
		{[]string{"1000000000000"}, 24 * time.Hour, true},
		{[]string{"-1"}, -1, true},
		{[]string{""}, -1, true},
		{[]string{"1.5"}, -1, true},
		{[]string{" 1"}, -1, true},
		{[]string{"1", "1"}, -1, true},
	} {
		wait, ok := retrybudget.GRPCPushback(tt.values)
		assert.Equal(t, tt.wait, wait, "%q", tt.values)
		assert.Equal(t, tt.ok, ok, "%q", tt.values)
	}
}

func FuzzPushback(f *testing.F) {
	for _, s := range []string{"", "0", "1", "-1", "1e3", "99999999999999999999", "Fri, 02 Jan 2026 03:04:35 GMT", "Fri, 31 Dec 0000 23:59:59 GMT"} {
		f.Add(s, "1")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		one, okOne := retrybudget.RetryAfter([]string{a}, now)
		two, okTwo := retrybudget.RetryAfter([]string{a, b}, now)
		if one < 0 || one > 24*time.Hour || two < one || !okOne && one != 0 || okOne && !okTwo {
			t.Errorf("RetryAfter(%q, %q): %v %v, %v %v", a, b, one, okOne, two, okTwo)
		}
		wait, ok := retrybudget.GRPCPushback([]string{a})
		if !ok || wait < -1 || wait > 24*time.Hour {
			t.Errorf("GRPCPushback(%q): %v %v", a, wait, ok)
		}
	})
}
