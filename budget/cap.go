package budget

import "time"

// more is what few limits have. It stands apart because every node keeps a Limit.
type more struct {
	v     *Var          // where the size comes from when work is entered; nil: within
	was   time.Duration // what v was made with, where that is not the size; else 0
	spent time.Duration
	until time.Time // of the form until

	cleanup time.Duration

	cap    time.Duration
	capper string // whose cap it is; empty: there is none
	alone  bool   // the cap alone is tighter than the parent, so the limit stands in no chain

	share   float64 // reserve as a share of what is left, between reserve and ceiling
	ceiling time.Duration
}

// AtMost returns l capped at d from the instant at which work is entered, by
// who, such as "peer header". A cap that is tighter than l stands before it in
// every cause, as in "peer header 300ms < route maximum 2s"; one that is not has
// no effect. Reserve, Cleanup and Require hold under the cap as well. Of several
// caps the tightest counts. A d of zero or less refuses work, as with Within. An
// empty who panics.
func (l Limit) AtMost(d time.Duration, who string) Limit {
	if who == "" {
		panic("budget: AtMost: empty who")
	}
	m := l.extra()
	if m.capper == "" || d < m.cap {
		m.cap, m.capper = d, who
	}
	l.more = &m
	return l
}

// Spent returns l as if work had been entered d earlier, as it is for work that
// stood in a queue. It shortens a Within or a Var's limit; Until, Inherited and
// a cap by AtMost stay as they are. A negative d panics. It replaces an earlier
// Spent.
func (l Limit) Spent(d time.Duration) Limit {
	mustNotBeNegative("Spent", d)
	if m := l.extra(); m.spent != d {
		m.spent = d
		l.more = &m
	}
	return l
}

// extra returns a copy of what few limits have.
func (l *Limit) extra() more {
	if l.more == nil {
		return more{}
	}
	return *l.more
}

// reserving returns l keeping back floor, or a share between floor and ceiling.
func (l Limit) reserving(floor time.Duration, share float64, ceiling time.Duration) Limit {
	l.reserve = floor
	if m := l.extra(); m.share != share || m.ceiling != ceiling {
		m.share, m.ceiling = share, ceiling
		l.more = &m
	}
	return l
}

// withValue returns l with the present value of its Var for a size.
func (l *Limit) withValue() *Limit {
	s, m := *l, *l.more
	s.within = m.v.Duration()
	if s.within != m.v.first {
		m.was = m.v.first
	}
	m.v = nil
	s.more = &m
	return &s
}

// settle returns l as it is for work entered at now below a parent that has
// until base, zero when it has no deadline: with the value of its Var, and with
// those parts that tighten. ok is false when l sets no deadline of its own.
func (l *Limit) settle(now, base time.Time) (_ *Limit, deadline time.Time, ok bool) {
	if l.more == nil {
		deadline, ok = l.instant(now)
		return l, deadline, ok
	}
	if l.more.v != nil {
		l = l.withValue()
	}
	deadline, ok = l.instant(now)
	if l.more.capper == "" {
		return l, deadline, ok
	}
	s, m := *l, *l.more
	s.more = &m
	if at := now.Add(m.cap); !ok || at.Before(deadline) {
		m.alone = ok && !base.IsZero() && !deadline.Before(base)
		return &s, at, true
	}
	m.capper = ""
	return &s, deadline, ok
}
