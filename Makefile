# Tarn's house work. `make help` lists the targets.

GO      ?= go
# Nested modules: what users of the library must not inherit.
NESTED  := $(patsubst %/go.mod,%,$(filter-out go.mod,$(shell git ls-files '*go.mod')))
# Where the library must build and vet besides the machine at hand.
PORTS   := linux/386 linux/arm64 linux/s390x darwin/arm64 windows/amd64
# Packages whose whole job is bytes: tested on 32 bits too.
CORE    := . ./tarntest ./adapt ./wire ./sizing ./internal/...
FUZZTIME ?= 20s
# One package at a time under the race detector: tests that start servers share two cores badly.
export GOFLAGS += -timeout=20m

.PHONY: help
help: ## list the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 14

.PHONY: test
test: deps fmt vet ports units tags race nested ## everything that must be green, in every module

.PHONY: deps
deps: ## install the peers that tests talk to, where that is possible
	@./ci/deps.sh

.PHONY: fmt
fmt: ## fail if a file is not as gofmt has it
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); exit 1; }

.PHONY: vet
vet: ## go vet, every module
	$(GO) vet ./...
	@for m in $(NESTED); do echo "vet $$m"; (cd $$m && $(GO) vet ./...) || exit 1; done

.PHONY: ports
ports: ## vet for the other platforms
	@for p in $(PORTS); do echo "vet $$p"; GOOS=$${p%/*} GOARCH=$${p#*/} CGO_ENABLED=0 $(GO) vet ./... || exit 1; done

.PHONY: units
units: ## unit tests of the module
	$(GO) test ./...

.PHONY: tags
tags: ## the core without unsafe, and on 32 bits
	$(GO) test -tags tarn_safe $(CORE)
	GOARCH=386 CGO_ENABLED=0 $(GO) test $(CORE)

.PHONY: race
race: ## unit tests under the race detector
	$(GO) test -race -p 1 ./...

.PHONY: nested
nested: ## tests of the nested modules: interop with other implementations, benchmarks once
	@for m in $(NESTED); do echo "test $$m"; (cd $$m && $(GO) test ./...) || exit 1; done

.PHONY: bench
bench: ## the core beside its peers, printed by benchstat
	./bench/run.sh

.PHONY: fuzz
fuzz: ## run each fuzz target for FUZZTIME
	@./ci/fuzz.sh $(FUZZTIME)
