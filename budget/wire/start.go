package wire

import (
	"strconv"
	"strings"
	"time"
)

// maxWait is the longest time in a proxy's queue that is believed. Beyond it one
// of the clocks is wrong.
const maxWait = 10 * time.Minute

// RequestStart is the form in which a proxy says when it took the request in, for
// the time in its queue to count: milliseconds since 1970, with or without "t=" in
// front, or seconds with exactly three decimals, as nginx's $msec. Heroku's router
// and others send X-Request-Start. A value from the future is malformed, and so is
// one more than ten minutes old, which no client waits for: the clocks differ.
//
// It sets no limit of its own: Peer.Waited says how long the request stood. Use it
// only behind a proxy of yours that sets the header, whatever its client sent. An
// empty header panics.
func RequestStart(header string) Form { return form(requestStart, header) }

func parseStart(s string, now time.Time) (waited time.Duration, err error) {
	number := strings.TrimPrefix(s, "t=")
	if whole, decimals, seconds := strings.Cut(number, "."); seconds {
		if len(decimals) != 3 {
			return 0, malformed(requestStart.String(), s, "seconds without exactly three decimals")
		}
		number = whole + decimals
	}
	at, why := epoch(number, minEpochMillis, maxEpochMillis)
	if why != "" {
		return 0, malformed(requestStart.String(), s, why)
	}
	switch waited = now.Round(0).Sub(time.UnixMilli(at)); {
	case waited < 0:
		return 0, malformed(requestStart.String(), s, "in the future")
	case waited > maxWait:
		return 0, malformed(requestStart.String(), s, "more than ten minutes ago")
	}
	return waited, nil
}

func formatStart(now time.Time) (string, bool) {
	at := now.UnixMilli()
	if at < minEpochMillis || at > maxEpochMillis {
		return "", false
	}
	return "t=" + strconv.FormatInt(at, 10), true
}
