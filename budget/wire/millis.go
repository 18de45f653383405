package wire

import (
	"math"
	"strconv"
	"time"
)

// How many digits a number of milliseconds may have, and with that how much it may
// be, about 115 days. A longer one is most likely an instant.
const (
	maxDigits = 10
	maxMillis = 9_999_999_999
)

// Millis is the form of how much time is left in whole milliseconds: one to ten
// ASCII digits. It is what most systems send, each under a name of its own, the
// Connect protocol and Envoy among them; for Envoy's meaning of 0 call
// ReverseZero. An empty header panics.
func Millis(header string) Form { return form(millis, header) }

// YARPC is the form of YARPC's Context-TTL-MS: milliseconds as a 64-bit integer
// that is not negative. More of them than a Duration holds is no limit.
func YARPC() Form { return form(ttl, "Context-TTL-MS") }

// ParseMillis reads how much time is left, in whole milliseconds: one to ten
// ASCII digits and nothing else. Zero is valid, and means that the time has run
// out. The error is a *FormatError. It is Millis without a header.
func ParseMillis(s string) (time.Duration, error) {
	if why := notDigits(s); why != "" {
		return 0, malformed(millis.String(), s, why)
	}
	if len(s) > maxDigits {
		return 0, malformed(millis.String(), s, "more than 10 digits: an instant, where the time left belongs?")
	}
	ms, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, malformed(millis.String(), s, err.Error())
	}
	return time.Duration(ms) * time.Millisecond, nil
}

// FormatMillis writes left as ParseMillis reads it, rounded down. Time beyond
// what the form can say is written as the most it can. With less than a
// millisecond left ok is false: there is nothing that could be sent, and the
// caller fails on its own side.
func FormatMillis(left time.Duration) (s string, ok bool) {
	ms := min(left.Milliseconds(), maxMillis)
	if ms < 1 {
		return "", false
	}
	return strconv.FormatInt(ms, 10), true
}

// parseTTL reads Context-TTL-MS.
func parseTTL(s string) (left time.Duration, limited bool, err error) {
	if why := notDigits(s); why != "" {
		return 0, false, malformed(ttl.String(), s, why)
	}
	ms, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, false, malformed(ttl.String(), s, "above the largest 64-bit integer")
	}
	if ms > math.MaxInt64/int64(time.Millisecond) { // checked before it is multiplied
		return 0, false, nil
	}
	return time.Duration(ms) * time.Millisecond, true, nil
}

// notDigits says why s is not a number of ASCII digits, "" when it is one.
func notDigits(s string) string {
	if s == "" {
		return "empty"
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return "not a number of ASCII digits"
		}
	}
	return ""
}
