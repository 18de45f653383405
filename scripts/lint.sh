#!/usr/bin/env bash
# Looks over every module: gofmt, go mod tidy, go vet, staticcheck. Shows what
# each of them finds and exits 1 if any found something.
set -euo pipefail
cd "$(dirname "$0")/.."
code=0

unformatted=$(gofmt -l .) || code=1
if [ -n "$unformatted" ]; then
	printf 'not formatted:\n%s\n' "$unformatted"
	code=1
fi

while read -r mod; do
	(cd "$(dirname "$mod")" && go mod tidy -diff) || code=1
done < <(find . -name go.mod -not -path '*/testdata/*')

set --
modules=$(go list -m -f '{{.Dir}}/...')
while read -r module; do set -- "$@" "$module"; done <<<"$modules"
go vet "$@" || code=1

# The linter is built from its own module alone, outside of go.work, so it
# and our packages do not change each other's versions.
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
GOWORK=off go -C internal/tools build -o "$bin/" tool
"$bin/staticcheck" "$@" || code=1
exit $code
