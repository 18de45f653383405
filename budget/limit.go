package budget

import (
	"fmt"
	"strings"
	"time"
)

// A Limit says how long work may take. It is a plain value: build it once and
// use it from any goroutine, any number of times. The zero Limit is Inherited.
//
// A relative limit starts when work is entered, not when the Limit is built.
type Limit struct {
	form    form
	within  time.Duration
	who     string
	reserve time.Duration
	require time.Duration
	more    *more // what few limits have; nil: nothing. Never changed once it is set
}

type form uint8

const (
	inherited form = iota
	within
	until
)

// Within is a limit of d from the instant at which work is entered. A d of zero
// or less is not a mistake of the program, since d is often computed: work
// entered with it is refused as ExpiredOnArrival.
func Within(d time.Duration) Limit { return Limit{form: within, within: d} }

// Until is a limit at the instant t. A t without a monotonic reading is turned
// into one when work is entered. Work entered at t or later is refused as
// ExpiredOnArrival.
func Until(t time.Time) Limit { return Limit{form: until, more: &more{until: t}} }

// Inherited is the deadline of the parent context. Work entered with it under a
// parent without a deadline is refused with ErrNoDeadline: nothing in curfew is
// unbounded by accident.
func Inherited() Limit { return Limit{} }

// Named returns l with a name that appears in every cause l is part of, such as
// "route maximum". It must not hold anything secret.
func (l Limit) Named(who string) Limit {
	l.who = who
	return l
}

// Reserve returns l keeping d back for the caller: the work's deadline comes d
// earlier, so that the caller has d left to use what came back. A negative d
// panics. It replaces an earlier Reserve or ReserveShare.
func (l Limit) Reserve(d time.Duration) Limit {
	mustNotBeNegative("Reserve", d)
	return l.reserving(d, 0, 0)
}

// ReserveShare returns l keeping back, for the caller, a share of what is left
// when work is entered: at least floor and at most ceiling. A share outside
// [0, 1), a negative floor, or a ceiling below the floor panics. It replaces an
// earlier Reserve or ReserveShare.
func (l Limit) ReserveShare(share float64, floor, ceiling time.Duration) Limit {
	if !(share >= 0 && share < 1) {
		panic(fmt.Sprintf("budget: ReserveShare: share %v is not in [0, 1)", share))
	}
	mustNotBeNegative("ReserveShare: floor", floor)
	if ceiling < floor {
		panic(fmt.Sprintf("budget: ReserveShare: ceiling %v is below floor %v", ceiling, floor))
	}
	return l.reserving(floor, share, ceiling)
}

// Cleanup returns l keeping d back for all cleanups of the scope together: the
// work's deadline comes d earlier. Without it a scope's cleanups have one
// second from the end of its last task, on top of the deadline. A negative d
// panics; zero is no Cleanup.
func (l Limit) Cleanup(d time.Duration) Limit {
	mustNotBeNegative("Cleanup", d)
	if m := l.extra(); m.cleanup != d {
		m.cleanup = d
		l.more = &m
	}
	return l
}

// Require returns l refusing, as LocalBudgetRejected, to start work that has
// less than d left until its deadline. A negative d panics.
func (l Limit) Require(d time.Duration) Limit {
	mustNotBeNegative("Require", d)
	l.require = d
	return l
}

// String returns the limit's name and size, as it stands in a cause: a cap
// before what it caps.
func (l Limit) String() string {
	if l.more != nil && l.more.v != nil {
		l = *l.withValue()
	}
	if m := l.more; m != nil && l.form == within && m.cap >= max(l.within, 0)-m.spent {
		return l.own()
	}
	return chain(l.names())
}

// instant returns the deadline that l alone sets for work entered at now, on the
// monotonic clock. ok is false when it is inherited.
func (l *Limit) instant(now time.Time) (t time.Time, ok bool) {
	switch l.form {
	case within:
		if l.more == nil || l.more.spent == 0 {
			return now.Add(l.within), true
		}
		return now.Add(max(l.within, 0) - l.more.spent), true
	case until:
		// Until(t) may lack a monotonic reading; from here on it has one.
		return now.Add(l.more.until.Sub(now)), true
	}
	return time.Time{}, false
}

// names lists what l adds to a chain of limits, the tightest first.
func (l *Limit) names() []string {
	m := l.more
	if m == nil || m.capper == "" {
		return []string{l.own()}
	}
	capped := m.capper + " " + m.cap.String()
	if m.alone || l.form == inherited && l.who == "" {
		return []string{capped}
	}
	return []string{capped, l.own()}
}

// own returns the name and the size of l without its cap.
func (l *Limit) own() string {
	var size string
	switch l.form {
	case within:
		size = l.within.String()
		if l.more != nil && l.more.was != 0 {
			size += fmt.Sprintf(" (was %v)", l.more.was)
		}
		if l.more != nil && l.more.spent != 0 {
			size += fmt.Sprintf(" (%v spent)", l.more.spent)
		}
	case until:
		size = "until " + l.more.until.Format("15:04:05.000")
	}
	switch {
	case l.who != "" && size != "":
		return l.who + " " + size
	case l.who != "":
		return l.who
	case l.form == within:
		return "within " + size
	case l.form == until:
		return size
	}
	return "inherited"
}

// silent reports whether l adds nothing to a chain of limits.
func (l *Limit) silent() bool {
	return l.form == inherited && l.who == "" && (l.more == nil || l.more.capper == "")
}

// adopts reports whether l is the parent's deadline as it is.
func (l *Limit) adopts() bool {
	return l.form == inherited && l.reserve == 0 && l.require == 0 && l.more == nil
}

// cleanup returns how much the limit keeps for the scope's cleanups, 0 for nothing.
func (l *Limit) cleanup() time.Duration {
	if l.more == nil {
		return 0
	}
	return l.more.cleanup
}

// keep returns how much of left the limit keeps for the caller.
func (l *Limit) keep(left time.Duration) time.Duration {
	if l.more == nil || l.more.share == 0 {
		return l.reserve
	}
	return min(max(time.Duration(l.more.share*float64(left)), l.reserve), l.more.ceiling)
}

func mustNotBeNegative(what string, d time.Duration) {
	if d < 0 {
		panic(fmt.Sprintf("budget: %s: negative duration %v", what, d))
	}
}

// chain joins limits, the tightest first.
func chain(limits []string) string { return strings.Join(limits, " < ") }
