// Package latency turns the latencies a caller has observed into limits: the
// timeout for a wanted rate of false timeouts, the delay before a hedge, and
// the least time with which an attempt is worth starting. An attempt that was
// cut off counts as "took at least this long", and a fast failure does not
// count as a fast answer. The rate of false timeouts that was really seen is
// reported beside the wanted one.
//
// Nothing is exported yet.
package latency
