// Package meter is how curfew's packages report what they count and measure,
// whatever keeps the numbers. A [Recorder] has two methods, so that a metrics
// library is joined to it in a few lines; [Memory] keeps the numbers in the
// process, for tests and for a page of one's own.
//
// The names are the same in every package and for every protocol; they stand in
// this package as constants, with their labels. Durations are in milliseconds.
package meter

// A Recorder takes what is counted and measured. Both methods are called while
// requests wait, from many goroutines at once: they must be quick and must not
// panic. A nil Recorder is allowed wherever one is taken, and records nothing.
type Recorder interface {
	// Add adds n to a counter.
	Add(name string, n int64, labels ...Label)
	// Record adds one value to a distribution, in the unit of the name.
	Record(name string, value float64, labels ...Label)
}

// A Label tells values under one name apart. Labels come in a fixed order for
// each name, and their values are few: a kind, a route as it was registered, a
// target's name. What a peer wrote is never one, unless the user says so.
type Label struct{ Key, Value string }

// The names, with the labels that each comes with.
const (
	Received     = "curfew.deadline.received"         // count; source (peer, default, none), caller
	Refused      = "curfew.deadline.refused"          // count; reason (a kind, or malformed), mode (observe, warn, enforce)
	RemainingIn  = "curfew.deadline.remaining_in_ms"  // distribution; route
	RemainingOut = "curfew.deadline.remaining_out_ms" // distribution; target
	LocalTime    = "curfew.deadline.local_ms"         // distribution; route
	Outcome      = "curfew.deadline.outcome"          // count; outcome (a kind, or late), route or target
	LimitedBy    = "curfew.deadline.limited_by"       // count; limit
	Unbounded    = "curfew.deadline.unbounded"        // count of calls without any deadline; target, site
	Honoured     = "curfew.deadline.honoured"         // count of answers to requests with a budget; target, honoured (yes, no)
	Cancelled    = "curfew.cancelled"                 // count; kind, route
	Wasted       = "curfew.wasted_ms"                 // distribution, of work after the client or the deadline; kind, route
	Overrun      = "curfew.task.overrun_ms"           // distribution; task
	Straggler    = "curfew.straggler"                 // count; route
	RetryAllowed = "curfew.retry.allowed"             // count; target
	RetryDenied  = "curfew.retry.denied"              // count; target
	HedgeSent    = "curfew.hedge.sent"                // count; target
	HedgeWon     = "curfew.hedge.won"                 // count; target
	HedgeDenied  = "curfew.hedge.denied"              // count; target
)
