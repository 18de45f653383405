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
// order rotates from round to round, backwards every other time, because machines drift
// and nobody is to come after the same one each time; ratios are taken within a round,
// and their median is reported. A case has as many rounds as fit its time, so that a slow
// machine measures less and not longer. See [Run]. A quick run, and the functions of
// go test -bench, leave out what takes long: some cases of 100,000 tasks, most loads of
// overload, the smallest and the busiest fleet, and what repeats another case in real time.
//
// A suite is one file: it declares its cases and hands them to register. What is asked
// of the cases is one table, [Requirements]. A [Record] is a run that was saved; it makes
// the tables of the repository's documents, see [Record.Fill].
package bench
