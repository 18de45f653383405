// Package bench compares curfew with other ways to do the same work, all within
// one run: plain goroutines, errgroup, conc, failsafe-go and others. It is a module
// of its own, so that what it compares with is nobody's dependency. Benchmarks of
// curfew alone lie beside the code they measure.
//
//	go run ./bench/cmd/curfewbench -suite fanout,cancel
//	go run ./bench/cmd/curfewbench -suite fanout -case '^4 tasks$' -cpuprofile cpu.prof
//	go test -run='^$' -bench=Fanout -count=10 ./bench | benchstat -
//
// A [Suite] is a list of cases, a [Case] is one piece of work, and a [System] is
// one way of doing it. The systems of a case take turns within a round and the
// order rotates from round to round, because machines drift; ratios are taken
// within a round, and their median is reported. A case has as many rounds as fit its
// time, so that a slow machine measures less and not longer. See [Run].
//
// A suite is one file: it declares its cases and hands them to register. What is asked
// of the cases is one table, [Requirements]. A [Record] is a run that was saved; it makes
// the tables of the repository's documents, see [Record.Fill].
package bench
