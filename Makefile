# Everything a contributor runs. Each target does its own set-up: what is missing is installed by scripts/ensure, into
# .cache/ where that is possible.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

GO ?= go
# Tests that hang are stopped with all goroutines printed, while there is still time to read them.
TEST_TIMEOUT ?= 15m
# How long each fuzz target is run.
FUZZTIME ?= 20s
# What the programs say they are: the tag, or the distance from it, and whether the tree was changed.
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
IMAGE ?= lockd
LDFLAGS := -s -w -X main.version=$(VERSION)

.PHONY: help
help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: ## run lockd with its defaults: leases in memory, nothing to install
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/lockd ./cmd/lockd
	@exec bin/lockd

# bench/ is a module of its own, so that what lockd is compared with never becomes a dependency of lockd. Its code is
# kept compiling and clean all the same.
MODULES := . $(wildcard bench)

define lint_go
	for module in $(MODULES); do (cd $$module && $(GO) vet ./... && '$(CURDIR)/.cache/bin/golangci-lint' run ./...); done
endef

# What `test` and `check` do before the tests. The lines stop at the first that fails.
.PHONY: inspect
inspect:
	@scripts/ensure cc redis java proto lint
	scripts/generate --check
	scripts/proto-check
	$(lint_go)

.PHONY: test
test: inspect ## the whole suite, as CI runs it
	$(GO) test -race -timeout $(TEST_TIMEOUT) ./...

.PHONY: check
check: inspect ## before a commit: the same with the short tests only
	$(GO) test -race -short -timeout $(TEST_TIMEOUT) ./...

.PHONY: generate
generate: ## make the stubs in api/gen from the protos
	@scripts/ensure proto
	scripts/generate

.PHONY: generate-check
generate-check: ## fail when the stubs are not what the protos give; changes nothing
	@scripts/ensure proto
	scripts/generate --check

.PHONY: lint
lint: ## lint the protos and the Go code
	@scripts/ensure proto lint
	scripts/proto-check
	$(lint_go)

.PHONY: format
format: ## format the Go code as lint wants it
	@scripts/ensure lint
	.cache/bin/golangci-lint fmt

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME (20s)
	@scripts/ensure cc
	scripts/fuzz $(FUZZTIME)

.PHONY: bench
bench: ## run the benchmarks of the module bench/
	@scripts/ensure redis
	$(MAKE) -C bench

.PHONY: build
build: ## build bin/lockd and bin/lockctl
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/lockd ./cmd/lockctl

.PHONY: image
image: ## build the container image lockd:VERSION
	docker build --build-arg VERSION='$(VERSION)' -t '$(IMAGE):$(VERSION)' .

.PHONY: clean
clean: ## remove what was built; .cache/ with the tools stays
	rm -rf bin test/redisson/target
