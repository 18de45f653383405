#!/usr/bin/env bash
# Compares what a task costs with the hooks that nobody uses (a Trace, a Root, a
# test) and in the twin that is built without them. The two take turns, ROUNDS
# times (15), on one processor, because machines drift; medians are compared.
set -euo pipefail
cd "$(dirname "$0")/.."

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
go test -c -o "$dir/with" ./scope
go test -c -tags curfew_nohooks -o "$dir/without" ./scope
for _ in $(seq "${ROUNDS:-15}"); do
	for twin in with without; do
		GOMAXPROCS=1 "$dir/$twin" -test.run '^$' -test.bench '^BenchmarkGo$/^tasks=256$' -test.benchmem |
			awk -v twin="$twin" '/^BenchmarkGo/ { print twin, $3 / 256, $7 / 256 }' >>"$dir/rounds"
	done
done
for twin in with without; do
	grep "^$twin " "$dir/rounds" | sort -n -k2 |
		awk '{ ns[NR] = $2; allocs = $3 } END { printf "%-8s %.1f ns a task, %.2f allocations (median of %d)\n", $1, ns[int((NR + 1) / 2)], allocs, NR }'
done
