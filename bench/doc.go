// Package bench compares curfew with other ways to do the same work: plain
// goroutines, errgroup and other libraries. The comparisons are a module of
// their own, so that what they compare with is nobody's dependency. Benchmarks
// of curfew alone lie beside the code they measure.
//
// Nothing is exported yet.
package bench
