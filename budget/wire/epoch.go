package wire

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// An instant is written with at least so many units: in milliseconds since 1970
// that is September 2001. A smaller number is a duration in the wrong place.
const (
	minEpochMillis = 1_000_000_000_000
	maxEpochMillis = 9_999_999_999_999 // thirteen digits, the year 2286
	minEpochNanos  = minEpochMillis * 1_000_000
)

// EpochMillis is the form of an absolute deadline in milliseconds since 1970, with
// what was left when it was written after a semicolon: "1700000000500;300". It is
// what a queued message carries, too: see Consumer.
//
// Of the two the earlier counts as long as they agree to within skewLimit; beyond
// it the clocks differ, and the time left counts alone, with Peer.Skewed set.
//
// A bare instant, "1700000000500", is read too, but has nothing to check the clocks
// by: it counts as it stands, and of two clocks an hour apart one is believed. The
// local maximum is what bounds it.
//
// An empty header and a negative skewLimit panic. An instant before September 2001
// is malformed; a testing/synctest bubble begins in 2000.
func EpochMillis(header string, skewLimit time.Duration) Form {
	return form(epochMillis, header).within(skewLimit)
}

// EpochNanos is the form of two instants in nanoseconds since 1970, when it was
// written and the deadline, with a space between: Finagle's Deadline context. With
// the two clocks no more than skewLimit apart, as far as the first instant tells,
// the earlier of the deadline and the distance of both counts; beyond it, the
// distance alone, with Peer.Skewed set.
//
// An empty header and a negative skewLimit panic. An instant before September 2001
// is malformed.
func EpochNanos(header string, skewLimit time.Duration) Form {
	return form(epochNanos, header).within(skewLimit)
}

func (f Form) within(skewLimit time.Duration) Form {
	if skewLimit < 0 {
		panic(fmt.Sprintf("wire: %v: negative skewLimit %v", f.grammar, skewLimit))
	}
	f.skew = skewLimit
	return f
}

func (f Form) parseEpochMillis(s string, now time.Time, waited time.Duration) (left time.Duration, skewed bool, err error) {
	instant, remaining, both := strings.Cut(s, ";")
	at, why := epoch(instant, minEpochMillis, maxEpochMillis)
	if why != "" {
		return 0, false, malformed(epochMillis.String(), s, why)
	}
	byClock := time.UnixMilli(at).Sub(now.Round(0)) // by the wall clock, and saturating
	if !both {
		return max(byClock, 0), false, nil
	}
	told, err := ParseMillis(remaining)
	if err != nil {
		return 0, false, malformed(epochMillis.String(), s, "what is left: "+err.(*FormatError).Why)
	}
	left, skewed = f.earlier(byClock, max(told-waited, 0))
	return left, skewed, nil
}

func (f Form) parseEpochNanos(s string, now time.Time, waited time.Duration) (left time.Duration, skewed bool, err error) {
	from, to, _ := strings.Cut(s, " ")
	written, why := epoch(from, minEpochNanos, math.MaxInt64)
	if why != "" {
		return 0, false, malformed(epochNanos.String(), s, "first instant: "+why)
	}
	at, why := epoch(to, minEpochNanos, math.MaxInt64)
	if why != "" {
		return 0, false, malformed(epochNanos.String(), s, "second instant: "+why)
	}
	if at < written {
		return 0, false, malformed(epochNanos.String(), s, "the deadline is before the instant of writing")
	}
	left, skewed = f.earlier(time.Unix(0, at).Sub(now.Round(0)), max(time.Duration(at-written)-waited, 0))
	return left, skewed, nil
}

// earlier returns which of an instant, which by our clock is byClock away, and of
// what the sender told, less what is known to have passed since, counts. By how much
// the two differ is how far the clocks are apart; in a queue the value aged as well, so there only a sender whose clock is
// ahead is found out.
func (f Form) earlier(byClock, told time.Duration) (left time.Duration, skewed bool) {
	ahead := byClock - told // told is not negative, so only below can this overflow
	if ahead > byClock {
		ahead = math.MinInt64
	}
	if ahead > f.skew || ahead < -f.skew && !f.queued {
		return told, true
	}
	return max(min(byClock, told), 0), false
}

// epoch reads an instant between least and most.
func epoch(s string, least, most int64) (n int64, why string) {
	if why := notDigits(s); why != "" {
		return 0, why
	}
	n, err := strconv.ParseInt(s, 10, 64)
	switch {
	case err != nil || n > most:
		return 0, "too large for an instant in this unit"
	case n < least:
		return 0, "too small for an instant in this unit: the time left, where an instant belongs?"
	}
	return n, ""
}

func formatEpochMillis(left time.Duration, now time.Time) (string, bool) {
	at := now.UnixMilli() // what a part of a millisecond makes of now is dropped
	if at < minEpochMillis || at >= maxEpochMillis {
		return "", false
	}
	// Both numbers say the same, or the receiver takes us for skewed.
	whole := min(left.Milliseconds(), maxMillis, maxEpochMillis-at)
	return strconv.FormatInt(at+whole, 10) + ";" + strconv.FormatInt(whole, 10), true
}

func formatEpochNanos(left time.Duration, now time.Time) (string, bool) {
	if ms := now.UnixMilli(); ms < minEpochMillis || ms > math.MaxInt64/int64(time.Millisecond)-1 {
		return "", false // UnixNano would not say
	}
	written := now.UnixNano()
	at := int64(math.MaxInt64)
	if int64(left) < at-written {
		at = written + int64(left)
	}
	return strconv.FormatInt(written, 10) + " " + strconv.FormatInt(at, 10), true
}
