# Every target with a "##" comment shows up in make help.

STRESS   ?= 10
RUN      ?= .
FUZZTIME ?= 60s
BENCH    ?= .
COUNT    ?= 1
SUITE    ?=
CASE     ?=

export FUZZTIME

# As they were given: make would take the $ out of a regexp.
regexp = '$(value $(1))'
picked = -suite '$(SUITE)' -case $(call regexp,CASE)

.DEFAULT_GOAL := help
.PHONY: help test race stress fuzz bench rivals tables micro twin lint api tidy servers

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  %-9s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)

test: ## Test every module, under -race where a C compiler is, with real servers
	@scripts/test.sh -count=1

race: ## The same, but fail without the race detector and install nothing
	@CURFEW_RACE=required CURFEW_SERVERS=skip scripts/test.sh -count=1

stress: ## Repeat what tests repeat STRESS (10) times as often; RUN=regexp picks tests
	@CURFEW_STRESS=$(STRESS) CURFEW_SERVERS=skip scripts/test.sh -count=1 -timeout=6h -run=$(call regexp,RUN)

fuzz: ## Run each fuzz function for FUZZTIME (60s)
	@scripts/fuzz.sh

bench: ## Measure everything beside other libraries, in under 15 minutes; SUITE=cancel,hedge and CASE=regexp pick
	@mkdir -p bench/out
	@go run ./bench/cmd/curfewbench $(picked) -html bench/out/report.html $(if $(SUITE)$(value CASE),,-save bench/out/results.jsonl)

rivals: ## The same as a quick look, in under 2 minutes; SUITE=cancel,hedge and CASE=regexp pick
	@go run ./bench/cmd/curfewbench -quick $(picked)

tables: ## Put the figures of the last whole make bench into the tables of README.md and docs
	@scripts/tables.sh

micro: ## Run the root module's own benchmarks; BENCH=regexp picks, COUNT repeats
	@go test -run='^$$' -bench=$(call regexp,BENCH) -benchmem -count=$(COUNT) ./...

twin: ## Compare a task's cost with and without the hooks that nobody uses
	@scripts/twin.sh

lint: ## gofmt, go mod tidy, go vet and staticcheck over every module
	@scripts/lint.sh

api: ## Rewrite api/*.txt from what the public packages export
	@go test -count=1 -run='^TestSurfaceIsTheOneInAPI$$' ./internal/apisurface -update

tidy: ## Tidy every module and go.work
	@scripts/tidy.sh

servers: ## Install the server programs that tests start (Debian, as root)
	@scripts/servers.sh install
