package retrybudget

import (
	"net/http"
	"strings"
	"time"
)

// maxPushback is the longest wait that a peer's pushback comes to. What asks
// for more means: not within any call.
const maxPushback = 24 * time.Hour

// RetryAfter reads the values of HTTP's Retry-After header (RFC 9110, section
// 10.2.3), seconds or a date, as of now, for Verdict.After. It reports false
// when there is nothing to obey.
//
// Seconds are digits only; a sign, a fraction or a space inside makes the value
// malformed. A date is in one of the three forms that http.ParseTime reads, and
// a past one is a wait of zero. Anything above 24 hours is 24 hours. Of several
// values the longest counts and malformed ones are ignored: whoever asks twice
// wants to be left alone.
func RetryAfter(values []string, now time.Time) (wait time.Duration, ok bool) {
	for _, value := range values {
		w, valid := retryAfter(strings.Trim(value, " \t"), now)
		if valid && (!ok || w > wait) {
			wait, ok = w, true
		}
	}
	return wait, ok
}

func retryAfter(value string, now time.Time) (time.Duration, bool) {
	if n, ok := digits(value, int64(maxPushback/time.Second)); ok {
		return time.Duration(n) * time.Second, true
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	return min(max(at.Sub(now), 0), maxPushback), true
}

// GRPCPushback reads the values of gRPC's grpc-retry-pushback-ms (gRFC A6), for
// Verdict.After. It reports false when there is none. One value of digits is the
// wait in milliseconds, at most 24 hours. A negative one, anything malformed,
// and more than one value mean that the call must not be retried: a negative
// wait, which Do obeys.
func GRPCPushback(values []string) (wait time.Duration, ok bool) {
	switch len(values) {
	case 0:
		return 0, false
	case 1:
		if n, ok := digits(values[0], int64(maxPushback/time.Millisecond)); ok {
			return time.Duration(n) * time.Millisecond, true
		}
	}
	return -1, true
}

// digits reads a decimal number of ASCII digits alone. Above most it is most,
// however long.
func digits(s string, most int64) (n int64, ok bool) {
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = min(n*10+int64(c-'0'), most)
	}
	return n, s != ""
}
