# Everything a contributor runs. Each target does its own set-up: what is missing is installed by scripts/ensure, into
# .cache/ where that is possible.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

GO ?= go
# What is compiled is the same in every checkout: otherwise each clone would fill Go's cache with its own.
export GOFLAGS := $(filter-out -trimpath,$(shell $(GO) env GOFLAGS)) -trimpath
# Tests that hang are stopped with all goroutines printed, while there is still time to read them.
TEST_TIMEOUT ?= 15m
# How long each fuzz target is run.
FUZZTIME ?= 20s
# What the programs say they are: the tag, or the distance from it, and whether the tree was changed.
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
IMAGE ?= lockd
# The first of the four ports of run: for clients, for probes, for operators, for the console.
PORT ?= 7420
RUN_PORTS = $(shell seq $(PORT) $$(($(PORT) + 3)))
LDFLAGS := -s -w -X main.version=$(VERSION)

.PHONY: help
help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: build ## run lockd with its leases in memory: nothing to install. PORT=7450 if another one has 7420
	@for port in $(RUN_PORTS); do if (exec 3<>/dev/tcp/127.0.0.1/$$port) 2>/dev/null; then \
		echo "port $$port is in use; choose another one: make run PORT=7450 (uses 4 ports from there)" >&2; exit 1; fi; done
	@echo 'Try it in another terminal, in this directory:'
	@echo "  bin/lockctl --addr 127.0.0.1:$(PORT) exec door -- sh -c 'echo holding \$$LOCKD_NAME; sleep 30'"
	@echo '  bin/lockctl --addr 127.0.0.1:$(PORT) inspect door'
	@echo 'See it in a browser: http://127.0.0.1:$(word 4,$(RUN_PORTS))/'
	@exec bin/lockd --listen 127.0.0.1:$(PORT) --ops-listen 127.0.0.1:$(word 2,$(RUN_PORTS)) --admin-listen 127.0.0.1:$(word 3,$(RUN_PORTS)) \
		--console-listen 127.0.0.1:$(word 4,$(RUN_PORTS))

.PHONY: demo
demo: build ## three replicas over a Redis (one in memory if there is none), in use in many ways, and their console. PORT=7450
	$(GO) build -o bin/demo ./examples/demo
	@exec bin/demo -port $(PORT)

