package bench

import "slices"

// A Requirement is what is asked of one case.
type Requirement struct {
	Suite, Case string
	Bounds      []Bound
}

func ratio(system, base string, limit float64) Bound {
	return Bound{System: system, Base: base, Limit: limit}
}

func ratioOf(metric, system, base string, limit float64) Bound {
	return Bound{System: system, Base: base, Metric: metric, Limit: limit}
}

func over(metric, system, base string, limit float64) Bound {
	return Bound{System: system, Base: base, Metric: metric, Kind: Over, Limit: limit}
}

func atMost(metric, system string, limit float64) Bound {
	return Bound{System: system, Metric: metric, Kind: AtMost, Limit: limit}
}

func atLeast(metric, system string, limit float64) Bound {
	return Bound{System: system, Metric: metric, Kind: AtLeast, Limit: limit}
}

// Requirements returns all of them, in the order in which reports list them.
func Requirements() []Requirement { return slices.Clone(requirements) }

var requirements = []Requirement{
	{"fanout", "1 tasks", []Bound{ratio("curfew/all", "errgroup", .30)}},
	{"fanout", "4 tasks", []Bound{
		ratio("curfew", "errgroup", .80), ratio("curfew", "conc", .80),
		ratio("curfew/all", "errgroup", .65), atMost("allocs/op", "curfew/all", 4+4),
	}},
	{"fanout", "4 tasks, std parent", []Bound{ratio("curfew", "errgroup", .95)}},
	{"fanout", "16 tasks", []Bound{
		ratio("curfew", "errgroup", .90), atMost("allocs/op", "curfew", 2*16+4),
		ratio("curfew/all", "errgroup", .85), atMost("allocs/op", "curfew/all", 16+4),
	}},
	{"fanout", "256 tasks", []Bound{ratio("curfew", "waitgroup", 1.15)}},
	{"fanout", "10000 tasks", []Bound{ratio("curfew", "waitgroup", 1.15)}},
	{"fanout", "1 tasks of 10 µs", []Bound{ratio("curfew", "waitgroup", 1.05)}},
	{"fanout", "4 tasks of 10 µs", []Bound{ratio("curfew", "waitgroup", 1.05)}},
	{"fanout", "16 tasks of 10 µs", []Bound{ratio("curfew", "waitgroup", 1.05)}},
	{"fanout", "256 tasks of 10 µs", []Bound{ratio("curfew", "waitgroup", 1.05)}},
	{"fanout", "10000 tasks of 10 µs", []Bound{ratio("curfew", "waitgroup", 1.05)}},
	{"fanout", "each of 10000, width 16", []Bound{ratio("curfew", "errgroup", .50)}},

	{"nested", "1 deep", []Bound{ratio("curfew/inline", "errgroup", .25), ratio("curfew/task", "errgroup", .50)}},
	{"nested", "4 deep", []Bound{ratio("curfew/inline", "errgroup", .25), ratio("curfew/task", "errgroup", .50)}},
	{"nested", "16 deep", []Bound{ratio("curfew/inline", "errgroup", .25), ratio("curfew/task", "errgroup", .50)}},

	{"cancel", "10 on their ctx", []Bound{ratioOf("returned-ns", "curfew", "channel", 1.5)}},
	{"cancel", "1000 on their ctx", []Bound{ratioOf("returned-ns", "curfew", "channel", 1.25)}},
	{"cancel", "100000 on their ctx", []Bound{ratioOf("returned-ns", "curfew", "channel", 1.15)}},
	{"cancel", "10 in sub-scopes", []Bound{ratioOf("returned-ns", "curfew", "errgroup", 1.1)}},
	{"cancel", "1000 in sub-scopes", []Bound{ratioOf("returned-ns", "curfew", "errgroup", .70)}},
	{"cancel", "100000 in sub-scopes", []Bound{ratioOf("returned-ns", "curfew", "errgroup", .50)}},

	{"hedge", "armed", []Bound{
		atMost("ns/op", "curfew/inline", 600), ratio("curfew/inline", "failsafe", .25), ratio("curfew", "failsafe", .85),
	}},
	{"hedge", "armed, asks for Done", []Bound{
		atMost("allocs/op", "curfew/inline", 8), ratio("curfew/inline", "failsafe", .40), ratio("curfew", "failsafe", .85),
	}},

	{"retry", "success", []Bound{
		atMost("ns/op", "curfew", 60), atMost("allocs/op", "curfew", 1), ratio("curfew", "failsafe", .12),
		atMost("ns/op", "curfew/budget", 20),
	}},
	{"retry", "contended budget", []Bound{
		ratio("curfew/deposit", "atomic", 1.5), ratio("curfew/take", "atomic", 6), ratio("curfew/mix", "atomic", 2.5),
	}},

	{"checkpoint", "turn", []Bound{over("ns/op", "curfew", "empty", 1)}},

	{"http", "in process", []Bound{over("ns/op", "curfew", "bare", 1500), over("allocs/op", "curfew", "bare", 8)}},
	{"http", "in process, asks for Done", []Bound{over("ns/op", "curfew", "bare", 2500), over("allocs/op", "curfew", "bare", 14)}},
	{"http", "loopback", []Bound{ratio("curfew", "std/WithTimeout", 1/.97)}},

	{"sql", "PostgreSQL, cached statement", []Bound{ratio("curfew", "bare", 1.15)}},
	{"sql", "PostgreSQL, transaction of 2", []Bound{ratio("curfew", "bare", 1.15)}},
	{"sql", "PostgreSQL, exec mode", []Bound{ratio("curfew", "bare", 1.25)}},
	{"sql", "PostgreSQL, simple protocol", []Bound{ratio("curfew", "bare", 1.25)}},
	{"sql", "MariaDB, statement", []Bound{ratio("curfew", "bare", 1.2)}},
	{"sql", "MariaDB, transaction of 2", []Bound{ratio("curfew", "bare", 1.2)}},

	{"tail", "100 servers", []Bound{atMost("p99.9-ms", "curfew", 74), atMost("extra-%", "curfew", 2)}},
	{"tail", "lognormal (simulated)", []Bound{atMost("p99-ms", "curfew", 17), atMost("extra-%", "curfew", 8.9)}},
	{"tail", "lognormal (run)", []Bound{atMost("p99-ms", "curfew", 17), atMost("extra-%", "curfew", 8.9)}},
	{"tail", "lognormal, then four times as slow (simulated)", []Bound{
		atMost("of-budget-%", "curfew/budget", 100), atMost("most-extra-%", "curfew/budget", 100*hedgeShare),
	}},

	{"incident", "checkout", []Bound{
		atMost("calls-worst", "curfew", 3), atMost("calls-mean", "curfew", 1.15), atMost("load-multiplier", "curfew", 1.10),
		atLeast("availability-%", "curfew", 94), atMost("p99-s", "curfew", 2.9), atMost("wasted-%", "curfew", 1),
		atMost("bounds-missed", "curfew", 0),
	}},

	{"storm", "fleet of 1000, 100 calls/s, 50% failing", []Bound{atMost("load", "curfew", 1.10)}},
	{"storm", "fleet of 1000, 100 calls/s, 100% failing", []Bound{atMost("load", "curfew", 1.10)}},
	{"storm", "fleet of 1000, 1000 calls/s, 50% failing", []Bound{atMost("load", "curfew", 1.10), over("success-%", "curfew/one", "curfew", 2.5)}},

	{"occupancy", "inverted timeouts (simulated)", []Bound{atMost("in-flight", "curfew", 200)}},
	{"occupancy", "inverted timeouts (run)", []Bound{ratioOf("in-flight", "curfew", "std", .55)}},
	{"occupancy", "slow dependency (simulated)", []Bound{atMost("factor", "curfew", 200)}},
	{"occupancy", "dead backend (simulated)", []Bound{atLeast("served-%", "curfew", 95)}},
	{"occupancy", "dead backend (run)", []Bound{atLeast("served-%", "curfew", 95)}},

	{"overload", "2 × capacity", []Bound{atLeast("goodput-%", "curfew", 90)}},
}

func boundsOf(suite, name string) []Bound {
	for _, r := range requirements {
		if r.Suite == suite && r.Case == name {
			return r.Bounds
		}
	}
	return nil
}
