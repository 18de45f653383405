// Package latency turns the latencies a caller has observed into limits: the
// timeout for a wanted rate of false timeouts, the delay before a hedge, and
// the least time with which an attempt is worth starting.
//
//	seen := latency.New(latency.Config{FalseTimeouts: 0.001})
//	...
//	ctx, cancel, err := budget.Enter(ctx, budget.Within(seen.Timeout()).Named("inventory timeout").Require(seen.Typical()))
//	...
//	start := time.Now()
//	err = call(ctx)
//	seen.Record(time.Since(start), err)
//
// # What counts
//
// An answer counts with the time it took. An attempt that was cut off, by a
// timeout, by the end of its request or because another attempt won, took at
// least that long: leaving it out would make a slow target look fast, and
// counting it as an answer would make every timeout confirm itself. It enters as
// a right-censored sample of the Kaplan-Meier estimate
// (https://doi.org/10.1080/01621459.1958.10501452), computed over the buckets
// of a histogram; of the two in one bucket, answers come before cuts. A failure
// that came sooner than the typical answer says nothing about answers and is
// left out; one that took longer counts as cut off.
//
// # How exact, and from how many
//
// A latency between 4.1 µs and 274 s is kept to within 0.8%; beyond either end
// it counts as the last one. How far a quantile is from the true one depends on
// how many attempts the window holds as well. A quantile q is answered once
// the window holds 10/(1−q) attempts, 10/q for a q below one half: 20 for p50,
// 200 for p95, 1000 for p99, 10 000 for p99.9, 100 000 for p99.99; and as long
// as at least ten attempts were seen that took as long. That is when the share
// beyond the quantile is known to about a third. A latency itself scatters more
// or less depending on the target: on the lognormal, bimodal and stepwise
// distributions of TestQuantilesAreThoseOfTheDistribution, quantiles were within
// 2% of the true value from 20 000 attempts for p50, 200 000 for p99, 500 000 for
// p99.9 and 4 million for p99.99, which is within 3% from one million. Of the
// attempts seen, whatever their number, they are the quantiles to within those
// 0.8%.
//
// # Window
//
// Only the last Window of attempts counts: the window has six slices, and the
// oldest is dropped when the next one begins, so that it holds between five
// sixths of Window and all of it. Attempts and questions turn the slices; there
// is no goroutine and no timer.
package latency
