package stream

import (
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// A Check finds out, for all Conns that share it, whether the server has the limit that it is told. A
// pooler or another product may take what sets it and do something else. So a Conn asks for the
// limit behind the first one that it sets, in the same burst and transaction, until one of them was
// shown what it had set.
type Check struct {
	report func(seen bool)
	over   atomic.Bool
}

// NewCheck returns a Check that calls report with each answer. report is called with locks held and
// must not wait.
func NewCheck(report func(seen bool)) *Check { return &Check{report: report} }

// answered notes what the server showed while limit was to be in force.
func (c *Check) answered(shown string, limit time.Duration) {
	d := Limit(shown)
	seen := d > 0 && d <= limit
	if seen {
		c.over.Store(true)
	}
	c.report(seen)
}

// refused notes that the server failed the question, and with it the driver's statement: one is enough.
func (c *Check) refused() {
	c.over.Store(true)
	c.report(false)
}

// checks reports whether the limit is to be asked for in this burst. It must be at the beginning of a
// transaction, where nothing of the driver's can stand between.
func (w *writer) checks() bool {
	if w.check != nil && w.check.over.Load() {
		w.check = nil
	}
	return w.check != nil && w.tx == 'I'
}

// asked notes that the limit is asked for, and returns the answers to a text that does.
func (w *writer) asked(answers string) string {
	w.asking, w.check = w.check, nil
	return answers
}

// Limit returns what text, a statement_timeout as the server takes and shows it, stands for, and 0 for
// none.
//
// Units: PostgreSQL documentation, "Parameter Names and Values".
func Limit(text string) time.Duration {
	text = strings.TrimSpace(text)
	digits := strings.TrimRight(text, "abcdefghijklmnopqrstuvwxyz ")
	n, err := strconv.ParseInt(digits, 10, 32)
	if err != nil || n <= 0 {
		return 0
	}
	switch strings.TrimSpace(text[len(digits):]) {
	case "", "ms":
		return time.Duration(n) * time.Millisecond
	case "s":
		return time.Duration(n) * time.Second
	case "min":
		return time.Duration(n) * time.Minute
	case "h":
		return time.Duration(n) * time.Hour
	case "d":
		return time.Duration(n) * 24 * time.Hour
	}
	return 0
}
