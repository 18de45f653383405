#!/usr/bin/env bash
# Tidies every module. First each takes over the versions that go.work has
# chosen for all, so what the tests ran with is what go.mod asks for.
set -euo pipefail
cd "$(dirname "$0")/.."

go work sync
while read -r mod; do
	(cd "$(dirname "$mod")" && go mod tidy)
done < <(find . -name go.mod -not -path '*/testdata/*')