# bench/ is a module of its own, so that what lockd is compared with never becomes a dependency of lockd; and so are the
# adapters/, for the libraries that they are for. Their code is kept compiling and clean all the same, and scripts/test
# runs the tests of the adapters.
MODULES := . $(wildcard bench adapters/*)

define lint_go
	for module in $(MODULES); do (cd $$module && '$(CURDIR)/.cache/bin/golangci-lint' run ./...); done
endef

.PHONY: inspect
inspect: ## before a commit: what is found without a test. `make test` does that, too
	@scripts/ensure cc proto lint promtool chart
	scripts/generate --check
	scripts/proto-check
	.cache/bin/promtool test rules deploy/prometheus/*.test.yaml
	scripts/chart --short
	$(lint_go)

# What go test is told besides.
TESTFLAGS ?=

# What the tests need. On a fresh machine they would starve beside a compiler, so it is at work while the rest is fetched.
define ready
	@scripts/ensure cc
	@$(GO) build -race ./... & scripts/ensure redis java stubs pythonsdk tests browser; wait $$!
endef

.PHONY: test
test: ## inspect, and each promise proven once, as CI runs it
	$(ready)
	scripts/test -timeout $(TEST_TIMEOUT) $(TESTFLAGS) ./...

.PHONY: test-long
test-long: ## the same, long comparisons, all faults for minutes, and each version of Redis: hours. A release needs it
	$(ready)
	TEST_LONG=1 scripts/test -timeout 2h $(TESTFLAGS) ./...
	$(MAKE) test-faults test-replicas test-attacks test-servers test-compat

# What the store's tests run over, besides the redis-server of this machine. scripts/servers fetches them.
SERVERS ?= redis-6.2 redis-8.0 valkey-8.1
FAULTS := LostReplies|RedisStaysAway|WithoutData|WritesArePaused|AMob

.PHONY: test-servers
test-servers: ## run the tests of the Redis store, and some with faults, over each of SERVERS
	@scripts/ensure cc java
	@scripts/servers
	failed=(); for server in $(SERVERS); do \
		echo "== $$server"; export TEST_LONG=1 TEST_REDIS_SERVER='$(CURDIR)/.cache/servers/'$$server; \
		$(GO) test -race -timeout 1h ./internal/redistest ./internal/redisstore/... || failed+=("$$server: the store"); \
		$(GO) test -timeout $(TEST_TIMEOUT) -run '$(FAULTS)' ./test/e2e || failed+=("$$server: faults"); done; \
	if (($${#failed[@]})); then printf 'failed: %s\n' "$${failed[@]}"; exit 1; fi; echo "all passed over: $(SERVERS)"

# For how long things fail in each topology, and what chooses them; 0 = any.
LENGTH ?= 60s
SEED ?= 0

.PHONY: test-faults
test-faults: ## have 16 clients use locks while everything fails, over each topology. LENGTH=10m SEED=7
	@scripts/ensure cc redis
	TEST_LONG=1 $(GO) test -race -count=1 -timeout $(TEST_TIMEOUT) -v -artifacts -outputdir '$(CURDIR)/.cache' ./test/faultrun -skip '$(FLEET)|BrokenConnections' -length $(LENGTH) -seed $(SEED)

# Tests of test/faultrun in which replicas of lockd fail and the stores do not.
FLEET := Replica|Rolling|TestSessionsSpread

.PHONY: test-replicas
test-replicas: ## kill, stop and restart three replicas under load, on one Redis and on a majority. LENGTH=10m SEED=7
	@scripts/ensure cc redis
	TEST_LONG=1 $(GO) test -race -count=1 -timeout $(TEST_TIMEOUT) -v -artifacts -outputdir '$(CURDIR)/.cache' ./test/faultrun -run '$(FLEET)' -parallel 2 -length $(LENGTH) -seed $(SEED)

.PHONY: test-sharing
test-sharing: ## have the SDKs of Java and Python share locks with Redisson while everything fails. LENGTH=10m
	@scripts/ensure cc redis java pythonsdk
	TEST_LONG=1 $(GO) test -race -count=1 -timeout 1h -v -run 'AllShare|CareForLosses' ./test/redisson -length $(LENGTH)

# For how long nothing fails in test-alerts, and nothing may fire.
HEALTHY ?= 10m

.PHONY: test-alerts
test-alerts: ## have each alert fired by its fault, in a real Prometheus, and none in HEALTHY=10m without a fault
	@scripts/ensure cc redis prometheus
	$(GO) test -count=1 -timeout $(TEST_TIMEOUT) -v ./test/alerts -healthy $(HEALTHY) \
		-prometheus '$(CURDIR)/.cache/bin/prometheus' -exporter '$(CURDIR)/.cache/bin/prometheus-redis-exporter'

.PHONY: pictures
pictures: ## write a picture of each page of the console, wide and narrow, dark and light, into .cache/pictures
	@scripts/ensure browser
	$(GO) test -count=1 ./test/browser -run Pictures -pictures '$(CURDIR)/.cache/pictures'

.PHONY: test-attacks
test-attacks: ## have hostile clients beside honest ones, who lose nothing, for LENGTH=60s each
	@scripts/ensure cc
	$(GO) test -count=1 -timeout 4h -v ./test/attacks -long $(LENGTH)

.PHONY: bench-attacks
bench-attacks: ## measure what honest clients keep of their speed beside hostile ones. With LENGTH=10s half an hour, alone
	@scripts/ensure cc
	$(GO) test -count=1 -timeout 4h -v ./test/attacks -measure -long $(LENGTH)

.PHONY: cluster-up
cluster-up: ## start a Kubernetes on this machine: test/cluster/cluster exec kubectl get nodes. Needs root
	@scripts/ensure cluster chart
	test/cluster/cluster up

.PHONY: cluster-down
cluster-down: ## end it, with everything that it left
	test/cluster/cluster down

# Which tests of test/cluster are run.
RUN ?= .

.PHONY: test-cluster
test-cluster: ## install the chart on a Kubernetes on this machine, and restart, kill, drain and scale it under load. Needs root
	@scripts/ensure cluster chart buildkit redis
	BUILDER=buildctl PLATFORMS=linux/$$($(GO) env GOARCH) scripts/image lockd cluster
	test/cluster/cluster run $(GO) test -count=1 -v -timeout 30m -run '$(RUN)' ./test/cluster

# The earlier commit of test-compat; by default the newest release, or 50 commits ago.
REF ?=

.PHONY: test-compat
test-compat: ## have this lockd and its clients work with those of an earlier commit. REF=v1.0.0
	@scripts/ensure cc redis
	scripts/compat $(REF)

.PHONY: generate
generate: ## make the committed stubs, of Go and Python, from the protos
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
	@scripts/ensure redis java pythonsdk
	$(MAKE) -C bench

.PHONY: bench-scale
bench-scale: ## take and hold a million leases and 20,000 sessions. BENCHFLAGS='-leases 100000 -hold 10m'
	@scripts/ensure redis
	$(MAKE) -C bench scale

.PHONY: bench-scripts
bench-scripts: ## measure the scripts that keep Redis busy for longest, beside the bound of them. On a quiet machine
	@scripts/ensure cc
	$(GO) test -run '^$$' -bench LongScripts -benchtime 1x ./internal/redisstore

.PHONY: build
build: ## build bin/lockd and bin/lockctl
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/lockd ./cmd/lockctl

.PHONY: chart
chart: ## lint and test the Helm chart, and what is made of it. After a change: make chart-update
	@scripts/ensure chart
	scripts/chart

.PHONY: chart-update
chart-update: ## make the files anew that are made of the chart, the alerts and the dashboards
	@scripts/ensure chart
	$(GO) test ./internal/config -run Chart -update
	scripts/chart --update

.PHONY: image
image: ## build the container image lockd:VERSION with docker, buildah or BuildKit
	scripts/image '$(IMAGE)' '$(VERSION)'

.PHONY: image-check
image-check: ## build the image twice with BuildKit, and check that it is the same, small, and as it should be
	scripts/image --check

.PHONY: release
release: ## make what is published of a version in bin/release: archives, chart, stubs, checksums
	@scripts/ensure java proto chart
	scripts/release

.PHONY: release-check
release-check: ## make it twice, and check that it is the same, and says which version it is
	@scripts/ensure java proto chart
	scripts/release --check

.PHONY: clean
clean: ## remove what was built; .cache/ with the tools stays
	rm -rf bin api/gen/java/target sdk/java/*/target
