// Package wire holds the text forms in which a deadline travels between
// processes. Between machines what travels is how much time is left, never an
// instant: clocks differ.
//
// One rule holds for every form: the receiver never gets more than the sender
// had. The sender takes off what Slush.Of says, and FormatMillis rounds down; it
// never writes zero or a negative number, because receivers disagree on what those mean. Parsing is
// strict: what the form does not allow is malformed, and never a guess.
//
// The one form so far is the remaining time in whole milliseconds.
package wire

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// maxDigits is how many digits a number of milliseconds may have, about 115
// days. A longer one is most likely an instant.
const maxDigits = 10

// A FormatError says why a value is malformed.
type FormatError struct {
	Form  string // such as "remaining-ms"
	Value string // as received, cut after 32 bytes
	Why   string
}

// Error names the form, the value and what is wrong with it.
func (e *FormatError) Error() string {
	return fmt.Sprintf("wire: malformed %s %q: %s", e.Form, e.Value, e.Why)
}

func malformed(form, value, why string) *FormatError {
	const enough = 32
	if len(value) > enough {
		value = value[:enough]
	}
	return &FormatError{Form: form, Value: value, Why: why}
}

// ParseMillis reads how much time is left, in whole milliseconds: one to ten
// ASCII digits and nothing else. Zero is valid, and means that the time has run
// out. The error is a *FormatError.
func ParseMillis(s string) (time.Duration, error) {
	const form = "remaining-ms"
	if s == "" {
		return 0, malformed(form, s, "empty")
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, malformed(form, s, "not a number of ASCII digits")
		}
	}
	if len(s) > maxDigits {
		return 0, malformed(form, s, "more than 10 digits: an instant, where the time left belongs?")
	}
	ms, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, malformed(form, s, err.Error())
	}
	return time.Duration(ms) * time.Millisecond, nil
}

// FormatMillis writes left as ParseMillis reads it, rounded down. Time beyond
// what the form can say is written as the most it can. With less than a
// millisecond left ok is false: there is nothing that could be sent, and the
// caller fails on its own side.
func FormatMillis(left time.Duration) (s string, ok bool) {
	const most = 9_999_999_999
	ms := min(left.Milliseconds(), most)
	if ms < 1 {
		return "", false
	}
	return strconv.FormatInt(ms, 10), true
}

// A Slush is the time that one hop keeps back from what it passes on, for its
// own work and for both ways: a share of what is left, within bounds. It is
// taken once per hop, by the sender. The zero Slush is 5%, at least 2 ms and at
// most 50 ms; in any other a zero Cap is none.
//
// A Share is between 0 and 1; Floor and Cap are durations of real time. A hop that
// wants none sets a Floor of a nanosecond.
type Slush struct {
	Share      float64
	Floor, Cap time.Duration
}

// Of returns how much of left is kept back. It is never negative, so that the
// peer never gets more than there is, and may be more than left.
func (s Slush) Of(left time.Duration) time.Duration {
	if s == (Slush{}) {
		s = Slush{Share: 0.05, Floor: 2 * time.Millisecond, Cap: 50 * time.Millisecond}
	}
	most := s.Cap
	if most == 0 {
		most = math.MaxInt64
	}
	kept := s.Floor
	switch share := s.Share * float64(left); { // which may be beyond what a Duration can say
	case share >= float64(most):
		kept = most
	case share > float64(kept):
		kept = time.Duration(share)
	}
	return max(min(kept, most), 0)
}
