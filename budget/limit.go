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
	until   time.Time
	who     string
	reserve time.Duration
	share   float64 // reserve as a share of what is left, between reserve and ceiling
	ceiling time.Duration
	cleanup time.Duration
	require time.Duration
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
func Until(t time.Time) Limit { return Limit{form: until, until: t} }

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
	l.reserve, l.share, l.ceiling = d, 0, 0
	return l
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
	l.reserve, l.share, l.ceiling = floor, share, ceiling
	return l
}

// Cleanup returns l keeping d back for all cleanups of the scope together: the
// work's deadline comes d earlier. Without it a scope's cleanups have one
// second from the end of its last task, on top of the deadline. A negative d
// panics; zero is no Cleanup.
func (l Limit) Cleanup(d time.Duration) Limit {
	mustNotBeNegative("Cleanup", d)
	l.cleanup = d
	return l
}

// Require returns l refusing, as LocalBudgetRejected, to start work that has
// less than d left until its deadline. A negative d panics.
func (l Limit) Require(d time.Duration) Limit {
	mustNotBeNegative("Require", d)
	l.require = d
	return l
}

// String returns the limit's name and size, as it stands in a cause.
func (l Limit) String() string {
	var size string
	switch l.form {
	case within:
		size = l.within.String()
	case until:
		size = "until " + l.until.Format("15:04:05.000")
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
func (l Limit) silent() bool { return l.form == inherited && l.who == "" }

// keep returns how much of left the limit keeps for the caller.
func (l Limit) keep(left time.Duration) time.Duration {
	if l.share == 0 {
		return l.reserve
	}
	return min(max(time.Duration(l.share*float64(left)), l.reserve), l.ceiling)
}

func mustNotBeNegative(what string, d time.Duration) {
	if d < 0 {
		panic(fmt.Sprintf("budget: %s: negative duration %v", what, d))
	}
}

// chain joins limits, the tightest first.
func chain(limits []string) string { return strings.Join(limits, " < ") }
