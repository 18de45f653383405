#!/usr/bin/env bash
# Makes the tables of README.md and docs/performance.md from figures that curfewbench
# has saved: those of the last whole `make bench` where there are any, which are then
# kept as bench/results.jsonl, else from those that are kept. Commit all three.
set -euo pipefail
cd "$(dirname "$0")/.."

last=bench/out/results.jsonl kept=bench/results.jsonl from=$kept
if [ -e $last ] && [ $last -nt $kept ]; then from=$last; fi
# It refuses what is not of a whole run, as of a make bench that was interrupted; what is
# kept then stays as it is.
go run ./bench/cmd/benchtables -from $from README.md docs/performance.md
if [ $from != $kept ]; then cp $from $kept; fi
