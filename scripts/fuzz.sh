#!/usr/bin/env bash
# Runs every fuzz function of the tree for FUZZTIME each (default 60s), one
# after another, and exits 1 if any of them found something.
set -euo pipefail
cd "$(dirname "$0")/.."

list=$(grep -rnoE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | sort || true)
if [ -z "$list" ]; then
	echo "fuzz.sh: there is no fuzz function"
	exit 0
fi
code=0
while IFS=: read -r file _ func; do
	name=${func#func }
	echo "== ${file%/*} $name"
	go test -run '^$' -fuzz "^$name\$" -fuzztime "${FUZZTIME:-60s}" "${file%/*}" </dev/null || code=1
done <<<"$list"
exit $code
