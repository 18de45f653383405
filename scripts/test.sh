#!/usr/bin/env bash
# Runs the tests of every module in go.work, with arguments for go test. Ends
# with go test's own lines, and one line more when something was left out.
#
#   CURFEW_SERVERS=auto      install missing servers where possible, leave out
#                            the tests of those still missing (the default)
#   CURFEW_SERVERS=skip      install nothing
#   CURFEW_SERVERS=required  a missing server fails
#   CURFEW_RACE=required     fail where the race detector does not work
set -euo pipefail
cd "$(dirname "$0")/.."

case ${CURFEW_SERVERS:=auto} in
auto | required) scripts/servers.sh install || true ;; # what is still missing, tests will say
skip) ;;
*)
	echo "test.sh: CURFEW_SERVERS=$CURFEW_SERVERS is not one of auto, skip, required" >&2
	exit 2
	;;
esac
CURFEW_LEFT_OUT=$(mktemp)
export CURFEW_SERVERS CURFEW_LEFT_OUT
trap 'rm -f "$CURFEW_LEFT_OUT"' EXIT

left_out=
# The race detector needs cgo, so building that tells whether it works here.
if why=$(go build -race runtime/cgo 2>&1); then
	set -- -race "$@"
elif [ "${CURFEW_RACE-}" = required ]; then
	printf '%s\n' "$why" "test.sh: the race detector does not work here" >&2
	exit 1
elif command -v "$(go env CC | cut -d' ' -f1)" >/dev/null; then
	left_out="; the race detector (it does not build here)"
else
	left_out="; the race detector (no C compiler)"
fi

# All modules in one run: each package has its closing line, and none hides
# another's.
modules=$(go list -m -f '{{.Dir}}/...')
while read -r module; do set -- "$@" "$module"; done <<<"$modules"
code=0
go test -timeout 20m "$@" || code=$?
# Memory and stacks are counted without the race detector, under which these skip.
if [ "$1" = -race ]; then
	go test -count=1 -timeout 5m -run '^Test(Stack_|Allocations|ItemsAreMadeTogether)' ./scope || code=$?
fi

if [ -s "$CURFEW_LEFT_OUT" ]; then
	count=$(sort -u "$CURFEW_LEFT_OUT" | wc -l | tr -d ' ')
	kinds=$(cut -f1 "$CURFEW_LEFT_OUT" | sort -u | paste -sd, - | sed 's/,/, /g')
	left_out="$left_out; tests that need $kinds, not installed: $count"
fi
if [ -n "$left_out" ]; then echo "left out: ${left_out#; }"; fi
exit "$code"
